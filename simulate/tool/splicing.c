// SPDX-License-Identifier: GPL-3.0-or-later
// The accesses of options.splice, at the addresses that this process's calls return: between one call and the
// next, the program's accesses that were recorded there go through the same simulated processor.
#include "tool.h"
#include <pub_tool_libcassert.h>
#include <pub_tool_libcbase.h>
#include <pub_tool_libcfile.h>
#include <pub_tool_libcprint.h>
#include <pub_tool_libcproc.h>
#include <pub_tool_mallocfree.h>
#include <pub_tool_vki.h>

struct block {
    Addr address;
    ULong bytes;
};

struct splice_class splice_classes[SIZE_CLASSES];
const HChar *splice_problem;  // why accesses and calls don't belong together; NULL: they do

ULong spliced_instructions, spliced_accesses, spliced_operators;

static struct ht_access_reader *reader;
static struct ht_access last_access;  // the last one read: a call, unless the file ended
static enum ht_access_kind kind = HT_ACCESS_END;
static Int file = -1;
static struct block *blocks;  // by slot
static UInt blocks_room;
static ULong calls;
static HChar problem[400];

static size_t read_bytes(void *source, uint8_t *room, size_t count) {
    (void)source;
    Int got = VG_(read)(file, room, (Int)count);
    return got > 0 ? (size_t)got : 0;
}

static void skip_header(void) {
    enum { MAGIC = sizeof HT_ACCESS_MAGIC - 1 };
    uint8_t head[MAGIC + 16];
    uint32_t numbers[4];
    if (VG_(read)(file, head, sizeof head) != sizeof head || VG_(memcmp)(head, HT_ACCESS_MAGIC, MAGIC)) {
        splice_problem = "not an accesses file";
        return;
    }
    VG_(memcpy)(numbers, head + MAGIC, sizeof numbers);
    if (numbers[1] > HT_ACCESS_VERSION_SAMPLED) splice_problem = "an accesses file of a later version";
    reader->sampled = numbers[1] == HT_ACCESS_VERSION_SAMPLED;
    if (reader->sampled) leave_burst();
    reader->offset = sizeof head + numbers[3];
    VG_(lseek)(file, (OffT)reader->offset, VKI_SEEK_SET);
}

void start_splicing(void) {
    if (!options.splice) return;
    SysRes opened = VG_(open)(options.splice, VKI_O_RDONLY, 0);
    if (sr_isError(opened)) {
        VG_(umsg)("%s: cannot be read\n", options.splice);
        VG_(exit)(1);
    }
    file = VG_(safe_fd)((Int)sr_Res(opened));
    reader = VG_(calloc)("heaptape.reader", 1, sizeof *reader);
    reader->read = read_bytes;
    skip_header();
}

Bool is_spliced_sampled(void) { return reader && reader->sampled; }
Bool is_splicing(void) { return reader != NULL && !splice_problem; }

// 4 classes of each doubling: their lowest size, and the class of a size.
ULong size_class_low(UInt number) { return (4ull + number % 4) << (number / 4) >> 2; }
UInt size_class_of(ULong bytes) {
    if (bytes < 4) return (UInt)(bytes ? (bytes - 1) * 4 : 0);
    UInt doubling = 63 - (UInt)__builtin_clzll(bytes);
    return doubling * 4 + (UInt)(bytes >> (doubling - 2) & 3);
}

static void access_block(void) {
    if (last_access.slot >= blocks_room || !blocks[last_access.slot].address) return;  // freed, or never seen
    struct block *block = &blocks[last_access.slot];
    enum ht_served served =
        simulate_access(PART_PROGRAM, block->address + (last_access.granule << HT_GRANULE_SHIFT), 1);
    struct splice_class *class = &splice_classes[size_class_of(block->bytes)];
    class->l2 += served == HT_SERVED_MEMORY;
    if (!is_splice_counted()) return;
    class->accesses++;
    class->l1d += served >= HT_SERVED_L2;
}

// The accesses up to the next call, which then waits in last_access.
static void simulate_until_call(void) {
    for (;;) {
        kind = ht_read_access(reader, &last_access);
        switch (kind) {
        case HT_ACCESS_BLOCK: access_block(); break;
        case HT_ACCESS_LINE: simulate_access(PART_PROGRAM, last_access.line << HT_LINE_SHIFT, 1); break;
        case HT_ACCESS_CODE:
            ht_processor_code_line(&processor, last_access.line, &miss_counts[PART_PROGRAM]);
            break;
        case HT_ACCESS_BURST: enter_burst(); break;
        case HT_ACCESS_BURST_END: count_burst(last_access.accesses); break;
        case HT_ACCESS_CUT:
        case HT_ACCESS_DAMAGED:
            if (kind == HT_ACCESS_CUT)
                VG_(sprintf)(problem, "offset %llu: expected more: the file is cut short",
                             (ULong)last_access.offset);
            else
                VG_(sprintf)(problem, "offset %llu: expected %s, found %llu", (ULong)last_access.offset,
                             last_access.expected, (ULong)last_access.found);
            splice_problem = problem;
            return;
        case HT_ACCESS_END:
            spliced_instructions = last_access.instructions;
            spliced_accesses = last_access.accesses;
            spliced_operators = last_access.operators;
            return;
        default: return;
        }
    }
}

// options.within may be entered again before the first call.
void splice_begin(void) {
    if (is_splicing() && kind != HT_ACCESS_CALL) simulate_until_call();
}

static struct block *block_of(UInt slot) {
    if (slot >= blocks_room) {
        UInt before = blocks_room;
        while (slot >= blocks_room) blocks_room = blocks_room ? blocks_room * 2 : 1 << 16;
        blocks = VG_(realloc)("heaptape.blocks", blocks, blocks_room * sizeof *blocks);
        VG_(memset)(blocks + before, 0, (blocks_room - before) * sizeof *blocks);
    }
    return &blocks[slot];
}

static void differ(const HChar *made, ULong bytes) {
    static const HChar *const names[] = {"malloc", "calloc", "realloc", "free", "aligned", "free", "?", "?"};
    if (kind != HT_ACCESS_CALL) {
        VG_(sprintf)(problem, "call %llu: expected no more calls, the replay made %s(%llu)", calls, made,
                     bytes);
    } else {
        VG_(sprintf)(problem, "call %llu: expected %s(%llu), the replay made %s(%llu)", calls,
                     names[last_access.call.call & 7], (ULong)last_access.call.size, made, bytes);
    }
    splice_problem = problem;
}

// The replayed call, as one of the recorded kinds; the block and its size.
static enum ht_access_call call_made(ULong result, struct block *made) {
    const ULong *argument = running.argument;
    *made = (struct block){result, argument[0]};
    switch (running.kind) {
    case CALL_MALLOC: return HT_ACCESS_MALLOC;
    case CALL_CALLOC: made->bytes = argument[0] * argument[1]; return HT_ACCESS_CALLOC;
    case CALL_REALLOC: made->bytes = argument[1]; return HT_ACCESS_REALLOC;
    case CALL_FREE: *made = (struct block){0}; return argument[0] ? HT_ACCESS_FREE : HT_ACCESS_FREE_NULL;
    case CALL_ALIGNED: made->bytes = argument[1]; return HT_ACCESS_ALIGNED;
    case CALL_ALIGNED_NEW: return HT_ACCESS_ALIGNED;
    case CALL_POSIX_MEMALIGN:
        *made = (struct block){result ? 0 : *(Addr *)argument[0], argument[2]};
        return HT_ACCESS_ALIGNED;
    default: return HT_ACCESS_CALLS;
    }
}

void splice_call(ULong result) {
    static const HChar *const names[] = {"malloc", "calloc", "realloc", "free", "aligned", "free", "?"};
    struct block made;
    if (!is_splicing() || running.kind == CALL_OTHER) return;
    enum ht_access_call call = call_made(result, &made);
    const struct ht_recorded_call *recorded = &last_access.call;
    ULong bytes = recorded->call == HT_ACCESS_CALLOC ? recorded->size * recorded->count : recorded->size;
    calls++;
    if (kind != HT_ACCESS_CALL || recorded->call != call || bytes != made.bytes) {
        differ(names[call], made.bytes);
        return;
    }
    if (call != HT_ACCESS_FREE_NULL) *block_of(recorded->slot) = made;
    simulate_until_call();
}

// What the program did after its last call.
void end_splicing(void) {
    if (is_splicing() && kind == HT_ACCESS_CALL) {
        VG_(sprintf)(problem, "call %llu: the replay made no more calls", calls + 1);
        splice_problem = problem;
    }
}
