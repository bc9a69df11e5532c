// SPDX-License-Identifier: Apache-2.0
// Which event of the trace a call of the replay was. The form has no room for that; the trace is
// searched again for the few calls that are reported.
#ifndef HEAPTAPE_FORM_LOOKUP_H
#define HEAPTAPE_FORM_LOOKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "form_builder.h"
#include "verify_findings.h"

struct ht_found_call {
    struct ht_call_place place;  // to be found
    bool found;
    uint64_t event, size, extra;
    uint32_t thread;  // of the trace, also where one thread replays all
    uint8_t op;
};

// Fills in what is found. Returns 0, or -1 with error. No decoder may be running.
int ht_form_look_up(const struct ht_built_form *built, struct ht_found_call *calls, size_t count,
                    struct ht_error *error);

#endif
