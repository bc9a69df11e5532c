// SPDX-License-Identifier: Apache-2.0
// heaptape replay --list: what is built, and with --verbose or --json all that the catalogue knows of each kind.
#ifndef HEAPTAPE_ALLOCATOR_LIST_H
#define HEAPTAPE_ALLOCATOR_LIST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "added_allocators.h"
#include "replay_options.h"
#include "runner.h"

// One allocator of the list.
struct ht_listed {
    const struct ht_allocator *entry;  // the catalogue's, which may be another build of the kind
    const struct ht_allocator *kind;   // NULL: not known, of a library given by its path
    const struct ht_choice *choice;    // NULL: not built
    const struct ht_added *added;      // NULL: the user has not added it
    char problem[512];                 // why it cannot be asked who it is; empty: it was asked
};

enum { HT_SETTING_BYTES = 256 };
// How a knob is set by hand: NAME=VALUE of the environment.
void ht_knob_setting(const struct ht_allocator *kind, const struct ht_knob *knob,
                     char setting[HT_SETTING_BYTES]);
// The value in force, as the allocator reported it; NULL if it did not.
const char *ht_listed_value(const struct ht_listed *listed, size_t knob);
// "": not known.
const char *ht_listed_version(const struct ht_listed *listed);
// Whether that version has the knob; true where neither it nor the allocator says.
bool ht_listed_heeds(const struct ht_listed *listed, size_t knob);
json_t *ht_listed_json(const struct ht_listed *listed);

// Lists those that --alloc names; by default all that are built, all that the user has added and, with --verbose or --json, those of the
// catalogue that are not. With a trace: as they are replayed with it, with the settings of the recorded program. Returns an exit status.
int ht_allocator_list(struct ht_runner *runner, struct ht_replay_options *options);

#endif
