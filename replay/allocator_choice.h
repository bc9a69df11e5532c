// Which allocators were asked for, and where their executables are.
#ifndef HEAPTAPE_ALLOCATOR_CHOICE_H
#define HEAPTAPE_ALLOCATOR_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

enum { HT_CHOICES_MAX = 64 };

struct ht_choice {
    char name[128];          // as given: the name in results
    char executable[4096];   // its replay-NAME
    char preload[4096];      // the library to preload, or empty
    uint64_t device, inode;  // of that library
    // As the object itself says, once described.
    char path[4096], version[128], build_id[80];
};

struct ht_choices {
    struct ht_choice list[HT_CHOICES_MAX];
    size_t count;
    bool null_only;  // null was asked for by name; it takes part in every round anyway
};

// Adds what a spec names: NAME, null, all, /path/lib.so, LABEL=NAME, LABEL=/path/lib.so, several with commas
// between. Labels let one allocator take part twice.
// Errors have the status that they deserve.
int ht_choices_add(struct ht_choices *choices, const char *spec, struct ht_error *error);
// Adds one built-in by name; -1 with an error that lists those built.
int ht_choices_add_name(struct ht_choices *choices, const char *name, struct ht_error *error);

#endif
