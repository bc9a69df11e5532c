// SPDX-License-Identifier: Apache-2.0
#include "convert_request.h"

#include <stdio.h>
#include <string.h>

#include "print.h"

void convert_show_progress(void *context, uint64_t done, uint64_t total, uint64_t events) {
    struct ht_progress *shown = context;
    char count[HT_NUMBER_OF_BYTES];
    if (!ht_progress_due(shown)) return;
    ht_number_of(count, events, "event");
    if (total)
        ht_progress_draw(shown, "%3.0f %%  %s%s", 100.0 * (double)done / (double)total, count,
                         ht_progress_left(shown, done, total));
    else ht_progress_draw(shown, "%s", count);
}

void convert_warn_of_unseen(const char *output, const struct merge_totals *totals, const char *inside) {
    char words[HT_HEAP_SHARE_TEXT_BYTES], swollen[HT_HEAP_SWOLLEN_TEXT_BYTES];
    struct ht_heap_share share = merge_heap_share(totals);
    share.inside = inside;
    if (ht_heap_share_is_small(&share))
        fprintf(stderr, "heaptape convert: warning: %s: %s\n", output, ht_heap_share_words(words, &share));
    else if (!merge_heap_is_unknown(totals) &&
             ht_heap_is_swollen(totals->heap_rss_peak_bytes, totals->peak_live_bytes))
        fprintf(stderr, "heaptape convert: warning: %s: %s\n", output,
                ht_heap_swollen_words(swollen, totals->heap_rss_peak_bytes, totals->peak_live_bytes));
}

void convert_say_result(const char *output, const struct merge_totals *totals, uint64_t file_bytes,
                        double seconds, uint64_t skipped) {
    char events[HT_NUMBER_OF_BYTES], size[32], peak[32], blocks[HT_NUMBER_OF_BYTES],
        count[HT_NUMBER_OF_BYTES];
    ht_print(stderr, "%s: %s, %s (%.2f B/event) in %.1f s; peak %s live in %s; %s",
             strcmp(output, "-") ? output : "standard output", ht_number_of(events, totals->events, "event"),
             ht_bytes(size, (double)file_bytes),
             totals->events ? (double)file_bytes / (double)totals->events : 0.0, seconds,
             ht_bytes(peak, (double)totals->peak_live_bytes),
             ht_number_of(blocks, totals->peak_live_objects, "block"),
             ht_number_of(count, totals->anomalies, "anomaly"));
    if (totals->inherited_objects)
        ht_print(stderr, ", %s inherited", ht_number_of(count, totals->inherited_objects, "block"));
    if (totals->foreign_frees)
        ht_print(stderr, ", %s", ht_number_of(count, totals->foreign_frees, "foreign free"));
    if (skipped) ht_print(stderr, ", %s of the input skipped", ht_number_of(count, skipped, "part"));
    fputc('\n', stderr);
    if (strcmp(output, "-")) ht_print(stderr, "next: heaptape replay --alloc all %s\n", output);
}
