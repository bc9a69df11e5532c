// SPDX-License-Identifier: Apache-2.0
#include "left_out_blocks.h"

#include <stdbool.h>
#include <string.h>

#include "option_values.h"

enum { WORD_BYTES = 64 };
#define FORM "expected size=LOW-HIGH, thread=N, born=FROM-TO or live=TIME"

// LOW-HIGH, or one value for both.
static bool parse_span(char *text, bool (*parse)(const char *, uint64_t *), uint64_t *low, uint64_t *high) {
    char *dash = strchr(text, '-');
    if (dash) *dash = 0;
    return parse(text, low) && parse(dash ? dash + 1 : text, high) && *low <= *high;
}

static bool parse_plain_bytes(const char *text, uint64_t *bytes) { return ht_parse_bytes(text, 1, bytes); }

static const char *parse_one(char *text, struct left_out_blocks *blocks) {
    uint64_t thread;
    if (!strncmp(text, "size=", 5))
        return parse_span(text + 5, parse_plain_bytes, &blocks->size_low, &blocks->size_high)
                   ? NULL
                   : "expected sizes in bytes such as size=48-64";
    if (!strncmp(text, "born=", 5))
        return parse_span(text + 5, ht_parse_duration, &blocks->born_from_ns, &blocks->born_to_ns)
                   ? NULL
                   : "expected times such as born=2.1s-2.4s";
    if (!strncmp(text, "live=", 5)) {
        blocks->only_live = true;
        return ht_parse_duration(text + 5, &blocks->live_at_ns) ? NULL : "expected a time such as live=3s";
    }
    if (strncmp(text, "thread=", 7) || !ht_parse_whole(text + 7, 0, UINT32_MAX - 1, &thread)) return FORM;
    blocks->thread = (uint32_t)thread;
    blocks->any_thread = false;
    return NULL;
}

const char *left_out_blocks_parse(const char *text, struct left_out_blocks *blocks) {
    char copy[4 * WORD_BYTES], *rest = copy, *one;
    *blocks = (struct left_out_blocks){
        .given = text, .size_high = UINT64_MAX, .born_to_ns = UINT64_MAX, .any_thread = true};
    if (strlen(text) >= sizeof copy) return FORM;
    strcpy(copy, text);
    for (bool seen[256] = {0}; (one = strsep(&rest, ","));) {
        if (seen[(unsigned char)*one]) return "expected each key once";  // they begin differently
        seen[(unsigned char)*one] = true;
        const char *expected = parse_one(one, blocks);
        if (expected) return expected;
    }
    return NULL;
}
