// SPDX-License-Identifier: Apache-2.0
// The fast loop: executes words until it comes to a mark at which the lane stops, and returns where the words
// go on behind it. Included by replay_engine.c once for each LOOP_NAME, with LOOP_OPERATORS saying whether calls can be of
// operator new and delete, which costs two or three instructions a call, and LOOP_TOUCHES what memory
// is touched, because a function that jumps to computed labels, as this one does from each op straight to the
// next one's code, cannot be inlined into several.

// A slot's entry is found without shifting or masking: the low half of a word is its offset plus the op. The
// half that holds the argument is read only by ops that have one.
#define ENTRY(op)   ((void **)((char *)table + (low - (op))))
#define ARG()       (((const word_half *)word)[-1])
#define FIRST_ARG() (((const word_half *)word)[-3])
#define KIND()      (LOOP_OPERATORS ? ht_arg_kind(ARG()) : 0)
#define BYTES()     (LOOP_OPERATORS ? ht_arg_bytes(ARG()) : ARG())
#define NEXT()                                                                                               \
    do {                                                                                                     \
        __builtin_prefetch((char *)table + *(const word_half *)(word + HT_WORDS_AHEAD), 1);                  \
        low = *(const word_half *)word++;                                                                    \
        goto *handlers[low & ((1u << HT_WORD_OP_BITS) - 1)];                                                 \
    } while (0)

static __attribute__((noinline)) const uint64_t *LOOP_NAME(struct ht_lane *lane, const uint64_t *word) {
    static const void *const handlers[] = {
        [HT_WORD_FREE] = &&do_free_word,     [HT_WORD_MALLOC] = &&do_malloc_word,
        [HT_WORD_CALLOC] = &&do_calloc_word, [HT_WORD_REALLOC] = &&do_realloc_word,
        [HT_WORD_WIDE] = &&do_wide_word,     [HT_WORD_TIME] = &&do_time_word,
        [HT_WORD_ORDER] = &&do_order_word,   [HT_WORD_MARK] = &&do_mark_word,
    };
    void **const table = lane->table;
    uint64_t low;
    NEXT();
do_free_word:
    if (LOOP_TOUCHES & TOUCHES_FREED) touch_freed(lane, *ENTRY(HT_WORD_FREE), BYTES());
    if (LOOP_TOUCHES & READS_FREED) read_freed(lane, *ENTRY(HT_WORD_FREE), BYTES(), word);
    do_free(lane, *ENTRY(HT_WORD_FREE), KIND(), BYTES(), NULL);
    NEXT();
do_malloc_word:
    do_malloc(lane, ENTRY(HT_WORD_MALLOC), word - 1, KIND(), BYTES(), HT_PAGES_BY_RULE, LOOP_TOUCHES, NULL);
    NEXT();
do_calloc_word:
    word++;
    do_calloc(lane, ENTRY(HT_WORD_CALLOC), word[-1], FIRST_ARG(), HT_PAGES_BY_RULE, LOOP_TOUCHES, NULL);
    NEXT();
do_realloc_word:
    word++;
    do_realloc(lane, ENTRY(HT_WORD_REALLOC), word[-1], FIRST_ARG(), HT_PAGES_BY_RULE, LOOP_TOUCHES, NULL);
    NEXT();
do_wide_word:
    run_wide(lane, word - 1);
    word += 3;
    NEXT();
do_time_word:
    ht_window_advance(lane, ht_word_time_ns(word[-1]));
    NEXT();
do_order_word:
    ht_dependency(lane, ht_word_slot(low), ARG());
    NEXT();
do_mark_word:
    if (lane->stops_at >> ht_word_slot(low) & 1) return word;
    NEXT();
}

#undef ENTRY
#undef ARG
#undef FIRST_ARG
#undef KIND
#undef BYTES
#undef NEXT
#undef LOOP_NAME
#undef LOOP_TOUCHES
