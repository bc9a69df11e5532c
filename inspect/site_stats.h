// SPDX-License-Identifier: Apache-2.0
// What each call site allocates, counted as stats passes over a trace. A block belongs to the site that allocated or last
// resized it.
#ifndef HEAPTAPE_SITE_STATS_H
#define HEAPTAPE_SITE_STATS_H

#include "site_words.h"
#include "slot_table.h"

struct site_figures {
    uint64_t calls, bytes;
    uint64_t live, live_bytes;
    uint64_t peak_live, peak_live_bytes, peak_number;  // as in struct stats_size_class
};

struct site_stats {
    struct site_words words;
    struct site_figures *site;    // by number; 0: unknown
    size_t count;                 // 0: the trace has no call sites
    struct slot_table of_blocks;  // of uint32_t
};

// Returns 0 or -1 with error.
int site_stats_begin(struct site_stats *stats, struct ht_trace_reader *reader, const char *path,
                     struct ht_error *error);
void site_stats_free(struct site_stats *stats);

// peak_number: how often a highest number of live bytes has been seen. inherited: nobody asked for the block in this trace.
void site_stats_made(struct site_stats *stats, uint32_t slot, uint32_t site, uint64_t bytes, bool inherited,
                     uint64_t peak_number);
void site_stats_ended(struct site_stats *stats, uint32_t slot, uint64_t bytes, uint64_t peak_number);
// A call that left no block: it failed, or released one.
void site_stats_called(struct site_stats *stats, uint32_t site);
void site_stats_finish(struct site_stats *stats, uint64_t peak_number);

// The sites from whose stacks one function asked for memory, at one line.
struct site_group {
    struct site_figures sum;
    uint32_t site;   // the one of them that allocated most
    uint32_t sites;  // how many
    uint64_t most_bytes;
    bool
        has_namesake;  // a function of the same name at the same line of a file of the same name, in another folder
    double share;  // the highest of its shares in calls, bytes, and blocks live at peak and end
};

// All groups, the highest shares first, to be freed by the caller. NULL for want of memory.
struct site_group *site_stats_groups(const struct site_stats *stats, size_t *count);

// The call sites that allocate most, as text: nothing for a trace without call sites.
void site_report_text(const struct site_stats *stats);
// As JSON, the list of them: empty for a trace without.
json_t *site_report_json(const struct site_stats *stats);

#endif
