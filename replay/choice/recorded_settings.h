// SPDX-License-Identifier: Apache-2.0
// What the environment of the recorded program set of its allocator (MALLOC_CONF, GLIBC_TUNABLES, MIMALLOC_PURGE_DELAY).
// An allocator of that kind is replayed with it: as it was set.
#ifndef HEAPTAPE_RECORDED_SETTINGS_H
#define HEAPTAPE_RECORDED_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "allocator.h"

enum {
    HT_SETTINGS_MAX = 40,
    HT_SETTING_NAME_BYTES = 64,
    HT_SETTING_VALUE_BYTES = 192,
    HT_SETTINGS_TEXT_BYTES = 320
};

enum ht_setting_state {
    HT_SETTING_TAKEN,     // the replay has it
    HT_SETTING_LEFT_OUT,  // it has not: not known, for debugging, or no value that the allocator takes
    HT_SETTING_OTHERS     // in the same variable, but nothing of the allocator: glibc.pthread.rseq
};

struct ht_setting {
    enum ht_setting_state state;
    const struct ht_knob *knob;            // NULL: no knob of the catalogue
    char name[HT_SETTING_NAME_BYTES];      // the knob's, or as it was written
    char value[HT_SETTING_VALUE_BYTES];    // as it was written
    char variable[HT_SETTING_NAME_BYTES];  // that holds it
    char key
        [HT_SETTING_NAME_BYTES];  // before the value, in a variable of several; empty: the value is all of it
};

struct ht_recorded_settings {
    const struct ht_allocator *kind;  // of the allocator that served the program; NULL: not known
    size_t count;
    struct ht_setting list[HT_SETTINGS_MAX];
};

// Adds those of a variable of the recorded program's environment, if its allocator reads it. linked: that one is part of
// the program, and may read MALLOC_CONF by another name (_RJEM_MALLOC_CONF).
void ht_recorded_settings_add(struct ht_recorded_settings *settings, const char *variable, const char *value,
                              bool linked);

// Those in this state as one text, such as arena_max=1,tcache_count=0. What does not fit is left out.
const char *ht_settings_text(const struct ht_setting *list, size_t count, enum ht_setting_state state,
                             char text[HT_SETTINGS_TEXT_BYTES]);

#endif
