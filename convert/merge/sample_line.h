// The recorded process's own samples on their way into the trace. What the program maps for itself is
// measured less often than RssAnon; between two measurements it is taken to have moved with RssAnon, or in a
// straight line over time where that went another way.
#ifndef HEAPTAPE_SAMPLE_LINE_H
#define HEAPTAPE_SAMPLE_LINE_H

#include "merge_result.h"

enum { SAMPLES_HELD_MAX = 4096 };

struct sample_line {
    struct ht_trace_writer *writer;  // NULL: only the totals are wanted
    struct merge_totals *totals;
    struct ht_sample last_fresh;
    bool any_fresh;
    size_t held_count;
    struct ht_sample held[SAMPLES_HELD_MAX];  // since the last measurement
};

void sample_line_put(struct sample_line *line, const struct ht_sample *sample);
// Takes a sample that is written into the peaks of the totals.
void sample_line_count(struct merge_totals *totals, const struct ht_sample *sample);
// Writes what is held, as it is: no further measurement comes.
void sample_line_end(struct sample_line *line);

#endif
