// SPDX-License-Identifier: Apache-2.0
#include "verify_pass.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>

#include "allocator_calls.h"
#include "replay_feed.h"
#include "replay_form.h"
#include "replay_window.h"
#include "verify_blocks.h"

// What is asked of an allocator is what C, POSIX and every real one promise:
// - posix_memalign's address is a multiple of the alignment.
// - malloc's, calloc's and realloc's is fit for any object of the standard types that is no larger than what
//   was asked for: a multiple of 16 from 16 bytes on, below that of the largest power of two in the size.
//   (C11 before its corrigenda could be read as asking for 16 always; jemalloc, tcmalloc and mimalloc give 8
//   for 8 bytes and less.)
// - Live blocks do not overlap, and differ in address even where nothing was asked for.
// - Nobody but the program changes a live block; realloc keeps as much as both sizes have; calloc's is zeros.
// - malloc_usable_size returns no less than was requested, and all of it is the program's to write.
// - What succeeded when recorded succeeds, except that nothing may be given for nothing.

struct verify_slot {
    struct ht_map_node node;
    struct ht_pattern pattern;
    struct ht_call_place made_at;
    bool live;
};

struct ht_verify {
    pthread_mutex_t lock;  // of the map and its nodes
    struct ht_verify_map map;
    struct ht_map_nodes nodes;
    uint64_t (*usable_size)(void *);  // NULL: the allocator has none
    struct ht_verify_findings *findings;
    struct ht_known_alignments known;
    void **table;
    uint32_t slots_count;
    struct verify_slot slots[];
};

// A call that is being checked.
struct checked {
    struct ht_verify *verify;
    struct verify_slot *state;
    struct ht_word_call call;
    uint32_t slot;  // among those of all copies of the trace
    struct ht_call_place place;
    uint64_t bytes;  // that are asked for
};

size_t ht_verify_bytes(uint32_t slots) {
    return sizeof(struct ht_verify) + (size_t)slots * sizeof(struct verify_slot);
}

struct ht_verify *ht_verify_prepare(void *memory, const struct ht_server *server, void **table,
                                    uint32_t slots, struct ht_known_alignments known,
                                    struct ht_verify_findings *findings) {
    struct ht_verify *verify = memory;
    verify->known = known;
    pthread_mutex_init(&verify->lock, NULL);
    verify->nodes = (struct ht_map_nodes){(char *)verify->slots, sizeof(struct verify_slot)};
    verify->usable_size = server->usable_size;
    verify->findings = findings;
    verify->table = table;
    verify->slots_count = slots;
    findings->usable_unknown = !verify->usable_size;
    return verify;
}

static struct ht_violation violation_of(const struct checked *check, enum ht_violation_kind kind) {
    return (struct ht_violation){.kind = kind,
                                 .slot = check->slot,
                                 .found_at = check->place,
                                 .made_at = check->state->made_at,
                                 .bytes = check->state->pattern.bytes};
}

// Whether a known fault of the allocator explains what is wrong with what this call returned.
static bool is_known(const struct checked *check, enum ht_violation_kind kind) {
    if (kind != HT_VIOLATION_ALIGNMENT && kind != HT_VIOLATION_FAILED) return false;
    return check->call.call == HT_WIDE_ALIGNED &&
           ht_known_alignment(&check->verify->known, check->call.extra);
}

static void report_number(const struct checked *check, enum ht_violation_kind kind, uint64_t expected,
                          uint64_t found) {
    struct ht_violation violation = violation_of(check, kind);
    if (is_known(check, kind)) {
        atomic_fetch_add(&check->verify->findings->known, 1);
        return;
    }
    violation.bytes = check->bytes;
    violation.expected = expected;
    violation.found = found;
    ht_verify_tell(check->verify->findings, &violation);
}

// Whether the first `bytes` of what was written into the block are still there.
static bool check_contents(const struct checked *check, enum ht_violation_kind kind,
                           const struct ht_pattern *pattern, const char *block, uint64_t bytes) {
    uint8_t expected, found;
    struct ht_violation violation = violation_of(check, kind);
    __atomic_fetch_add(&check->verify->findings->blocks_checked, 1, __ATOMIC_RELAXED);
    if (ht_pattern_holds(pattern, block, bytes, &violation.offset, &expected, &found)) return true;
    violation.expected = expected;
    violation.found = found;
    violation.bytes = pattern->bytes;
    ht_verify_tell(check->verify->findings, &violation);
    return false;
}

static void check_zeros(const struct checked *check, const char *block) {
    uint8_t found;
    struct ht_violation violation = violation_of(check, HT_VIOLATION_ZEROS);
    if (ht_all_zeros(block, check->bytes, &violation.offset, &found)) return;
    violation.bytes = check->bytes;
    violation.found = found;
    ht_verify_tell(check->verify->findings, &violation);
}

static uint64_t alignment_wanted(const struct ht_word_call *call, uint64_t bytes) {
    return call->call == HT_WIDE_ALIGNED ? call->extra : ht_verify_alignment(bytes);
}

// Returns how many bytes the program may write: those of the request where the allocator cannot say.
static uint64_t check_usable(const struct checked *check, char *block, uint64_t bytes) {
    if (!check->verify->usable_size) return bytes;
    size_t usable = check->verify->usable_size(block);
    if (usable < bytes) report_number(check, HT_VIOLATION_USABLE, bytes, usable);
    return usable < bytes ? bytes : usable;
}

static enum ht_verified_function function_of(const struct ht_word_call *call) {
    switch (call->call) {
    case HT_WIDE_CALLOC: return HT_VERIFIED_CALLOC;
    case HT_WIDE_REALLOC:
    case HT_WIDE_REALLOC_NULL: return HT_VERIFIED_REALLOC;
    case HT_WIDE_ALIGNED: return HT_VERIFIED_ALIGNED;
    default: return HT_VERIFIED_MALLOC;
    }
}

static void check_address(const struct checked *check, const char *block) {
    struct ht_verify_findings *findings = check->verify->findings;
    uint64_t address = (uint64_t)block, wanted = alignment_wanted(&check->call, check->bytes);
    if (address % wanted) report_number(check, HT_VIOLATION_ALIGNMENT, wanted, address & -address);
    atomic_fetch_add_explicit(&findings->blocks_by[function_of(&check->call)], 1, memory_order_relaxed);
    ht_verify_raise(&findings->largest_bytes, check->bytes);
    ht_verify_raise(&findings->largest_alignment, wanted);
}

static void take_out(const struct checked *check) {
    struct ht_verify *verify = check->verify;
    pthread_mutex_lock(&verify->lock);
    ht_map_remove(&verify->map, verify->nodes, check->slot);
    pthread_mutex_unlock(&verify->lock);
    check->state->live = false;
}

// True if the block overlaps no other.
static bool put_in(const struct checked *check, const char *block, uint64_t bytes) {
    struct ht_verify *verify = check->verify;
    check->state->node.start = (uint64_t)block;
    check->state->node.bytes = bytes ? bytes : 1;
    pthread_mutex_lock(&verify->lock);
    uint32_t other = ht_map_add(&verify->map, verify->nodes, check->slot);
    struct ht_violation violation = violation_of(check, HT_VIOLATION_OVERLAP);
    if (other != HT_MAP_NONE) {
        violation.bytes = bytes;
        violation.other_slot = other;
        violation.other_made_at = verify->slots[other].made_at;
        violation.offset = verify->slots[other].node.start - (uint64_t)block;  // modulo 2^64
        violation.expected = verify->slots[other].node.bytes;
    }
    pthread_mutex_unlock(&verify->lock);
    check->state->live = true;
    if (other != HT_MAP_NONE) ht_verify_tell(verify->findings, &violation);
    return other == HT_MAP_NONE;
}

// What the trace doesn't know of a large block is all of it, but of zeros that the program may never have
// written only the edges.
static uint64_t pages_filled(const struct ht_word_call *call) {
    if (call->pages != HT_PAGES_BY_RULE) return call->pages;
    return call->call == HT_WIDE_CALLOC ? 1 : UINT64_MAX;
}

static void new_block(const struct checked *check, char *block) {
    struct verify_slot *state = check->state;
    state->made_at = check->place;
    state->pattern = (struct ht_pattern){0};
    if (!block) {
        if (check->bytes) report_number(check, HT_VIOLATION_FAILED, 0, 0);
        return;
    }
    bool alone = put_in(check, block, check->bytes);
    check_address(check, block);
    uint64_t usable = check_usable(check, block, check->bytes);
    if (check->call.call == HT_WIDE_CALLOC) check_zeros(check, block);
    if (!alone) return;  // that was reported: its contents and the other's would be over and over
    uint64_t origin = (uint64_t)check->slot << 32 ^ (uint64_t)check->place.stream << 52 ^ check->place.call;
    state->pattern = (struct ht_pattern){.seed = origin * 0xd6e8feb86659fd93ull,
                                         .bytes = check->bytes,
                                         .pages = pages_filled(&check->call),
                                         .usable = usable};
    ht_pattern_fill(&state->pattern, block);
}

// Out of the map before the call, because another thread may be given the address while it still runs here.
static void check_free(struct checked *check, const struct ht_lane *lane, void **entry) {
    struct verify_slot *state = check->state;
    if (*entry && state->live) {
        check_contents(check, HT_VIOLATION_CHANGED, &state->pattern, *entry, UINT64_MAX);
        take_out(check);
    }
    uint64_t how = *entry ? check->call.extra : HT_BY_FREE;
    lane->operators->end[ht_free_kind(how)](*entry, check->call.size, ht_free_alignment(how));
    *entry = NULL;
}

static void check_realloc(struct checked *check, void **entry) {
    struct verify_slot *state = check->state;
    struct ht_pattern former = state->pattern;
    uint64_t former_bytes = state->node.bytes;
    char *old = *entry;
    bool held = false;
    if (old) {
        held = check_contents(check, HT_VIOLATION_CHANGED, &former, old, UINT64_MAX);
        take_out(check);
    }
    char *block = HT_CALL_REALLOC(old, check->bytes);
    uint64_t kept = former.bytes < check->bytes ? former.bytes : check->bytes;
    if (block && held) check_contents(check, HT_VIOLATION_NOT_KEPT, &former, block, kept);
    if (!block && old) {
        report_number(check, HT_VIOLATION_FAILED, 0, 0);
        put_in(check, old, former_bytes);  // it stays as it was
        return;
    }
    *entry = block;
    new_block(check, block);
}

static char *allocate(const struct checked *check, const struct ht_lane *lane) {
    const struct ht_word_call *call = &check->call;
    void *block = NULL;
    switch (call->call) {
    case HT_WIDE_CALLOC: return HT_CALL_CALLOC(call->extra, call->size);
    case HT_WIDE_REALLOC_NULL: return HT_CALL_REALLOC(NULL, call->size);
    case HT_WIDE_ALIGNED: return HT_CALL_POSIX_MEMALIGN(&block, call->extra, call->size) ? NULL : block;
    default: return lane->operators->make[call->extra](call->size, NULL);
    }
}

static void check_call(struct ht_lane *lane, const uint64_t *word, uint64_t number) {
    struct ht_verify *verify = lane->verify;
    struct ht_word_call call = ht_word_call(word);
    void **entry = lane->table + call.slot;
    // The lane without a window is what is inherited: the last stream.
    uint32_t streams = lane->form->streams, stream = lane->window ? lane->number % streams : streams;
    uint32_t slot = (uint32_t)(entry - verify->table);
    struct checked check = {.verify = verify,
                            .state = &verify->slots[slot],
                            .call = call,
                            .slot = slot,
                            .place = {stream, number},
                            .bytes = call.call == HT_WIDE_CALLOC ? call.size * call.extra : call.size};
    assert(slot < verify->slots_count);
    if (ht_word_queries(*word)) {
        if (*entry && check.state->live) check_usable(&check, *entry, check.state->pattern.bytes);
    } else if (call.frees) {
        check_free(&check, lane, entry);
    } else if (call.call == HT_WIDE_REALLOC) {
        check_realloc(&check, entry);
    } else {
        *entry = allocate(&check, lane);
        new_block(&check, *entry);
    }
}

// What the program wrote of a block later.
static void fill_later(struct ht_lane *lane, const uint64_t *word) {
    struct ht_word_call call = ht_word_call(word);
    void **entry = lane->table + call.slot;
    struct verify_slot *state = &lane->verify->slots[entry - lane->verify->table];
    if (*entry && state->live && state->pattern.bytes) ht_pattern_extend(&state->pattern, *entry, call.pages);
}

void ht_verify_run(struct ht_lane *lane) {
    uint64_t number = 0, segment_number = 0;  // at the segment's first call, where each copy begins
    const uint64_t *word = ht_feed_first(lane);
    while (word) {
        switch (ht_word_op(*word)) {
        case HT_WORD_TIME: ht_window_advance(lane, ht_word_time_ns(*word)); break;
        case HT_WORD_ORDER: ht_dependency(lane, ht_word_slot(*word), ht_word_arg(*word)); break;
        case HT_WORD_MARK: break;
        default:
            if (ht_word_touches(*word)) fill_later(lane, word);
            else if (ht_word_advises(*word)) break;  // what is given back is not as it was
            else if (ht_word_steers(*word)) lane->obey(lane->obeyed, word);
            else check_call(lane, word, number++);
        }
        if (ht_word_op(*word) != HT_WORD_MARK || ht_word_slot(*word) != HT_MARK_END) {
            word += ht_word_length(*word);
            continue;
        }
        word = ht_feed_next(lane);
        if (lane->copy > 0) number = segment_number;
        else segment_number = number;
    }
}

void ht_verify_end(struct ht_verify *verify) {
    for (uint32_t slot = 0; slot < verify->slots_count; slot++) {
        struct verify_slot *state = &verify->slots[slot];
        if (!verify->table[slot] || !state->live) continue;
        struct checked check = {.verify = verify, .state = state, .slot = slot, .place = {HT_STREAM_END, 0}};
        check_contents(&check, HT_VIOLATION_CHANGED, &state->pattern, verify->table[slot], UINT64_MAX);
    }
}
