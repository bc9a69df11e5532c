// What an allocator tells of itself, and how it is asked to give memory back. There is a file for each kind
// of allocator, which knows it by a function that only this kind has; that function must come from the object
// that serves malloc, so a preloaded library of a known kind is asked like a linked one.
#ifndef HEAPTAPE_SELF_REPORT_H
#define HEAPTAPE_SELF_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "child_figures.h"

struct ht_self_report {
    const char *known_by;      // name of the function
    const char *const *names;  // of the values, with units at their ends; NULL ends them
    // Fills a value for each name, HT_FIGURE_UNKNOWN where it can't be told. May be called by any thread
    // during the replay; must not allocate.
    void (*read)(void *known, uint64_t *values);  // known: that function
    const char *purge_call;                       // as documented in docs/replay-figures.md
    void (*purge)(void *known);
};

extern const struct ht_self_report ht_report_jemalloc, ht_report_tcmalloc, ht_report_mimalloc,
    ht_report_glibc;

struct ht_reporter {
    const struct ht_self_report *kind;  // NULL: of no kind that is known
    void *known;
    uint64_t (*usable_size)(void *block);  // NULL: it has none
};

// Looks at who serves malloc. Looking up names may allocate.
struct ht_reporter ht_reporter_find(void);

#endif
