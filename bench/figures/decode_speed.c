// SPDX-License-Identifier: Apache-2.0
// How fast a trace is read, on one core: into arrays (ht_trace_events: ops, threads, times, slots, sizes),
// and on into the form that is replayed (ht_form_build). CPU seconds, the best of some rounds; the two are
// interleaved.
//
//     build/bench/decode_speed [-r ROUNDS] TRACE...
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "form_builder.h"
#include "now.h"
#include "trace_reader.h"

static double cpu_s(void) { return (double)ht_now_ns(CLOCK_PROCESS_CPUTIME_ID) / 1e9; }

static void stop(const struct ht_error *error) {
    fprintf(stderr, "decode_speed: %s\n", error->message);
    exit(error->status);
}

// Decodes every section; returns the events, and a sum that depends on all slots so that none is left out.
static uint64_t decode_all(struct ht_trace_reader *reader, uint64_t *sum) {
    uint64_t events = 0;
    for (size_t i = 0; i < ht_trace_sections(reader); i++) {
        struct ht_events section;
        struct ht_error error;
        if (ht_trace_section(reader, i)->kind != HT_SECTION_EVENTS) continue;
        if (ht_trace_events(reader, i, &section, &error)) stop(&error);
        events += section.rows;
        for (uint32_t row = 0; row < section.rows; row++) *sum += section.slot[row];
    }
    return events;
}

static void measure(const char *path, int rounds) {
    double arrays_s = 1e9, form_s = 1e9;
    uint64_t events = 0, sum = 0;
    for (int round = 0; round < rounds; round++) {
        struct ht_error error;
        struct ht_trace_reader *reader = ht_trace_open(path, &error);
        if (!reader) stop(&error);
        double started_s = cpu_s();
        events = decode_all(reader, &sum);
        double took_s = cpu_s() - started_s;
        if (took_s < arrays_s) arrays_s = took_s;
        const struct ht_form_options options = {.timed_one_in = 128, .seed = 1};
        struct ht_built_form built;
        started_s = cpu_s();
        if (ht_form_build(reader, path, &options, &built, &error)) stop(&error);
        took_s = cpu_s() - started_s;
        if (took_s < form_s) form_s = took_s;
        ht_form_free(&built);
        ht_trace_close(reader);
    }
    printf("%s: %" PRIu64
           " events; arrays %.1f M events/s; replay form %.1f M events/s (slots add up to %" PRIu64 ")\n",
           path, events, (double)events / arrays_s * 1e-6, (double)events / form_s * 1e-6,
           sum / (uint64_t)rounds);
}

int main(int argc, char **argv) {
    int rounds = 5, option;
    while ((option = getopt(argc, argv, "r:")) != -1)
        if (option != 'r' || (rounds = atoi(optarg)) < 1) return HT_EXIT_USAGE;
    if (optind == argc) {
        fprintf(stderr, "usage: decode_speed [-r ROUNDS] TRACE...\n");
        return HT_EXIT_USAGE;
    }
    for (; optind < argc; optind++) measure(argv[optind], rounds);
    return HT_EXIT_DONE;
}
