#include "left_blocks.h"

#include <assert.h>
#include <string.h>

#include "allocator_calls.h"

// A slot's allocations and frees alternate, beginning with an allocation: it is left with a block if it saw
// an odd number of them, in whichever order they are counted.
static void count_words(const uint64_t *word, const struct ht_chunk *chunk, uint8_t *left) {
    const uint64_t *end = word + chunk->words;
    for (; word < end; word += ht_word_length(*word)) {
        uint32_t slot = ht_word_slot(*word);
        switch (ht_word_op(*word)) {
        case HT_WORD_FREE:
        case HT_WORD_MALLOC:
        case HT_WORD_CALLOC: left[slot] ^= 1; break;
        case HT_WORD_WIDE:
            if (ht_word_arg(*word) != HT_WIDE_REALLOC) left[slot] ^= 1;
            break;
        default: break;
        }
    }
}

void ht_left_blocks_find(const struct ht_form *form, uint8_t *left) {
    assert(!form->streamed);
    memset(left, 0, form->slots);
    for (uint32_t i = 0; i <= form->streams; i++) {
        uint32_t unit = atomic_load(&ht_form_streams(form)[i].first_unit);
        while (unit != HT_CHUNK_NONE) {
            const struct ht_chunk *chunk = ht_form_chunk(form, unit);
            count_words(ht_chunk_words(chunk), chunk, left);
            unit = atomic_load(&chunk->next_unit);
        }
    }
    left[0] = 0;  // free(NULL)
}

void ht_left_blocks_free(const uint8_t *left, uint32_t slots, void **table) {
    for (uint32_t slot = 1; slot < slots; slot++) {
        if (left[slot]) HT_CALL_FREE(table[slot]);
    }
}
