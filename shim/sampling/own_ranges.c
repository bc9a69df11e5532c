// SPDX-License-Identifier: Apache-2.0
#include "own_ranges.h"

#include <stdatomic.h>
#include <string.h>

#include "older_libc.h"
#include "real.h"
#include "settings.h"
#include "state.h"
#include "sys.h"

enum { LOCK_TRIES_MAX = 1 << 14 };

static struct {
    atomic_flag lock;
    struct own_ranges known;
    struct {
        const void *who;
        struct range range;
        bool fills;              // somewhere: only its length is known
    } leaving[OWN_LEAVING_MAX];  // what the kernel is at work on
    _Atomic size_t leaving_count;
    bool untold;  // there was no room for all that is
    _Atomic uint64_t changes;
    struct {
        const void *caller;
        uintptr_t start;
        size_t bytes;
    } early[OWN_EARLY_MAX];
    size_t early_count;
    bool overflowed;  // too many to follow: own memory is unknown
} own = {.lock = ATOMIC_FLAG_INIT};

// The lock is held for a copy of the tables at most. A thread that still cannot have it, because its holder
// will never run again, does without: then own memory is unknown from here on.
static bool lock(void) {
    if (own.overflowed) return false;
    for (unsigned tries = 0; atomic_flag_test_and_set_explicit(&own.lock, memory_order_acquire); tries++) {
        if (tries == LOCK_TRIES_MAX) {
            own.overflowed = true;
            return false;
        }
        if (recorder_may_call()) {
            sys_yield();
            recorder_has_called();
        }
    }
    return true;
}
static void unlock(void) { atomic_flag_clear_explicit(&own.lock, memory_order_release); }

static uintptr_t page_up(uintptr_t address) {
    return (address + settings.page_bytes - 1) & ~(uintptr_t)(settings.page_bytes - 1);
}

// A program may ask for more than there is, which the kernel will refuse.
static uintptr_t end_of(uintptr_t start, size_t bytes) {
    uintptr_t last = ~(uintptr_t)(settings.page_bytes - 1);
    return start >= last || bytes > last - start ? last : page_up(start + bytes);
}

// ---- a table ----

// Index of the first range that ends after start.
static size_t find(const struct range_table *table, uintptr_t start) {
    size_t low = 0, high = table->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (table->range[middle].end > start) high = middle;
        else low = middle + 1;
    }
    return low;
}

static void insert(struct range_table *table, size_t at, struct range range) {
    if (table->count == OWN_RANGES_MAX) {
        own.overflowed = true;
        return;
    }
    memmove(&table->range[at + 1], &table->range[at], (table->count - at) * sizeof range);
    table->range[at] = range;
    table->count++;
}

static void cut(struct range_table *table, uintptr_t start, uintptr_t end) {
    size_t i = find(table, start);
    while (i < table->count && table->range[i].start < end) {
        struct range old = table->range[i];
        if (old.start < start && old.end > end) {
            table->range[i].end = start;
            insert(table, i + 1, (struct range){end, old.end});
            return;
        }
        if (old.start < start) {
            table->range[i++].end = start;
        } else if (old.end > end) {
            table->range[i].start = end;
            return;
        } else {
            memmove(&table->range[i], &table->range[i + 1], (--table->count - i) * sizeof old);
        }
    }
}

// Neighbours grow together: page-wise mapping must not fill the table.
static void add(struct range_table *table, uintptr_t start, uintptr_t end) {
    cut(table, start, end);
    size_t at = find(table, start);
    bool before = at > 0 && table->range[at - 1].end == start;
    bool behind = at < table->count && table->range[at].start == end;
    if (before && behind) {
        table->range[at - 1].end = table->range[at].end;
        memmove(&table->range[at], &table->range[at + 1], (--table->count - at) * sizeof *table->range);
    } else if (before) {
        table->range[at - 1].end = end;
    } else if (behind) {
        table->range[at].start = start;
    } else {
        insert(table, at, (struct range){start, end});
    }
}

// ---- what the hooks report ----

void own_map(uintptr_t start, size_t bytes) {
    if (!lock()) return;
    add(&own.known.mapped, start, end_of(start, bytes));
    unlock();
}

void own_unmap(uintptr_t start, size_t bytes) {
    if (!lock()) return;
    cut(&own.known.mapped, start, end_of(start, bytes));
    unlock();
}

// More than there is room for stays with what was there before the first allocation.
void own_map_early(uintptr_t start, size_t bytes, const void *caller) {
    if (own.early_count == OWN_EARLY_MAX) return;
    own.early[own.early_count].caller = caller;
    own.early[own.early_count].start = start;
    own.early[own.early_count++].bytes = bytes;
    own_map(start, bytes);
}

void own_end_early(void) {
    for (size_t i = 0; i < own.early_count; i++)
        if (real_calls_from(own.early[i].caller)) own_unmap(own.early[i].start, own.early[i].bytes);
    own.early_count = 0;
}

// ---- what the kernel is at work on ----

static void note_change(size_t bytes) {
    if (bytes >= OWN_MOVED_BYTES_MIN) own.changes++;
}

static void put_leaving(const void *who, struct range range, bool fills) {
    note_change(range.end - range.start);
    if (own.leaving_count == OWN_LEAVING_MAX) {
        own.untold = true;
        return;
    }
    own.leaving[own.leaving_count].who = who;
    own.leaving[own.leaving_count].fills = fills;
    own.leaving[own.leaving_count++].range = range;
}

static void forget_leaving(const void *who, bool stays) {
    for (size_t i = 0; i < own.leaving_count;) {
        struct range range = own.leaving[i].range;
        if (own.leaving[i].who != who) {
            i++;
            continue;
        }
        note_change(range.end - range.start);
        if (stays && !own.leaving[i].fills) add(&own.known.mapped, range.start, range.end);
        own.leaving[i] = own.leaving[own.leaving_count - 1];
        own.leaving_count--;
    }
    if (!own.leaving_count) own.untold = false;
}

bool own_unmap_begins(uintptr_t start, size_t bytes, const void *who) {
    uintptr_t end = end_of(start, bytes);
    if (!lock()) return false;
    const struct range_table *table = &own.known.mapped;
    bool any = false;
    for (size_t i = find(table, start); i < table->count && table->range[i].start < end; i++) {
        struct range range = table->range[i];
        any = true;
        put_leaving(
            who, (struct range){range.start > start ? range.start : start, range.end < end ? range.end : end},
            false);
    }
    cut(&own.known.mapped, start, end);
    unlock();
    return any;
}

void own_unmap_ends(const void *who, bool stays) {
    if (!lock()) return;
    forget_leaving(who, stays);
    unlock();
}

void own_unmap_ends_alone(void) {
    own.leaving_count = 0;
    own.untold = false;
}

void own_fill_begins(size_t bytes, const void *who) {
    if (!lock()) return;
    put_leaving(who, (struct range){0, bytes}, true);
    unlock();
}

void own_fill_ends(const void *who) { own_unmap_ends(who, false); }

void own_thread_ends(const void *who) {
    if (own.leaving_count) own_unmap_ends(who, false);
}

bool own_has(uintptr_t address) {
    if (!lock()) return false;
    const struct range_table *table = &own.known.mapped;
    size_t at = find(table, address);
    bool found = at < table->count && table->range[at].start <= address;
    unlock();
    return found;
}

// libc keeps what it knows of a thread, and its thread-local storage, at the end of the stack: on x86 the
// former lies last, elsewhere the latter, which is mostly of less than a page.
static uintptr_t end_of_stack(void) {
    uintptr_t thread = (uintptr_t)__builtin_thread_pointer();
#ifdef __x86_64__
    return page_up(thread + 1);
#else
    return page_up(thread + 1) + settings.page_bytes;
#endif
}

void own_note_stack(void) {
    uintptr_t end = end_of_stack();
    if (!lock()) return;
    struct own_ranges *known = &own.known;
    size_t at = known->stacks;
    while (at > 0 && known->stack_end[at - 1] >= end) at--;
    // A stack that an ended thread left is used again by the next.
    bool is_known = at < known->stacks && known->stack_end[at] == end;
    if (!is_known && known->stacks < OWN_STACKS_MAX) {
        memmove(&known->stack_end[at + 1], &known->stack_end[at], (known->stacks - at) * sizeof end);
        known->stack_end[at] = end;
        known->stacks++;
    }
    unlock();
}

// ---- for a count ----

bool own_copy(struct own_ranges *to, struct own_moves *moves) {
    if (!lock()) return false;
    memcpy(to->mapped.range, own.known.mapped.range, own.known.mapped.count * sizeof *to->mapped.range);
    to->mapped.count = own.known.mapped.count;
    memcpy(to->stack_end, own.known.stack_end, own.known.stacks * sizeof *to->stack_end);
    to->stacks = own.known.stacks;
    moves->leaving_count = 0;
    moves->unknown = own.untold;
    moves->changes = own.changes;
    for (size_t i = 0; i < own.leaving_count; i++) {
        struct range range = own.leaving[i].range;
        if (own.leaving[i].fills) {
            moves->unknown |= range.end >= OWN_MOVED_BYTES_MIN;
            continue;
        }
        moves->leaving[moves->leaving_count++] = range;
        // Its addresses may be another thread's again.
        add(&to->mapped, range.start, range.end);
    }
    unlock();
    return !own.overflowed;
}

bool own_has_moved(const struct own_moves *moves) { return own.changes != moves->changes; }

size_t own_stacks(void) { return own.known.stacks; }

uint64_t own_mapped_bytes(void) {
    uint64_t bytes = 0;
    if (!lock()) return UINT64_MAX;
    for (size_t i = 0; i < own.known.mapped.count; i++)
        bytes += own.known.mapped.range[i].end - own.known.mapped.range[i].start;
    for (size_t i = 0; i < own.leaving_count; i++)
        bytes += own.leaving[i].range.end - own.leaving[i].range.start;
    unlock();
    return own.untold ? UINT64_MAX : bytes;
}

// The thread that unmapped is the parent's.
void own_ranges_after_fork(void) {
    atomic_flag_clear(&own.lock);
    own.leaving_count = 0;
    own.untold = false;
}
