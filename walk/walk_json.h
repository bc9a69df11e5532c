// SPDX-License-Identifier: Apache-2.0
// What a walk found, as JSON (docs/reference/walk.md).
#ifndef HEAPTAPE_WALK_JSON_H
#define HEAPTAPE_WALK_JSON_H

#include <jansson.h>

#include "accounts.h"
#include "process.h"
#include "which_malloc.h"

struct walk_result {
    const struct process *process;  // NULL: of a core
    const char *core;
    const struct modules *modules;
    const struct allocator *allocator;
    const struct glibc *glibc;        // NULL: not walked
    const struct accounts *accounts;  // of it
    const struct other *other;        // another allocator's heap; NULL: not walked
    const struct outside *outside;
    struct process_memory memory;
    bool stopped;
    double seconds;
    const char *why_not;  // it was not walked, or NULL
};

json_t *walk_json(const struct walk_result *result);

#endif
