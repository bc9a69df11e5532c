#include "convert_report.h"

#include <stdio.h>
#include <string.h>

#include "print.h"

void convert_show_progress(void *context, uint64_t done, uint64_t total, uint64_t events) {
    struct ht_progress *shown = context;
    char count[32];
    if (!ht_progress_due(shown)) return;
    ht_grouped(count, events);
    if (total)
        ht_progress_draw(shown, "%3.0f %%  %s events%s", 100.0 * (double)done / (double)total, count,
                         ht_progress_left(shown, done, total));
    else ht_progress_draw(shown, "%s events", count);
}

void convert_warn_of_unseen(const char *output, const struct merge_totals *totals) {
    char words[HT_HEAP_SHARE_TEXT_BYTES];
    struct ht_heap_share share = merge_heap_share(totals);
    if (ht_heap_share_is_small(&share))
        fprintf(stderr, "heaptape convert: warning: %s: %s\n", output, ht_heap_share_words(words, &share));
}

void convert_say_result(const char *output, const struct merge_totals *totals, uint64_t file_bytes,
                        double seconds, uint64_t skipped) {
    char events[32], size[32], peak[32], blocks[32], count[32];
    ht_print(stderr, "%s: %s events, %s (%.2f B/event) in %.1f s; peak %s live in %s blocks; %s anomalies",
             strcmp(output, "-") ? output : "standard output", ht_grouped(events, totals->events),
             ht_bytes(size, (double)file_bytes),
             totals->events ? (double)file_bytes / (double)totals->events : 0.0, seconds,
             ht_bytes(peak, (double)totals->peak_live_bytes), ht_grouped(blocks, totals->peak_live_objects),
             ht_grouped(count, totals->anomalies));
    if (totals->inherited_objects)
        ht_print(stderr, ", %s blocks inherited", ht_grouped(count, totals->inherited_objects));
    if (totals->foreign_frees)
        ht_print(stderr, ", %s foreign frees", ht_grouped(count, totals->foreign_frees));
    if (skipped) ht_print(stderr, ", %s parts of the input skipped", ht_grouped(count, skipped));
    fputc('\n', stderr);
    if (strcmp(output, "-")) ht_print(stderr, "next: heaptape replay --alloc all %s\n", output);
}
