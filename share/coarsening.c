// SPDX-License-Identifier: Apache-2.0
#include "coarsening.h"

#include <string.h>

#include "control_calls.h"
#include "ops.h"
#include "option_values.h"

enum { WORD_BYTES = 64, BITS_MAX = 32 };

static const char *parse_one(const char *text, struct coarsening *coarsening) {
    if (!strncmp(text, "sizes=", 6))
        return ht_parse_whole(text + 6, 1, BITS_MAX, &coarsening->size_bits)
                   ? NULL
                   : "expected a number of significant bits from 1 to 32 such as sizes=3";
    if (strncmp(text, "times=", 6)) return "expected sizes=BITS or times=TIME";
    return ht_parse_duration(text + 6, &coarsening->time_ns) && coarsening->time_ns
               ? NULL
               : "expected a time above 0 such as times=1ms";
}

const char *coarsening_parse(const char *text, struct coarsening *coarsening) {
    char copy[2 * WORD_BYTES], *rest = copy, *one;
    *coarsening = (struct coarsening){0};
    if (strlen(text) >= sizeof copy) return "expected sizes=BITS or times=TIME";
    strcpy(copy, text);
    while ((one = strsep(&rest, ","))) {
        bool again = *one == 's' ? coarsening->size_bits : coarsening->time_ns;
        if (again) return "expected each key once";
        const char *expected = parse_one(one, coarsening);
        if (expected) return expected;
    }
    return NULL;
}

// Up to the next number with so few significant bits; down where there is none. Sizes below 2^bits are what they were.
// The next one is a multiple of any power of two that the size was one of.
static uint64_t coarse_bytes(const struct coarsening *coarsening, uint64_t bytes) {
    uint64_t bits = coarsening->size_bits;
    if (!bits || bytes >> bits == 0) return bytes;
    uint64_t step = UINT64_C(1) << (64 - (unsigned)__builtin_clzll(bytes) - bits);
    uint64_t up = (bytes + step - 1) & ~(step - 1);
    return up ? up : bytes & ~(step - 1);
}

uint64_t coarse_time(const struct coarsening *coarsening, uint64_t time_ns) {
    return coarsening->time_ns ? time_ns - time_ns % coarsening->time_ns : time_ns;
}

// What is allocated by an element's size and a count.
static bool has_count(unsigned function) { return function == HT_CALLOC || function == HT_REALLOCARRAY; }

void coarsen_event(const struct coarsening *coarsening, struct ht_events *events, uint32_t row) {
    uint64_t *size = &events->size[row], *extra = &events->extra[row];
    unsigned function = ht_op_function(events->op[row]);
    events->time_ns[row] = coarse_time(coarsening, events->time_ns[row]);
    if (function == HT_CONTROL) return;  // settings, not sizes of what the program works on
    if (function == HT_ADVISE)
        *extra = ht_advice_extra(coarse_bytes(coarsening, ht_advice_offset(*extra)), (unsigned)*extra & 0xff);
    if (coarsening->size_bits && has_count(function)) {
        if (__builtin_mul_overflow(*size, *extra, size)) *size = UINT64_MAX;
        *extra = 1;
    }
    *size = coarse_bytes(coarsening, *size);
}

void coarsen_facts(const struct coarsening *coarsening, struct ht_trace_facts *facts) {
    for (size_t i = 0; i < facts->samples_count; i++) {
        struct ht_sample *sample = &facts->samples[i];
        sample->time_ns = coarse_time(coarsening, sample->time_ns);
        sample->cpu_ns = coarse_time(coarsening, sample->cpu_ns);
        // A rounded figure says nothing of the program, and an exact one would give sizes away.
        if (coarsening->size_bits) sample->rss_anon_bytes = sample->own_rss_bytes = 0;
    }
    for (size_t i = 0; i < facts->steps_count; i++)
        facts->steps[i].time_ns = coarse_time(coarsening, facts->steps[i].time_ns);
    for (size_t i = 0; i < facts->threads_count; i++) {
        facts->threads[i].start_ns = coarse_time(coarsening, facts->threads[i].start_ns);
        facts->threads[i].end_ns = coarse_time(coarsening, facts->threads[i].end_ns);
    }
}

// How many pages a block's size takes, and will take.
struct size_pages {
    uint64_t own, coarse;
};

static uint64_t pages_of(uint64_t bytes, uint64_t page_bytes) {
    return bytes / page_bytes + (bytes % page_bytes != 0);
}

static uint64_t coarse_pages(const struct coarsening *coarsening, const struct size_pages *size,
                             uint64_t pages) {
    if (!coarsening->size_bits) return pages;
    if (pages > size->own) return size->coarse + 1;
    uint64_t most = coarse_bytes(coarsening, pages);
    return most < size->coarse ? most : size->coarse;
}

static void coarsen_step(const struct coarsening *coarsening, const struct size_pages *size,
                         struct ht_residency_step *step) {
    step->pages = coarse_pages(coarsening, size, step->pages);
    step->first_page = coarse_bytes(coarsening, step->first_page);
    step->run_pages = coarse_bytes(coarsening, step->run_pages);
}

void coarsen_pages(const struct coarsening *coarsening, struct coarsened_rows *rows,
                   struct ht_trace_facts *facts, uint64_t event, uint64_t bytes, uint64_t coarse) {
    const struct size_pages none = {UINT64_MAX, UINT64_MAX},
                            size = {pages_of(bytes, rows->page_bytes), pages_of(coarse, rows->page_bytes)};
    for (; rows->residency < facts->residency_count; rows->residency++) {
        struct ht_residency *row = &facts->residency[rows->residency];
        if (row->event > event) break;
        const struct size_pages *of = row->event == event ? &size : &none;
        row->pages_before = coarse_pages(coarsening, of, row->pages_before);
        row->pages_after = coarse_pages(coarsening, of, row->pages_after);
        row->pages_spared = coarse_pages(coarsening, of, row->pages_spared);
    }
    for (; rows->steps < facts->steps_count; rows->steps++) {
        struct ht_residency_step *step = &facts->steps[rows->steps];
        if (step->event > event) break;
        coarsen_step(coarsening, step->event == event ? &size : &none, step);
    }
}
