// SPDX-License-Identifier: Apache-2.0
#include "export_call.h"

#include <string.h>

#include "talk.h"

static unsigned bit(enum export_loss loss) { return 1u << loss; }

// An aligned allocation carries its alignment as extra, except those that align to pages.
static bool aligns_to_pages(unsigned function) { return function == HT_VALLOC || function == HT_PVALLOC; }

static void read_alloc(struct export_reading *reading, unsigned function, const struct ht_function_info *info,
                       unsigned abilities) {
    bool counted = function == HT_CALLOC;
    reading->action = EXPORT_MALLOC;
    if (counted && abilities & EXPORT_HAS_CALLOC) {
        reading->action = EXPORT_CALLOC;
    } else if (counted) {
        reading->alloc_product = true;
        reading->losses |= bit(EXPORT_LOST_FUNCTION);
    } else if (info->extra || aligns_to_pages(function)) {
        reading->aligned = true;
        reading->page_aligned = aligns_to_pages(function);
        if (abilities & EXPORT_HAS_MEMALIGN) {
            reading->action = EXPORT_MEMALIGN;
            if (function != HT_MEMALIGN) reading->losses |= bit(EXPORT_LOST_FUNCTION);
        } else {
            reading->losses |= bit(EXPORT_LOST_FUNCTION) | bit(EXPORT_LOST_ALIGNMENT);
        }
    } else if (function == HT_INHERIT) {
        reading->losses |= bit(EXPORT_LOST_INHERITED);
    } else if (function != HT_MALLOC) {
        reading->losses |= bit(EXPORT_LOST_FUNCTION);
    }
}

static void read_realloc(struct export_reading *reading, unsigned function, unsigned variant,
                         unsigned abilities) {
    reading->action = EXPORT_REALLOC;
    if (function == HT_REALLOCARRAY) {
        reading->alloc_product = true;
        reading->losses |= bit(EXPORT_LOST_FUNCTION);
    }
    if (variant == HT_NULL || variant == HT_FOREIGN) {
        bool sayable = abilities & EXPORT_HAS_REALLOC_NULL;
        reading->action = sayable ? EXPORT_REALLOC_NULL : EXPORT_MALLOC;
        if (variant == HT_FOREIGN) reading->losses |= bit(EXPORT_LOST_FOREIGN_REALLOC);
        else if (!sayable) reading->losses |= bit(EXPORT_LOST_FUNCTION);
    } else if (variant == HT_RELEASED) {
        bool sayable = abilities & EXPORT_HAS_RELEASE;
        reading->action = sayable ? EXPORT_RELEASE : EXPORT_FREE;
        if (!sayable) reading->losses |= bit(EXPORT_LOST_FUNCTION);
    }
}

static void read_free(struct export_reading *reading, unsigned function, const struct ht_function_info *info,
                      unsigned variant, unsigned abilities) {
    reading->action = EXPORT_FREE;
    if (variant == HT_FOREIGN) {
        reading->action = EXPORT_NOTHING;
        reading->losses = bit(EXPORT_LOST_FOREIGN_FREE);
        return;
    }
    if (variant == HT_NULL && !(abilities & EXPORT_HAS_FREE_NULL)) {
        reading->action = EXPORT_NOTHING;
        reading->losses = bit(EXPORT_LOST_NULL_FREE);
        return;
    }
    if (variant == HT_NULL) reading->action = EXPORT_FREE_NULL;
    if (function == HT_DROP) reading->losses |= bit(EXPORT_LOST_DROPPED);
    else if (function != HT_FREE) reading->losses |= bit(EXPORT_LOST_FUNCTION);
    if (info->size || info->extra) reading->losses |= bit(EXPORT_LOST_FREED_SIZE);
}

static struct export_reading reading_of(uint8_t op, unsigned abilities) {
    struct export_reading reading = {.action = EXPORT_NOTHING};
    unsigned function = ht_op_function(op), variant = ht_op_variant(op);
    const struct ht_function_info *info = &ht_functions[function];
    if (!ht_op_shape(op).valid) return reading;
    reading.pseudo = info->pseudo;
    if (variant == HT_FAILED) {
        reading.losses = bit(EXPORT_LOST_FAILED);
        return reading;
    }
    switch (info->kind) {
    case HT_KIND_ALLOC: read_alloc(&reading, function, info, abilities); break;
    case HT_KIND_REALLOC: read_realloc(&reading, function, variant, abilities); break;
    case HT_KIND_FREE: read_free(&reading, function, info, variant, abilities); break;
    case HT_KIND_QUERY: reading.losses = bit(EXPORT_LOST_QUERY); break;
    case HT_KIND_CONTROL:
    case HT_KIND_ADVICE: reading.losses = bit(EXPORT_LOST_CONTROL); break;
    case HT_KIND_NONE: break;
    }
    return reading;
}

void export_rules_make(struct export_rules *rules, unsigned abilities, uint64_t page_bytes) {
    *rules = (struct export_rules){.abilities = abilities, .page_bytes = page_bytes};
    for (unsigned op = 0; op < 256; op++) rules->of[op] = reading_of((uint8_t)op, abilities);
}

static uint64_t product(uint64_t a, uint64_t b) {
    uint64_t result;
    return __builtin_mul_overflow(a, b, &result) ? UINT64_MAX : result;
}

static bool has_size(enum export_action action) {
    return action == EXPORT_MALLOC || action == EXPORT_MEMALIGN || action == EXPORT_REALLOC ||
           action == EXPORT_REALLOC_NULL;
}

struct export_call export_call_of(const struct export_rules *rules, const struct ht_events *events,
                                  uint32_t row, struct export_losses *losses) {
    const struct export_reading *reading = &rules->of[events->op[row]];
    struct export_call call = {.action = reading->action,
                               .thread = events->thread[row],
                               .slot = events->slot[row],
                               .event = events->first_event + row,
                               .time_ns = events->time_ns[row],
                               .size = events->size[row],
                               .count = events->extra[row],
                               .pseudo = reading->pseudo};
    if (reading->alloc_product) call.size = product(call.size, call.count);
    if (reading->aligned) call.alignment = reading->page_aligned ? rules->page_bytes : events->extra[row];
    for (uint32_t left = reading->losses; left; left &= left - 1) losses->count[__builtin_ctz(left)]++;
    if (call.size == 0 && !(rules->abilities & EXPORT_HAS_SIZE_0) && has_size(call.action)) {
        call.size = 1;
        losses->count[EXPORT_LOST_SIZE_0]++;
    }
    return call;
}

void export_losses_print(FILE *to, const struct export_losses *losses) {
    static const struct {
        const char *one, *many;
    } words[EXPORT_LOSSES] = {
        [EXPORT_LOST_FUNCTION] = {"call written as the nearest function",
                                  "calls written as the nearest function"},
        [EXPORT_LOST_ALIGNMENT] = {"alignment left out", "alignments left out"},
        [EXPORT_LOST_FREED_SIZE] = {"free without its size or alignment",
                                    "frees without their size or alignment"},
        [EXPORT_LOST_SIZE_0] = {"size of 0 written as 1", "sizes of 0 written as 1"},
        [EXPORT_LOST_INHERITED] = {"inherited block written as malloc", "inherited blocks written as malloc"},
        [EXPORT_LOST_DROPPED] = {"block dropped by the trace written as freed",
                                 "blocks dropped by the trace written as freed"},
        [EXPORT_LOST_FOREIGN_REALLOC] = {"realloc of a foreign block written as an allocation",
                                         "reallocs of foreign blocks written as allocations"},
        [EXPORT_LOST_FOREIGN_FREE] = {"foreign free left out", "foreign frees left out"},
        [EXPORT_LOST_NULL_FREE] = {"free of NULL left out", "frees of NULL left out"},
        [EXPORT_LOST_QUERY] = {"query of a usable size left out", "queries of usable sizes left out"},
        [EXPORT_LOST_CONTROL] = {"control call left out", "control calls left out"},
        [EXPORT_LOST_FAILED] = {"failed call left out", "failed calls left out"},
    };
    char number[32];
    for (unsigned loss = 0; loss < EXPORT_LOSSES; loss++) {
        uint64_t count = losses->count[loss];
        if (count)
            fprintf(to, "; %s %s", ht_grouped(number, count),
                    count == 1 ? words[loss].one : words[loss].many);
    }
}
