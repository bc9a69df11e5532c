// SPDX-License-Identifier: Apache-2.0
#include "left_out_blocks.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "ops.h"
#include "option_values.h"
#include "slot_table.h"

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

struct finding {
    struct slot_table births;  // of uint64_t: the event of the live block, and 1
    struct ht_op_shape shape[256];
    bool over;
};

static bool take_section(struct finding *finding, const struct ht_events *events, uint64_t at_ns) {
    if (!slot_table_reach(&finding->births, events->slot, events->rows)) return false;
    uint64_t *birth = finding->births.items;
    for (uint32_t i = 0; i < events->rows && !finding->over; i++) {
        const struct ht_op_shape shape = finding->shape[events->op[i]];
        finding->over = events->time_ns[i] > at_ns;
        if (finding->over || !shape.slot) continue;
        if (shape.makes_object) birth[events->slot[i]] = events->first_event + i + 1;
        else if (shape.ends_object) birth[events->slot[i]] = 0;
    }
    return true;
}

static bool mark(struct live_births *births, const struct finding *finding) {
    births->word = calloc(births->events / 64 + 1, sizeof *births->word);
    if (!births->word) return false;
    const uint64_t *birth = finding->births.items;
    for (uint64_t slot = 0; (slot = slot_table_next(&finding->births, slot)) < finding->births.room; slot++) {
        uint64_t event = birth[slot] - 1;  // of no block: beyond all
        if (event < births->events) births->word[event / 64] |= UINT64_C(1) << event % 64;
    }
    return true;
}

int live_births_find(struct live_births *births, struct ht_trace_reader *reader, const char *path,
                     uint64_t at_ns, struct ht_error *error) {
    struct finding finding = {.births = slot_table_of(sizeof(uint64_t))};
    int status = 0;
    bool room = true;
    for (unsigned op = 0; op < 256; op++) finding.shape[op] = ht_op_shape((uint8_t)op);
    *births = (struct live_births){.word = NULL};
    for (size_t i = 0; i < ht_trace_sections(reader) && !status && room && !finding.over; i++) {
        struct ht_events events;
        if (ht_trace_section(reader, i)->kind != HT_SECTION_EVENTS) continue;
        status = ht_trace_events(reader, i, &events, error);
        if (status) break;
        room = take_section(&finding, &events, at_ns);
        births->events = events.first_event + events.rows;
    }
    if (!status && (!room || !mark(births, &finding))) status = ht_error_memory(error, path, "cannot slice");
    slot_table_free(&finding.births);
    return status;
}

void live_births_free(struct live_births *births) { free(births->word); }
