// SPDX-License-Identifier: Apache-2.0
#include "form_blocks.h"

#include <assert.h>

// Few are smaller and yet matter.
#define UNMEASURED_LEAST_BYTES 65536u

static uint64_t lesser(uint64_t a, uint64_t b) { return a < b ? a : b; }

// Pages of a block that touch=recorded leaves alone: those that the program did not have resident in the end,
// where that is known, else those that calloc gave as zeros. former: of the same object before its realloc. A
// small block has none, so that the short path need not count them.
static uint32_t untouched_pages(const struct ht_operation *op, uint32_t former) {
    uint64_t pages = op->bytes / HT_TOUCH_PAGE_BYTES, left = 0;
    if (op->bytes < HT_BLOCK_LARGE_BYTES) return 0;
    if (op->pages != HT_PAGES_BY_RULE) left = pages > op->pages ? pages - op->pages : 0;
    else if (op->call == HT_WIDE_CALLOC) left = op->bytes < HT_CALLOC_LEFT_BYTES ? 0 : pages;
    else if (op->call == HT_WIDE_REALLOC) left = former < pages ? former : pages;
    return left < UINT32_MAX ? (uint32_t)left : UINT32_MAX;
}

int ht_live_make_room(struct ht_live_blocks *live, const struct ht_operation *op) {
    struct ht_form_state *form = live->form;
    if (op->frees || op->bytes < HT_BLOCK_LARGE_BYTES) return 0;
    return ht_form_grow(form, &form->untouched_pages, &form->untouched_room, form->slots_count,
                        sizeof *form->untouched_pages);
}

static uint32_t *untouched_of(struct ht_form_state *form, uint32_t slot) {
    return slot < form->untouched_room ? &form->untouched_pages[slot] : NULL;
}

static void know_touched_peak(const struct ht_live_blocks *live) {
    struct ht_built_form *built = live->form->built;
    assert(live->untouched_bytes <= live->bytes);
    uint64_t touched_bytes = live->bytes - live->untouched_bytes;
    if (touched_bytes <= built->touched_peak_bytes) return;
    built->touched_peak_bytes = touched_bytes;
    // A block lies in a page more than its bytes take.
    built->zeroed_peak_bytes = lesser(live->zeroed_bytes, touched_bytes);
    built->unmeasured_peak_bytes = lesser(live->unmeasured_bytes, touched_bytes);
}

// The slot's block counts with so many pages, instead of those that it had.
static int count_pages(struct ht_form_state *form, const struct ht_operation *op, uint64_t pages,
                       uint32_t **of_slot, size_t *room, uint64_t *bytes) {
    if (pages && ht_form_grow(form, of_slot, room, form->slots_count, sizeof **of_slot)) return -1;
    if (op->slot >= *room) return 0;
    uint32_t *counted = &(*of_slot)[op->slot];
    *bytes -= (uint64_t)*counted * HT_TOUCH_PAGE_BYTES;
    *counted = pages < UINT32_MAX ? (uint32_t)pages : UINT32_MAX;
    *bytes += (uint64_t)*counted * HT_TOUCH_PAGE_BYTES;
    return 0;
}

// Pages of calloc's that were resident when it returned, because it wrote zeros into recycled memory. Whether the program
// touched them, too, the recording does not show; of a large block that calloc takes from the kernel it does.
static int know_zeroed(struct ht_live_blocks *live, const struct ht_operation *op,
                       const struct ht_birth *birth) {
    struct ht_form_state *form = live->form;
    uint64_t pages = 0, most = op->bytes / HT_TOUCH_PAGE_BYTES;
    if (op->call == HT_WIDE_CALLOC && !op->frees && op->bytes >= HT_BLOCK_LARGE_BYTES) {
        pages = birth->pages_before < birth->pages_after ? birth->pages_before : birth->pages_after;
        if (pages > most) pages = most;
    }
    return count_pages(form, op, pages, &form->zeroed_pages, &form->zeroed_room, &live->zeroed_bytes);
}

// A block is unmeasured if the recorder measured others; in a trace without residency that is nothing new.
static int know_unmeasured(struct ht_live_blocks *live, const struct ht_operation *op,
                           const struct ht_birth *birth) {
    struct ht_form_state *form = live->form;
    uint64_t pages = 0, whole = op->bytes / HT_TOUCH_PAGE_BYTES;
    bool unmeasured = !op->frees && op->call != HT_WIDE_REALLOC && op->bytes >= UNMEASURED_LEAST_BYTES &&
                      birth->pages_after == HT_PAGES_BY_RULE && birth->steps == birth->steps_end &&
                      form->facts.residency_count;
    if (unmeasured) pages = whole - untouched_pages(op, 0);
    return count_pages(form, op, pages, &form->unmeasured_pages, &form->unmeasured_room,
                       &live->unmeasured_bytes);
}

// The slot's block becomes one of so many bytes (HT_NOT_LIVE: of none), of which so many pages stay
// untouched.
static void change_block(struct ht_live_blocks *live, uint32_t slot, uint64_t bytes, uint32_t untouched) {
    struct ht_built_form *built = live->form->built;
    struct ht_slot_state *state = &live->form->slots[slot];
    uint32_t *pages = untouched_of(live->form, slot);
    if (state->bytes != HT_NOT_LIVE) live->bytes -= state->bytes;
    if (bytes != HT_NOT_LIVE) live->bytes += bytes;
    state->bytes = bytes;
    if (pages) {
        live->untouched_bytes -= (uint64_t)*pages * HT_TOUCH_PAGE_BYTES;
        live->untouched_bytes += (uint64_t)untouched * HT_TOUCH_PAGE_BYTES;
        *pages = untouched;
    }
    if (live->bytes > built->live_peak_bytes) built->live_peak_bytes = live->bytes;
    know_touched_peak(live);
}

void ht_live_touch(void *context, uint32_t slot, uint64_t pages) {
    struct ht_live_blocks *live = context;
    uint32_t *untouched = untouched_of(live->form, slot);
    if (!untouched) return;
    uint32_t touched = pages < *untouched ? (uint32_t)pages : *untouched;
    *untouched -= touched;
    live->untouched_bytes -= (uint64_t)touched * HT_TOUCH_PAGE_BYTES;
    know_touched_peak(live);
}

static uint64_t alignment_of(const struct ht_form_state *form, uint32_t slot) {
    unsigned bits = slot < form->alignment_room ? form->alignment_bits[slot] : 0;
    return bits ? UINT64_C(1) << bits : 0;
}

// What a block was aligned to by request decides whether it can be freed by its size.
static int know_alignment(struct ht_form_state *form, const struct ht_operation *op) {
    bool aligned = op->call == HT_WIDE_ALIGNED;
    if (aligned && ht_form_grow(form, &form->alignment_bits, &form->alignment_room, form->slots_count,
                                sizeof *form->alignment_bits))
        return -1;
    if (op->slot < form->alignment_room)
        form->alignment_bits[op->slot] = aligned ? (uint8_t)__builtin_ctzll(op->extra) : 0;
    return 0;
}

const char *ht_live_follow(struct ht_live_blocks *live, struct ht_operation *op,
                           const struct ht_op_shape *shape) {
    struct ht_slot_state *state = &live->form->slots[op->slot];
    const uint32_t *pages = untouched_of(live->form, op->slot);
    bool is_live = state->bytes != HT_NOT_LIVE;
    if (shape->makes_object && is_live) return ht_found("expected an allocation into a free slot", op->slot);
    if (!shape->makes_object && !is_live) return ht_found("expected a slot with a live object", op->slot);
    if (shape->query) return NULL;
    if (shape->ends_object) {
        // By another size than it has it would be freed in the wrong place, where the program had an error.
        op->sized &= op->size && op->size == state->bytes && op->extra == alignment_of(live->form, op->slot);
        op->bytes = state->bytes - (pages ? (uint64_t)*pages * HT_TOUCH_PAGE_BYTES : 0);
        change_block(live, op->slot, HT_NOT_LIVE, 0);
        return NULL;
    }
    if (op->bytes > INT64_MAX) return ht_found("expected a size below 2^63", op->bytes);
    if (op->bytes > INT64_MAX - live->bytes)
        return ht_found("expected live bytes below 2^63 with this block", op->bytes);
    change_block(live, op->slot, op->bytes, untouched_pages(op, is_live && pages ? *pages : 0));
    return NULL;
}

void ht_live_give_back(struct ht_live_blocks *live, uint32_t slot, uint64_t pages) {
    uint32_t *untouched = untouched_of(live->form, slot);
    uint64_t whole = live->form->slots[slot].bytes / HT_TOUCH_PAGE_BYTES;
    if (!untouched || *untouched >= whole) return;
    uint64_t left = whole - *untouched, more = pages < left ? pages : left;
    *untouched += (uint32_t)more;
    live->untouched_bytes += more * HT_TOUCH_PAGE_BYTES;
}

int ht_live_know(struct ht_live_blocks *live, const struct ht_operation *op, const struct ht_birth *birth) {
    if (know_zeroed(live, op, birth) || know_unmeasured(live, op, birth)) return -1;
    return op->frees ? 0 : know_alignment(live->form, op);
}
