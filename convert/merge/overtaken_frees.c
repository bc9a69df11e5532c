// SPDX-License-Identifier: Apache-2.0
#include "overtaken_frees.h"

#include <assert.h>
#include <string.h>

// The last free of the address, or NULL.
static const struct recent_free *last_free(const struct overtaken_frees *frees, uint64_t address) {
    for (uint32_t back = 1; back <= RECENT_FREES; back++) {
        const struct recent_free *recent = &frees->recent[(frees->next_recent - back) % RECENT_FREES];
        if (recent->address == address) return recent;
    }
    return NULL;
}

bool overtaken_frees_likely(const struct overtaken_frees *frees, const struct ht_raw_record *record,
                            uint32_t thread, uint64_t span_stamps) {
    const struct recent_free *last = last_free(frees, record->address);
    if (!last || last->thread == thread) return false;
    return record->stamp <= last->stamp || record->stamp - last->stamp <= span_stamps;
}

bool overtaken_frees_keep(struct overtaken_frees *frees, const struct ht_raw_record *record, uint32_t input) {
    if (frees->count == OVERTAKEN_FREES_MAX) return false;
    frees->kept[frees->count++] = (struct overtaken_free){.record = *record, .input = input};
    return true;
}

uint32_t overtaken_frees_find(const struct overtaken_frees *frees, uint64_t address) {
    uint32_t number = 0;
    while (number < frees->count && frees->kept[number].record.address != address) number++;
    return number;
}

struct overtaken_free overtaken_frees_take(struct overtaken_frees *frees, uint32_t number) {
    assert(number < frees->count);
    struct overtaken_free taken = frees->kept[number];
    memmove(&frees->kept[number], &frees->kept[number + 1], (--frees->count - number) * sizeof taken);
    return taken;
}
