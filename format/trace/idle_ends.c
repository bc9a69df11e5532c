// SPDX-License-Identifier: Apache-2.0
#include "idle_ends.h"

#include <stdio.h>

static const uint64_t second_ns = 1000000000, millisecond_ns = 1000000;
enum { SHARE_OF_CALLS = 100, SHARE_OF_TIME = 10 };

// When the event of that number was.
static bool time_of(struct ht_trace_reader *reader, uint64_t event, uint64_t *time_ns) {
    struct ht_error error;
    for (size_t i = 0; i < ht_trace_sections(reader); i++) {
        const struct ht_section_place *place = ht_trace_section(reader, i);
        struct ht_events events;
        if (place->kind != HT_SECTION_EVENTS || event < place->first_event ||
            event - place->first_event >= place->rows)
            continue;
        if (ht_trace_events(reader, i, &events, &error)) return false;
        *time_ns = events.time_ns[event - place->first_event];
        return true;
    }
    return false;
}

static bool is_long(uint64_t idle_ns, uint64_t end_ns) {
    return idle_ns > second_ns && idle_ns > end_ns / SHARE_OF_TIME;
}

bool ht_idle_ends(struct ht_trace_reader *reader, const char *path, uint64_t end_ns,
                  char words[HT_IDLE_ENDS_BYTES]) {
    uint64_t count = ht_trace_records(reader), begin_ns = 0, last_ns = end_ns;
    if (!count || !time_of(reader, count / SHARE_OF_CALLS, &begin_ns) ||
        !time_of(reader, count - 1 - count / SHARE_OF_CALLS, &last_ns) || last_ns > end_ns)
        return false;
    bool first = is_long(begin_ns, end_ns), last = is_long(end_ns - last_ns, end_ns);
    char idle[80], from[48] = "", to[48] = "";
    double begin_s = (double)begin_ns / 1e9, rest_s = (double)(end_ns - last_ns) / 1e9;
    if (first && last) snprintf(idle, sizeof idle, "first %.1f s and the last %.1f s", begin_s, rest_s);
    else snprintf(idle, sizeof idle, "%s %.1f s", first ? "first" : "last", first ? begin_s : rest_s);
    uint64_t from_ms = begin_ns / millisecond_ns, to_ms = last_ns / millisecond_ns + 1;
    // To the millisecond, so that no call of the busy time is lost.
    if (first) snprintf(from, sizeof from, " --from-time %.3fs", (double)from_ms / 1e3);
    if (last) snprintf(to, sizeof to, " --to-time %.3fs", (double)to_ms / 1e3);
    snprintf(words, HT_IDLE_ENDS_BYTES,
             "the %s of %.1f s have hardly any calls; without them: heaptape slice %s -o busy.bin%s%s", idle,
             (double)end_ns / 1e9, path, from, to);
    return first || last;
}
