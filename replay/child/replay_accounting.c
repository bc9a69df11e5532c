// SPDX-License-Identifier: Apache-2.0
#include "replay_accounting.h"

#include <sched.h>
#include <stdio.h>

#include "allocator_control.h"
#include "memory_probes.h"
#include "raw_calls.h"
#include "replay_engine.h"
#include "replay_feed.h"
#include "replay_window.h"

// A locked addition takes some 20 cycles, and a malloc with its free would need six to eight: a lane that is alone goes without.
static void add_to(const struct ht_accounting *accounting, _Atomic uint64_t *sum, uint64_t number) {
    if (accounting->alone)
        atomic_store_explicit(sum, atomic_load_explicit(sum, memory_order_relaxed) + number,
                              memory_order_relaxed);
    else atomic_fetch_add_explicit(sum, number, memory_order_relaxed);
}

static void add_untouched(struct ht_accounting *accounting, uint64_t bytes) {
    if (bytes) add_to(accounting, &accounting->untouched_bytes, bytes);
}

// sign: 1, or -1 where the block is no more. A block without any usable memory is none: malloc(0) may give NULL.
static void count(struct ht_accounting *accounting, const struct ht_account_slot *account, uint64_t sign) {
    struct ht_account_class *class = &accounting->classes[ht_size_class(account->requested_bytes)];
    if (accounting->snapshots || !account->usable_bytes) return;
    add_to(accounting, &class->blocks, sign);
    add_to(accounting, &class->requested_bytes, sign * account->requested_bytes);
    add_to(accounting, &class->usable_bytes, sign * account->usable_bytes);
    add_untouched(accounting, sign * account->untouched_bytes);
}

static void drop(struct ht_accounting *accounting, void **entry) {
    struct ht_account_slot *account = &accounting->slots[entry - accounting->table];
    count(accounting, account, -UINT64_C(1));
    *account = (struct ht_account_slot){0};
}

static uint64_t pages_of(uint64_t bytes) {
    return bytes / HT_TOUCH_PAGE_BYTES + (bytes % HT_TOUCH_PAGE_BYTES != 0);
}

// Pages of a block that the replay writes to (replay_engine.c), those of the block that it was before
// included. Calloc's blocks below 64 KiB of which the trace does not know count as written.
static uint64_t pages_touched(const struct ht_lane *lane, const struct ht_word_call *call, uint64_t bytes,
                              uint64_t former_touched_bytes) {
    bool again = call->call == HT_WIDE_REALLOC;
    uint64_t pages = pages_of(bytes), from = again ? pages_of(call->extra) : 0, until = pages;
    uint64_t kept = again ? pages_of(former_touched_bytes) : 0;
    switch (lane->touch) {
    case HT_TOUCH_NONE: until = 0; break;
    case HT_TOUCH_FIRST: until = from ? 0 : 1; break;
    case HT_TOUCH_RECORDED:
        if (call->pages < pages) until = call->pages;
        else if (call->pages == HT_PAGES_BY_RULE && call->call == HT_WIDE_CALLOC &&
                 bytes >= HT_CALLOC_LEFT_BYTES)
            until = 0;
        break;
    default: break;
    }
    if (kept > pages) kept = pages;
    return kept + (until > from ? until - from : 0);
}

// Smaller blocks share their pages with others, and count as touched.
static uint64_t untouched(const struct ht_lane *lane, const struct ht_word_call *call,
                          uint64_t requested_bytes, uint64_t usable_bytes, uint64_t former_touched_bytes) {
    if (requested_bytes <= HT_TOUCH_PAGE_BYTES) return 0;
    uint64_t touched_bytes =
        pages_touched(lane, call, requested_bytes, former_touched_bytes) * HT_TOUCH_PAGE_BYTES;
    return usable_bytes > touched_bytes ? usable_bytes - touched_bytes : 0;
}

// former_touched_bytes: of the block that it was before a realloc.
static void add(const struct ht_lane *lane, const struct ht_word_call *call, uint64_t former_touched_bytes) {
    struct ht_accounting *accounting = lane->accounting;
    void **entry = lane->table + call->slot;
    uint64_t requested_bytes = call->call == HT_WIDE_CALLOC ? call->size * call->extra : call->size;
    void *block = *entry;
    uint64_t usable_bytes = block && accounting->server.usable_size ? accounting->server.usable_size(block)
                            : block                                 ? requested_bytes
                                                                    : 0;
    if (!block) requested_bytes = 0;
    struct ht_account_slot *account = &accounting->slots[entry - accounting->table];
    *account =
        (struct ht_account_slot){requested_bytes, usable_bytes,
                                 untouched(lane, call, requested_bytes, usable_bytes, former_touched_bytes)};
    count(accounting, account, 1);
    if (accounting->snapshots && usable_bytes)
        ht_snapshots_hold(accounting->snapshots, (uintptr_t)block, usable_bytes);
}

// Pages of a live block are touched that have not been so far.
static void touch(const struct ht_lane *lane, const struct ht_word_call *call) {
    struct ht_accounting *accounting = lane->accounting;
    struct ht_account_slot *account = &accounting->slots[lane->table + call->slot - accounting->table];
    uint64_t bytes = (call->pages - call->extra) * HT_TOUCH_PAGE_BYTES;
    if (lane->touch != HT_TOUCH_RECORDED) return;
    if (bytes > account->untouched_bytes) bytes = account->untouched_bytes;
    account->untouched_bytes -= bytes;
    add_untouched(accounting, -bytes);
}

// The entry must be out of the account before the block is freed: another thread may get its memory at once.
static void replay_call(struct ht_lane *lane, const uint64_t *word) {
    struct ht_accounting *accounting = lane->accounting;
    struct ht_word_call call = ht_word_call(word);
    void **entry = lane->table + call.slot;
    if (ht_word_touches(*word)) {
        ht_engine_call(lane, word);
        touch(lane, &call);
        return;
    }
    if (ht_word_queries(*word) || ht_word_steers(*word) || ht_word_advises(*word)) {
        ht_engine_call(lane, word);
        return;
    }
    const struct ht_account_slot *account = &accounting->slots[entry - accounting->table];
    uint64_t former_touched_bytes = account->usable_bytes - account->untouched_bytes;
    if (call.slot && (call.frees || call.call == HT_WIDE_REALLOC)) drop(accounting, entry);
    ht_engine_call(lane, word);
    if (!call.frees) add(lane, &call, former_touched_bytes);
}

static struct ht_size_account account_of(struct ht_account_class *class) {
    return (struct ht_size_account){atomic_load(&class->blocks), atomic_load(&class->requested_bytes),
                                    atomic_load(&class->usable_bytes)};
}

// All that is live.
static struct ht_size_account sum_of_classes(struct ht_accounting *accounting) {
    struct ht_size_account sum = {0};
    for (unsigned i = 0; i < HT_SIZE_CLASSES; i++) {
        struct ht_size_account class = account_of(&accounting->classes[i]);
        sum.blocks += class.blocks;
        sum.requested_bytes += class.requested_bytes;
        sum.usable_bytes += class.usable_bytes;
    }
    return sum;
}

static void fill_row(struct ht_accounting *accounting, struct ht_report_row *row) {
    struct ht_size_account live = sum_of_classes(accounting);
    row->live_bytes = live.requested_bytes;
    row->usable_bytes = live.usable_bytes;
    const struct ht_server *server = &accounting->server;
    if (server->kind && server->kind->read) server->kind->read(server, row->values);
}

// Copies the classes when more is live than at any sample before. Others may go on meanwhile, as they may
// between two samples.
static void note_peak(struct ht_accounting *accounting, const struct ht_size_account *live) {
    struct ht_child_figures *figures = accounting->figures;
    if (atomic_flag_test_and_set(&accounting->peaking)) return;
    bool higher = live->requested_bytes > figures->peak_live_bytes;
    if (higher) {
        figures->peak_live_bytes = live->requested_bytes;
        figures->peak_usable_bytes = live->usable_bytes;
    }
    for (unsigned i = 0; higher && i < HT_SIZE_CLASSES; i++)
        figures->at_peak[i] = account_of(&accounting->classes[i]);
    atomic_flag_clear(&accounting->peaking);
}

// While a lane takes a snapshot no other one is in a call or begins one: table, accounts and pages are of one moment. Whoever
// waits here is between two calls and holds nothing of the allocator's.
static void begin_call(struct ht_lane *lane) {
    struct ht_accounting *accounting = lane->accounting;
    if (!accounting->snapshots || accounting->alone) return;
    atomic_store(&lane->in_call, 1);
    while (atomic_load(&accounting->stopped)) {
        atomic_store(&lane->in_call, 0);
        ht_futex_wait(&accounting->stopped, 1);
        atomic_store(&lane->in_call, 1);
    }
}

static void end_call(struct ht_lane *lane) {
    if (lane->accounting->snapshots && !lane->accounting->alone) atomic_store(&lane->in_call, 0);
}

static void stop_others(struct ht_lane *lane) {
    struct ht_accounting *accounting = lane->accounting;
    const struct ht_window *window = lane->window;
    uint32_t goes_on = 0;
    while (!atomic_compare_exchange_strong(&accounting->stopped, &goes_on, 1)) {
        ht_futex_wait(&accounting->stopped, 1);
        goes_on = 0;
    }
    for (uint32_t i = 0; window && i < window->lanes_count; i++) {
        while (atomic_load(&window->lanes[i].in_call)) sched_yield();
    }
}

static void let_others_go_on(struct ht_lane *lane) {
    atomic_store(&lane->accounting->stopped, 0);
    ht_futex_wake(&lane->accounting->stopped);
}

// After one that cannot be written there are no more.
static void take_snapshot(struct ht_lane *lane, uint32_t number) {
    struct ht_accounting *accounting = lane->accounting;
    if (lane->purging) ht_purge_if_due(lane->purging);
    uint32_t stretch = ht_stretch_due(accounting->snapshots, number);
    bool stops = stretch != UINT32_MAX || ht_snapshot_due(accounting->snapshots, number);
    if (stops) stop_others(lane);
    lane->rss_bytes[number] = ht_rss_anon_bytes(lane->statm_fd);
    lane->samples_taken++;
    if (!accounting->snapshot_problem && stretch != UINT32_MAX)
        accounting->snapshot_problem =
            ht_stretch_take(accounting->snapshots, accounting->table, accounting->slots,
                            accounting->slots_count, &accounting->figures->stretch[stretch]);
    if (!accounting->snapshot_problem && ht_snapshot_due(accounting->snapshots, number))
        accounting->snapshot_problem = ht_snapshot_take(accounting->snapshots, number, accounting->table,
                                                        accounting->slots, accounting->slots_count);
    if (stops) let_others_go_on(lane);
}

static void take_sample(struct ht_lane *lane, uint32_t number) {
    struct ht_accounting *accounting = lane->accounting;
    if (accounting->snapshots) {
        take_snapshot(lane, number);
        return;
    }
    struct ht_size_account live = sum_of_classes(accounting);
    lane->rss_bytes[number] = live.usable_bytes - live.requested_bytes;
    lane->untouched_bytes[number] = atomic_load(&accounting->untouched_bytes);
    lane->samples_taken++;
    note_peak(accounting, &live);
    if (!accounting->figures->report_values ||
        !ht_probe_due(&accounting->probe, number, live.requested_bytes))
        return;
    struct ht_report_row *row = &accounting->figures->report[accounting->probe.count];
    row->sample = number;
    fill_row(accounting, row);
    accounting->figures->reports = accounting->probe.count + 1;
    ht_probe_done(&accounting->probe);
}

void ht_accounting_end_sample(struct ht_lane *lane) { take_sample(lane, lane->form->samples - 1); }

static void take_due_sample(struct ht_lane *lane, uint32_t number) {
    if (!lane->silent && !ht_window_leaves_sample(lane, number)) take_sample(lane, number);
}

// As the engine's loop does, for the accounts too. What is no call's first word names any slot, which does no harm.
static inline void prefetch_ahead(const struct ht_lane *lane, const uint64_t *word) {
    const struct ht_accounting *accounting = lane->accounting;
    void **entry = lane->table + ht_word_slot(word[HT_WORDS_AHEAD]);
    __builtin_prefetch(entry, 1);
    __builtin_prefetch(accounting->slots + (entry - accounting->table), 1);
}

void ht_accounting_run(struct ht_lane *lane) {
    const uint64_t *word = ht_feed_first(lane);
    while (word) {
        switch (ht_word_op(*word)) {
        case HT_WORD_TIME: ht_window_advance(lane, ht_word_time_ns(*word++)); break;
        case HT_WORD_ORDER: ht_dependency(lane, ht_word_slot(*word), ht_word_arg(*word)), word++; break;
        case HT_WORD_MARK:
            if (ht_word_slot(*word) == HT_MARK_END) {
                word = ht_feed_next(lane);
                break;
            }
            if (ht_word_slot(*word) == HT_MARK_SAMPLE) take_due_sample(lane, ht_word_arg(*word));
            word++;
            break;
        default:
            prefetch_ahead(lane, word);
            begin_call(lane);
            replay_call(lane, word);
            end_call(lane);
            word += ht_word_length(*word);
        }
    }
}

void ht_accounting_init(struct ht_accounting *accounting, const struct ht_server *server, void **table,
                        struct ht_account_slot *slots, bool alone, uint64_t samples,
                        struct ht_child_figures *figures) {
    accounting->table = table;
    accounting->alone = alone;
    accounting->server = *server;
    accounting->slots = slots;
    accounting->figures = figures;
    ht_probe_init(&accounting->probe, samples, HT_REPORTS_MAX);
    figures->knows_usable =
        server->usable_size != NULL && !(server->kind && server->kind->usable_is_requested);
    const struct ht_statistic *statistics = server->kind ? server->kind->statistics : NULL;
    for (uint32_t i = 0; statistics && statistics[i].name && i < HT_REPORT_VALUES_MAX; i++) {
        snprintf(figures->report_names[i], HT_REPORT_NAME_BYTES, "%s", statistics[i].name);
        figures->report_values = i + 1;
    }
}

void ht_accounting_end(struct ht_accounting *accounting) {
    fill_row(accounting, &accounting->figures->report_end);
    accounting->figures->untouched_end_bytes = atomic_load(&accounting->untouched_bytes);
}
