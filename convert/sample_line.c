#include "sample_line.h"

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

static void write_sample(struct sample_line *line, struct ht_sample sample) {
    struct merge_totals *totals = line->totals;
    if (sample.own_rss_bytes > sample.rss_anon_bytes) sample.own_rss_bytes = sample.rss_anon_bytes;
    ht_trace_put_sample(line->writer, &sample);
    totals->rss_peak_bytes = larger(totals->rss_peak_bytes, sample.rss_anon_bytes);
    totals->own_peak_bytes = larger(totals->own_peak_bytes, sample.own_rss_bytes);
    totals->heap_rss_peak_bytes =
        larger(totals->heap_rss_peak_bytes, sample.rss_anon_bytes - sample.own_rss_bytes);
    totals->cpu_ns = larger(totals->cpu_ns, sample.cpu_ns);
}

void sample_line_end(struct sample_line *line) {
    for (size_t i = 0; i < line->held_count; i++) write_sample(line, line->held[i]);
    line->held_count = 0;
}

void sample_line_put(struct sample_line *line, const struct ht_sample *sample) {
    if (!sample->own_fresh) {
        if (line->held_count == SAMPLES_HELD_MAX) sample_line_end(line);
        line->held[line->held_count++] = *sample;
        return;
    }
    double span_ns = (double)(sample->time_ns - line->last_fresh.time_ns);
    double rise = (double)sample->own_rss_bytes - (double)line->last_fresh.own_rss_bytes;
    for (size_t i = 0; i < line->held_count && line->any_fresh && span_ns > 0; i++) {
        double share = (double)(line->held[i].time_ns - line->last_fresh.time_ns) / span_ns;
        line->held[i].own_rss_bytes = (uint64_t)((double)line->last_fresh.own_rss_bytes + share * rise);
    }
    sample_line_end(line);
    write_sample(line, *sample);
    line->last_fresh = *sample;
    line->any_fresh = true;
}
