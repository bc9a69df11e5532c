// The fast loop: executes words up to end; both stand between ops. Included by replay_engine.c once for each
// LOOP_NAME, with LOOP_TOUCHES saying whether memory is written, because a function that jumps to computed
// labels, as this one does from each op straight to the next one's code, can't be inlined into two.

// A slot's entry is found without shifting or masking: the low half of a word is its offset plus the op.
#define ENTRY(op) ((void **)((char *)table + (uint32_t)w - (op)))
#define NEXT()                                                                                               \
    do {                                                                                                     \
        if (UNLIKELY(word == end)) return;                                                                   \
        w = *word++;                                                                                         \
        __builtin_prefetch((char *)table + (uint32_t)word[HT_WORDS_AHEAD - 1], 1);                           \
        goto *handlers[w & ((1u << HT_WORD_OP_BITS) - 1)];                                                   \
    } while (0)

static __attribute__((noinline)) void LOOP_NAME(struct ht_lane *lane, const uint64_t *word,
                                                const uint64_t *end) {
    static const void *const handlers[] = {
        [HT_WORD_FREE] = &&do_free_word,     [HT_WORD_MALLOC] = &&do_malloc_word,
        [HT_WORD_CALLOC] = &&do_calloc_word, [HT_WORD_REALLOC] = &&do_realloc_word,
        [HT_WORD_WIDE] = &&do_wide_word,     [HT_WORD_TIME] = &&do_time_word,
        [HT_WORD_WAIT] = &&do_wait_word,     [HT_WORD_PUBLISH] = &&do_publish_word,
    };
    void **const table = lane->table;
    uint64_t w;
    NEXT();
do_free_word:
    do_free(*ENTRY(HT_WORD_FREE), NULL);
    NEXT();
do_malloc_word:
    do_malloc(lane, ENTRY(HT_WORD_MALLOC), w >> 32, HT_PAGES_BY_RULE, LOOP_TOUCHES, NULL);
    NEXT();
do_calloc_word:
    do_calloc(lane, ENTRY(HT_WORD_CALLOC), *word++, w >> 32, HT_PAGES_BY_RULE, LOOP_TOUCHES, NULL);
    NEXT();
do_realloc_word:
    do_realloc(lane, ENTRY(HT_WORD_REALLOC), *word++, w >> 32, HT_PAGES_BY_RULE, LOOP_TOUCHES, NULL);
    NEXT();
do_wide_word:
    run_wide(lane, w, word);
    word += 3;
    NEXT();
do_time_word:
    ht_window_advance(lane, ht_word_time_ns(w));
    NEXT();
do_wait_word:
    ht_handover_wait(lane, ht_word_slot(w), ht_word_arg(w));
    NEXT();
do_publish_word:
    ht_handover_publish(lane, ht_word_slot(w), ht_word_arg(w));
    NEXT();
}

#undef ENTRY
#undef NEXT
#undef LOOP_NAME
#undef LOOP_TOUCHES
