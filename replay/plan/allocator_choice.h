// SPDX-License-Identifier: Apache-2.0
// Which allocators were asked for, and where their executables are.
#ifndef HEAPTAPE_ALLOCATOR_CHOICE_H
#define HEAPTAPE_ALLOCATOR_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "added_allocators.h"
#include "error.h"
#include "knob_choice.h"

// Another C library than this program's own (--alloc NAME@LOADER): its dynamic loader starts the measured
// child, and finds its libc.so.6 before the system's.
struct ht_other_libc {
    char loader[4096];       // empty: the child is started as any program
    char folders[3 * 4096];  // where the loader searches libraries, with colons between
    uint64_t device, inode;  // of its libc.so.6
    // Threads and dlsym are in libraries of their own, as they are before glibc 2.34.
    bool in_parts;
};

enum { HT_CHOICES_MAX = 64 };

struct ht_choice {
    char name[128];                   // as given: the name in results
    char executable[4096];            // its replay-NAME
    char preload[4096];               // the library to preload, or empty
    uint64_t device, inode;           // of that library
    struct ht_other_libc libc;        // that it runs under, or empty
    const struct ht_allocator *kind;  // NULL: not known
    struct ht_knob_choices knobs;
    // The name that the user added it by, such as mimalloc@3.6.0; empty: it was not.
    char added[HT_ADDED_NAME_BYTES];
    bool labelled;  // its name does not say what was asked for
    bool plain;     // without the settings of the recorded program
    // As the object itself says, once described.
    char path[4096], version[128], build_id[80];
    bool skips_queries;                            // it has no malloc_usable_size
    bool lacks_operators;                          // nor operator new, and there is no C++ library
    uint32_t refused;                              // a bit for each of the trace's odd calls
    uint64_t refused_calls;                        // 0: it is replayed
    char refusal[320];                             // what it refuses
    struct ht_knob_report reported[HT_KNOBS_MAX];  // of its knobs, in the order of its kind's table
};

// The package of this distribution that brings its library; empty where there is none, or where the library was named by
// its path and came from elsewhere.
const char *ht_package_of_choice(const struct ht_choice *choice);

struct ht_choices {
    struct ht_choice list[HT_CHOICES_MAX];
    size_t count;
    bool null_only;  // null was asked for by name; it takes part in every round anyway
};

// Adds what a spec names: NAME, null, all, NAME@VERSION that the user has added, /path/lib.so, NAME@/path/ld.so for NAME under
// another C library,
// each but null and all with :KNOB=VALUE,KNOB=VALUE behind it, or with :default for what nobody has set, and with LABEL=
// before it; several with commas between. Labels let one allocator take part twice.
// Errors have the status that they deserve.
int ht_choices_add(struct ht_choices *choices, const char *spec, struct ht_error *error);
// Adds one built-in by name; -1 with an error that lists those built.
int ht_choices_add_name(struct ht_choices *choices, const char *name, struct ht_error *error);

// An allocator of the kind that the recorded program ran under gets the settings of that program, unless it is to be plain.
// Returns whether it got any.
bool ht_choice_take_settings(struct ht_choice *choice, const struct ht_recorded_settings *settings);

// Its name, with the settings of the recorded program that are in force.
const char *ht_choice_shown(const struct ht_choice *choice,
                            char text[sizeof((struct ht_choice *)NULL)->name + HT_SETTINGS_TEXT_BYTES]);

#endif
