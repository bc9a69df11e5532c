// SPDX-License-Identifier: Apache-2.0
// The tree of stacks, on stacks that the test makes: whatever it finds must be the stack's number, or nothing.
#include "process_memory.h"
#include "unit_support.h"

#include <stdlib.h>
#include <string.h>

#include "expected_stack.h"
#include "stack_tree.h"
#include "state.h"

enum { WORDS = 4096, DEPTH_MAX = 40, STACKS = 3000, KEYS = 7, FUNCTIONS = 5 };

// What the tree takes of the rest of the recorder.
bool recorder_may_call(void) { return true; }
void recorder_has_called(void) {}
void recorder_memory_mapped(uintptr_t start, size_t bytes, bool is_real) {
    (void)start;
    (void)bytes;
    (void)is_real;
}

void recorder_memory_released(uintptr_t start, size_t bytes, bool unmapped) {
    recorder_memory_mapped(start, bytes, unmapped);
}

// A stack that grows down, its end last; nothing else lies there, so that the distance to the end is fixed.
static uintptr_t words[WORDS];

struct made {
    uint32_t frames, key;
    uint32_t function[DEPTH_MAX];
};

static uint32_t random_below(uint32_t *state, uint32_t bound) {
    *state = *state * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)*state * bound >> 32);
}

// A frame's size is that of its function: where one lies depends on those before it, as in programs.
static void lay_out(const struct made *made, struct stack_walk *walk) {
    memset(words, 0xff, sizeof words);
    uintptr_t *at = &words[16 * made->key + 16];
    *walk = (struct stack_walk){.frames = made->frames, .regular = true};
    for (uint32_t i = 0; i < made->frames; i++) {
        uintptr_t address = 0x401000 + 0x100 * (uintptr_t)made->function[i];
        at[-1] = address;
        walk->frame[i] = (struct stack_frame){address, (uintptr_t)at};
        at += 2 + 2 * made->function[i];
    }
}

static const uintptr_t words_end = (uintptr_t)&words[WORDS];

static struct tree_hook hook_of(const struct stack_walk *walk) {
    return tree_hook(walk->frame[0].cfa, words_end);
}

static bool has_path(const struct stack_tree *tree, const struct tree_path *path,
                     const struct stack_walk *walk) {
    struct tree_hook hook = hook_of(walk);
    return tree_has_path(tree, path, &hook);
}

static void insert(struct stack_tree *tree, const struct stack_walk *walk, uint32_t site) {
    struct tree_hook hook = hook_of(walk);
    tree_insert(tree, &hook, walk, site);
}

// What is found is also guessed, by the same path; a stack that is not there may be taken for one that is.
static uint32_t find(const struct stack_tree *tree, const struct stack_walk *walk, struct tree_found *found) {
    struct tree_hook hook = hook_of(walk);
    uint32_t site = tree_find(tree, &hook, found);
    if (!site) return 0;
    assert_int_equal(tree_guess(tree, &hook, found), site);
    assert_true(found->path.words > TREE_PATH_MAX || has_path(tree, &found->path, walk));
    return site;
}

static void make(struct made *made, uint32_t *state) {
    made->key = random_below(state, KEYS);
    made->frames = 2 + random_below(state, DEPTH_MAX - 1);
    for (uint32_t i = 0; i < made->frames; i++) made->function[i] = random_below(state, FUNCTIONS);
    // Most share their innermost frames, as those of a program do.
    for (uint32_t i = 0; i < made->frames && i < made->frames * 3 / 4; i++)
        made->function[i] = made->key % FUNCTIONS;
    // Each thread's first function calls, and is never called.
    made->function[made->frames - 1] = FUNCTIONS;
}

static bool same(const struct made *a, const struct made *b) {
    return a->frames == b->frames && a->key == b->key &&
           !memcmp(a->function, b->function, a->frames * sizeof *a->function);
}

static void test_every_find_is_right_or_none(void **unused) {
    (void)unused;
    static struct made made[STACKS];
    static struct stack_walk walk;
    struct tree_found found;
    struct stack_tree tree = {0};
    uint32_t state = 20817, right = 0;
    for (uint32_t n = 0; n < STACKS; n++) {
        make(&made[n], &state);
        lay_out(&made[n], &walk);
        uint32_t site = 1;
        while (site <= n && !same(&made[site - 1], &made[n])) site++;
        uint32_t before = find(&tree, &walk, &found);
        assert_true(before == 0 || before == site);
        if (!before) insert(&tree, &walk, site);
        uint32_t after = find(&tree, &walk, &found);
        assert_true(after == 0 || after == site);
        right += after == site;
    }
    // Not those where one stack ends, or has a frame elsewhere, while another goes on.
    assert_true(right > STACKS / 4);
    for (uint32_t n = 0, again = 0; n < STACKS; n++) {
        lay_out(&made[n], &walk);
        uint32_t site = find(&tree, &walk, &found);
        if (site) assert_true(same(&made[site - 1], &made[n]));
        again += site != 0;
        if (n == STACKS - 1) assert_true(again >= right);
    }
    tree_clear(&tree);
    for (uint32_t n = 0; n < STACKS; n++) {
        lay_out(&made[n], &walk);
        assert_int_equal(find(&tree, &walk, &found), 0);
    }
}

// Frames of one size, so that stacks part only by what is called: all of them are found.
static void test_all_are_found(void **unused) {
    (void)unused;
    static struct stack_walk walk;
    struct tree_found found;
    struct stack_tree tree = {0};
    for (uint32_t n = 0; n < STACKS; n++)
        for (int pass = 0; pass < 2; pass++) {
            walk = (struct stack_walk){.frames = DEPTH_MAX, .regular = true};
            for (uint32_t i = 0; i < DEPTH_MAX; i++) {
                uintptr_t *cfa = &words[16 + 4 * i], digit = i < 30 ? 0 : n >> (i - 30) & 1;
                cfa[-1] = 0x401000 + digit;
                walk.frame[i] = (struct stack_frame){cfa[-1], (uintptr_t)cfa};
            }
            if (pass) assert_int_equal(find(&tree, &walk, &found), n % 1024 + 1);
            else if (!find(&tree, &walk, &found)) insert(&tree, &walk, n % 1024 + 1);
        }
    // A stack that ends sooner is none of them, and is not read beyond its end.
    struct tree_hook hook = tree_hook(walk.frame[0].cfa, walk.frame[20].cfa);
    assert_int_equal(tree_find(&tree, &hook, &found), 0);
}

// Of so many frames, the last ones a few words further up.
static void lay_out_shifted(struct stack_walk *walk, uint32_t frames, uint32_t words_up) {
    memset(words, 0xff, sizeof words);
    *walk = (struct stack_walk){.frames = frames, .regular = true};
    for (uint32_t i = 0; i < frames; i++) {
        uintptr_t *cfa = &words[16 + 4 * i + (i > 5 ? words_up : 0)];
        cfa[-1] = 0x401000 + i;
        walk->frame[i] = (struct stack_frame){cfa[-1], (uintptr_t)cfa};
    }
}

// The addresses of one that is in the tree, but one frame is larger (alloca, a signal's), or is the last: nothing is found, and
// of the one that was there first itself.
static void test_frames_elsewhere_are_not_guessed(void **unused) {
    static const struct {
        uint32_t frames, words_up, site;
        bool regular;
    } other[] = {{8, 2, 2, true}, {5, 0, 2, true}, {8, 2, 2, false}, {8, 2, 0, true}};
    (void)unused;
    for (uint32_t kind = 0; kind < sizeof other / sizeof *other; kind++) {
        struct stack_walk walk;
        struct tree_found found;
        struct stack_tree tree = {0};
        lay_out_shifted(&walk, 8, 0);
        insert(&tree, &walk, 1);
        lay_out_shifted(&walk, other[kind].frames, other[kind].words_up);
        walk.regular = other[kind].regular;
        insert(&tree, &walk, other[kind].site);
        struct tree_hook hook = hook_of(&walk);
        assert_int_equal(tree_find(&tree, &hook, &found), 0);
        assert_int_equal(tree_guess(&tree, &hook, &found), 0);
        lay_out_shifted(&walk, 8, 0);
        assert_int_equal(find(&tree, &walk, &found), 1);
    }
}

static uint32_t changes_of(const struct stack_tree *tree, const struct tree_found *kept) {
    return tree_changes(tree, kept->hash);
}

// Paths that were kept while the tree grew: one that still holds leads where a search does.
static void test_a_path_that_holds_leads_where_a_search_does(void **unused) {
    (void)unused;
    enum { KEPT = 300 };
    static struct made made[KEPT];
    static struct stack_walk walk;
    static struct tree_found kept[KEPT];
    struct stack_tree tree = {0};
    uint32_t state = 20817, paths = 0, held = 0, changed = 0;
    for (uint32_t n = 0; n < KEPT; n++) {
        struct tree_found found;
        make(&made[n], &state);
        lay_out(&made[n], &walk);
        if (!find(&tree, &walk, &found)) insert(&tree, &walk, n + 1);
        uint32_t site = find(&tree, &walk, &found);
        if (site && found.path.words <= TREE_PATH_MAX) kept[paths++] = found;
        for (uint32_t m = 0; m <= n; m++) {
            lay_out(&made[m], &walk);
            struct tree_hook hook = hook_of(&walk);
            uint32_t guess = tree_guess(&tree, &hook, &found);
            for (uint32_t i = 0; i < paths; i++) {
                if (!tree_has_path(&tree, &kept[i].path, &hook)) continue;
                assert_int_equal(guess, kept[i].site);
                held++;
            }
        }
    }
    for (uint32_t i = 0; i < paths; i++) changed += kept[i].path.changes != changes_of(&tree, &kept[i]);
    assert_true(held > paths && changed > 0 && changed < paths);
    tree_clear(&tree);
    for (uint32_t i = 0; i < paths; i++)
        assert_int_not_equal(kept[i].path.changes, changes_of(&tree, &kept[i]));
}

// So many different stacks, numbered from 1 on.
static void insert_kinds(struct stack_tree *tree, struct made *made, uint32_t kinds, uint32_t *state) {
    static struct stack_walk walk;
    for (uint32_t n = 0; n < kinds; n++) {
        struct tree_found found;
        do make(&made[n], state), lay_out(&made[n], &walk);
        while (find(tree, &walk, &found));
        insert(tree, &walk, n + 1);
        assert_int_equal(find(tree, &walk, &found), n + 1);
    }
}

// How often of so many turns was the stack expected? Never was another one.
static uint32_t turns_expected(struct stack_tree *tree, const struct made *made, const uint32_t *kinds,
                               uint32_t turns) {
    static struct stack_walk walk;
    struct expectation expectation = {0};
    uint32_t expected = 0;
    expected_start();
    assert_true(expected_begin(&expectation));
    for (uint32_t turn = 0; turn < turns; turn++) {
        struct tree_found found;
        lay_out(&made[kinds[turn]], &walk);
        struct tree_hook hook = hook_of(&walk);
        const struct expected_path *next = &expected_paths[*expected_number(&expectation, hook.hash)];
        bool is_it = tree_has_path(tree, &next->path, &hook);
        assert_int_equal(find(tree, &walk, &found), kinds[turn] + 1);
        if (is_it) assert_int_equal(expected_site(next), kinds[turn] + 1);
        else expected_other(&expectation, &found);
        expected_after(&expectation, kinds[turn] + 1);
        expected += is_it;
    }
    return expected;
}

// Sequences that repeat: after the first time each stack is expected.
static void test_what_followed_is_expected(void **unused) {
    (void)unused;
    enum { KINDS = 5, LAPS = 4, LAP = 9 };
    static const uint32_t lap[LAP] = {0, 1, 2, 3, 4, 2, 1, 0, 3};
    static struct made made[KINDS];
    struct stack_tree tree = {0};
    uint32_t state = 7, kinds[LAPS * LAP];
    for (uint32_t turn = 0; turn < LAPS * LAP; turn++) kinds[turn] = lap[turn % LAP];
    insert_kinds(&tree, made, KINDS, &state);
    assert_true(turns_expected(&tree, made, kinds, LAPS * LAP) >= (LAPS - 1) * LAP - 2);
}

// Stacks of different keys in no order: whatever came before, a hook with a key comes from the one stack.
static void test_a_key_tells_the_stack(void **unused) {
    (void)unused;
    enum { TURNS = 4000 };
    static struct made made[KEYS];
    static uint32_t kinds[TURNS];
    static struct stack_walk walk;
    struct stack_tree tree = {0};
    uint32_t state = 11;
    for (uint32_t n = 0; n < KEYS; n++) {
        do make(&made[n], &state);
        while (made[n].key != n);
        lay_out(&made[n], &walk);
        insert(&tree, &walk, n + 1);
    }
    for (uint32_t turn = 0; turn < TURNS; turn++) kinds[turn] = random_below(&state, KEYS);
    assert_true(turns_expected(&tree, made, kinds, TURNS) > TURNS * 3 / 4);
}

// Threads whose stacks begin elsewhere come by paths of their own to the same sites, and take turns without end: what they
// use up is gone for those that come later.
static void test_paths_that_take_turns_use_up_nothing(void **unused) {
    enum { SITES = 50, DISTANCES = 4, TURNS = 100000 };
    struct expectation expectation = {0}, later = {0};
    (void)unused;
    expected_start();
    assert_true(expected_begin(&expectation));
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        struct tree_found found = {.site = turn % SITES + 1,
                                   .path.to_end = 4096 + 64 * (turn / SITES % DISTANCES)};
        expected_other(&expectation, &found);
        expected_after(&expectation, found.site);
    }
    assert_true(expected_begin(&later));
    for (uint32_t turn = 0; turn < 8; turn++) {
        struct tree_found found = {.site = SITES + 1 + turn % 2, .path.sum = 4096};
        uint16_t number = *expected_number(&later, found.hash);
        if (turn >= 6) assert_int_equal(expected_site(&expected_paths[number]), found.site);
        expected_other(&later, &found);
        expected_after(&later, found.site);
    }
}

// Their places are gone: what was kept stays, and nothing is kept any more.
static void test_space_given_up(void **unused) {
    struct expectation expectation = {0};
    struct tree_found kept = {.site = 1, .hash = UINT64_C(1) << 63}, late = {.site = 2};
    (void)unused;
    expected_start();
    assert_true(expected_begin(&expectation));
    expected_other(&expectation, &kept);
    uint16_t number = *expected_number(&expectation, kept.hash);
    for (int i = 0; i < 2; i++) {
        expected_give_up_space();
        expected_other(&expectation, &late);
        assert_int_equal(*expected_number(&expectation, late.hash), 0);
        assert_int_equal(expected_site(&expected_paths[number]), kept.site);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_path_that_holds_leads_where_a_search_does),
        cmocka_unit_test(test_what_followed_is_expected),
        cmocka_unit_test(test_a_key_tells_the_stack),
        cmocka_unit_test(test_paths_that_take_turns_use_up_nothing),
        cmocka_unit_test(test_every_find_is_right_or_none),
        cmocka_unit_test(test_all_are_found),
        cmocka_unit_test(test_frames_elsewhere_are_not_guessed),
        cmocka_unit_test(test_space_given_up),  // the last one: for good
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
