// SPDX-License-Identifier: Apache-2.0
#include "form_operation.h"

#include <unistd.h>

#include "ops.h"

static uint64_t fit_alignment(uint64_t alignment) {
    uint64_t fitting = sizeof(void *);  // posix_memalign's least, and powers of two only
    while (fitting < alignment && fitting < 1ull << 62) fitting *= 2;
    return fitting;
}

static uint64_t product(uint64_t a, uint64_t b) {
    uint64_t result;
    return __builtin_mul_overflow(a, b, &result) ? UINT64_MAX : result;
}

static void make_allocation(struct ht_operation *op, uint64_t extra, uint64_t page_bytes) {
    switch (op->function) {
    case HT_CALLOC:
        op->call = HT_WIDE_CALLOC;
        op->extra = extra;
        op->bytes = product(op->size, extra);
        break;
    case HT_POSIX_MEMALIGN:
    case HT_ALIGNED_ALLOC:
    case HT_MEMALIGN:
    case HT_NEW_ALIGNED:
    case HT_NEW_ARRAY_ALIGNED:
        // All as posix_memalign: memalign, valloc and pvalloc of some allocators are the C library's.
        op->call = HT_WIDE_ALIGNED;
        op->extra = fit_alignment(extra);
        break;
    case HT_PVALLOC:
        if (op->size <= UINT64_MAX - page_bytes) {
            op->size = op->bytes = (op->size + page_bytes - 1) / page_bytes * page_bytes;
        }
        op->call = HT_WIDE_ALIGNED;
        op->extra = page_bytes;
        break;
    case HT_VALLOC:
        op->call = HT_WIDE_ALIGNED;
        op->extra = page_bytes;
        break;
    default:  // malloc, operator new, a block live at the start
        op->call = HT_WIDE_MALLOC;
        op->extra = ht_new_kind_of(op->function);
        break;
    }
}

static void make_realloc(struct ht_operation *op, unsigned variant, uint64_t count, uint64_t former) {
    if (op->function == HT_REALLOCARRAY) op->size = op->bytes = product(op->size, count);
    if (variant == HT_RELEASED) {
        op->frees = true;  // by what it did when recorded, whatever this allocator makes of size 0
        return;
    }
    if (variant == HT_NULL || variant == HT_FOREIGN) {
        op->call = HT_WIDE_REALLOC_NULL;
        return;
    }
    op->call = HT_WIDE_REALLOC;
    op->extra = former;
    if (op->size == 0) op->size = 1;  // it returned a block; some allocators would free it
}

struct ht_operation ht_operation_of(const struct ht_events *events, uint32_t i, uint64_t former_bytes) {
    uint8_t code = events->op[i];
    struct ht_operation op = {
        .function = ht_op_function(code), .slot = events->slot[i], .pages = HT_PAGES_BY_RULE};
    enum ht_kind kind = ht_functions[op.function].kind;
    if (op.function == HT_DROP || kind == HT_KIND_FREE) {
        op.frees = true;
        op.sized = ht_functions[op.function].size;
        if (op.sized) op.size = events->size[i];
        if (op.sized && ht_functions[op.function].extra) op.extra = fit_alignment(events->extra[i]);
        return op;
    }
    if (kind == HT_KIND_QUERY) {
        op.call = HT_WIDE_QUERY;
        return op;
    }
    op.size = op.bytes = events->size[i];
    if (kind == HT_KIND_REALLOC) make_realloc(&op, ht_op_variant(code), events->extra[i], former_bytes);
    else make_allocation(&op, events->extra[i], (uint64_t)sysconf(_SC_PAGESIZE));
    return op;
}

enum ht_new_kind ht_new_kind_of(unsigned function) {
    return function == HT_NEW ? HT_BY_NEW : function == HT_NEW_ARRAY ? HT_BY_NEW_ARRAY : HT_BY_MALLOC;
}

enum ht_free_kind ht_free_kind_of(unsigned function, bool sized) {
    switch (function) {
    case HT_DELETE: return HT_BY_DELETE;
    case HT_DELETE_ARRAY: return HT_BY_DELETE_ARRAY;
    case HT_DELETE_SIZED: return sized ? HT_BY_DELETE_SIZED : HT_BY_DELETE;
    case HT_DELETE_ARRAY_SIZED: return sized ? HT_BY_DELETE_ARRAY_SIZED : HT_BY_DELETE_ARRAY;
    case HT_DELETE_SIZED_ALIGNED: return sized ? HT_BY_DELETE_ALIGNED : HT_BY_FREE;
    case HT_DELETE_ARRAY_SIZED_ALIGNED: return sized ? HT_BY_DELETE_ARRAY_ALIGNED : HT_BY_FREE;
    case HT_FREE_SIZED: return sized ? HT_BY_FREE_SIZED : HT_BY_FREE;
    case HT_FREE_ALIGNED_SIZED: return sized ? HT_BY_FREE_ALIGNED : HT_BY_FREE;
    default: return HT_BY_FREE;
    }
}

static size_t put_free(const struct ht_operation *op, uint64_t *words) {
    enum ht_free_kind kind = ht_free_kind_of(op->function, op->sized);
    bool whole = kind < HT_BY_DELETE_SIZED || op->bytes == op->size;
    if (kind <= HT_BY_DELETE_SIZED && whole && op->bytes <= HT_ARG_BYTES_MAX) {
        words[0] = ht_word(HT_WORD_FREE, op->slot, ht_arg(kind, op->bytes));
        return 1;
    }
    words[0] = ht_word(HT_WORD_WIDE, op->slot, HT_WIDE_FREE);
    words[1] = op->size;
    words[2] = ht_how_to_free(kind, op->extra);
    words[3] = op->bytes;
    return 4;
}

size_t ht_operation_put(const struct ht_operation *op, uint64_t *words) {
    static const enum ht_word_op narrow[] = {HT_WORD_MALLOC, HT_WORD_CALLOC, HT_WORD_REALLOC};
    static_assert(HT_WIDE_MALLOC == 0 && HT_WIDE_CALLOC == 1 && HT_WIDE_REALLOC == 2, "the calls in narrow");
    if (op->frees) return put_free(op, words);
    uint64_t narrow_max = op->call == HT_WIDE_MALLOC ? HT_ARG_BYTES_MAX : UINT32_MAX;
    if (op->call > HT_WIDE_REALLOC || op->size > narrow_max || op->pages != HT_PAGES_BY_RULE) {
        words[0] = ht_word(HT_WORD_WIDE, op->slot, op->call);
        words[1] = op->size;
        words[2] = op->extra;
        words[3] = op->pages;
        return 4;
    }
    if (op->call == HT_WIDE_MALLOC) {
        words[0] = ht_word(HT_WORD_MALLOC, op->slot, ht_arg((unsigned)op->extra, op->size));
        return 1;
    }
    words[0] = ht_word(narrow[op->call], op->slot, (uint32_t)op->size);
    words[1] = op->extra;
    return 2;
}
