// SPDX-License-Identifier: GPL-3.0-or-later
// The accesses of options.splice, at the addresses that this process's calls return: between one call and the
// next, the program's accesses that were recorded there go through the same simulated processor.
#include "tool.h"
#include <pub_tool_hashtable.h>
#include <pub_tool_libcassert.h>
#include <pub_tool_libcbase.h>
#include <pub_tool_libcfile.h>
#include <pub_tool_libcprint.h>
#include <pub_tool_libcproc.h>
#include <pub_tool_mallocfree.h>
#include <pub_tool_vki.h>

struct splice_class splice_classes[SIZE_CLASSES];

ULong spliced_instructions, spliced_accesses, spliced_operators;

// Sampled accesses. Far misses are all there: between bursts each line is accessed once for many times, but among so few
// others that the second levels would have held it. Near misses count within bursts, and become those of the whole
// program by the accesses of the program and of its allocator, all of which are known. Groups of bursts, the same ones
// under each allocator, show how far that is off.
enum { FEW_ACCESSES = 10000 };  // in bursts: with fewer of them, what was simulated between bursts says more

struct sums {
    ULong accesses;  // of the program, as recorded
    struct ht_miss_counts misses[PARTS];
};

UInt bursts, burst_groups;

static struct ht_miss_counts between[PARTS];
static struct sums group_ends[BURST_GROUPS_MAX];
static UInt bursts_of_group = 1;

static Bool is_splice_counted(void) { return miss_counts == counts.misses; }
static void leave_burst(void) { miss_counts = between; }
static void enter_burst(void) { miss_counts = counts.misses; }

static void count_burst(ULong accesses) {
    struct sums *end = &group_ends[burst_groups], before = {0};
    if (burst_groups) before = end[-1];
    if (bursts++ % bursts_of_group) end--;  // it goes on
    else burst_groups++;
    end->accesses = before.accesses + accesses;
    VG_(memcpy)(end->misses, counts.misses, sizeof end->misses);
    leave_burst();
    if (burst_groups < BURST_GROUPS_MAX || bursts % bursts_of_group) return;
    for (UInt i = 0; i < BURST_GROUPS_MAX / 2; i++) group_ends[i] = group_ends[2 * i + 1];
    burst_groups = BURST_GROUPS_MAX / 2;
    bursts_of_group *= 2;
}

// Of one part: what becomes of a count.
struct estimate {
    double all;         // accesses
    double of_bursts;   // the factor of near misses that bursts have
    double of_between;  // and of those that were simulated altogether
};

static struct estimate estimate_of(enum part part) {
    const struct ht_miss_counts *in = &counts.misses[part], *out = &between[part];
    struct estimate made = {.all = (double)(in->accesses + out->accesses)};
    double counted = (double)in->accesses;
    if (part == PART_PROGRAM) {
        made.all = (double)spliced_accesses;
        counted = burst_groups ? (double)group_ends[burst_groups - 1].accesses : 0;
    }
    made.of_bursts = made.all / (counted + FEW_ACCESSES);
    made.of_between = FEW_ACCESSES / (counted + FEW_ACCESSES);
    return made;
}

static ULong near(const struct estimate *estimate, uint64_t in, uint64_t out) {
    return (ULong)((double)in * estimate->of_bursts + (double)(in + out) * estimate->of_between + 0.5);
}

static void extrapolate_part(enum part part) {
    struct ht_miss_counts *in = &counts.misses[part], *out = &between[part];
    struct estimate estimate = estimate_of(part);
    ULong l2 = in->l2 + out->l2, l1d = near(&estimate, in->l1d, out->l1d);
    *in = (struct ht_miss_counts){.accesses = (ULong)estimate.all,
                                  .l1d = l1d > l2 ? l1d : l2,
                                  .l1d_sequential = near(&estimate, in->l1d_sequential, out->l1d_sequential),
                                  .l2 = l2,
                                  .l2_sequential = in->l2_sequential + out->l2_sequential,
                                  .l1i = near(&estimate, in->l1i, out->l1i),
                                  .l1i_l2 = in->l1i_l2 + out->l1i_l2,
                                  .dtlb = near(&estimate, in->dtlb, out->dtlb),
                                  .stlb = in->stlb + out->stlb,
                                  .far = {in->far[0] + out->far[0], in->far[1] + out->far[1],
                                          in->far[2] + out->far[2], in->far[3] + out->far[3]}};
}

void extrapolate_bursts(void) {
    struct estimate program = estimate_of(PART_PROGRAM);
    for (UInt i = 0; i < SIZE_CLASSES; i++) {
        struct splice_class *class = &splice_classes[i];
        class->accesses = (ULong)((double)class->accesses * program.of_bursts);
        class->l1d = (ULong)((double)class->l1d * program.of_bursts);
        if (class->l1d < class->l2) class->l1d = class->l2;
    }
    extrapolate_part(PART_PROGRAM);
    extrapolate_part(PART_ALLOCATOR);
}

ULong burst_group(UInt number, enum part part, struct burst_group *group) {
    static const struct sums nothing;
    const struct sums *end = &group_ends[number], *before = number ? end - 1 : &nothing;
    const struct ht_miss_counts *to = &end->misses[part], *from = &before->misses[part];
    struct estimate estimate = estimate_of(part);
    *group = (struct burst_group){
        .l1d = (ULong)((double)(to->l1d - from->l1d) * estimate.of_bursts),
        .l1i = (ULong)((double)(to->l1i - from->l1i) * estimate.of_bursts),
        .dtlb = (ULong)((double)(to->dtlb - from->dtlb) * estimate.of_bursts),
    };
    return end->accesses - before->accesses;
}

struct block {
    Addr address;
    ULong bytes;
};

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

// The size class of each call of the malloc family: of what it asks for, or of the block that it frees.
struct sized_block {
    struct sized_block *next;  // the first two as in VgHashNode
    UWord address;
    ULong bytes;
};

static VgHashTable *sized_blocks;

static ULong freed_bytes(Addr address) {
    struct sized_block *block = sized_blocks && address ? VG_(HT_lookup)(sized_blocks, address) : NULL;
    return block ? block->bytes : 0;
}

static ULong bytes_of_call(void) {
    const ULong *argument = running.argument;
    switch (running.kind) {
    case CALL_MALLOC:
    case CALL_ALIGNED_NEW:
    case CALL_PAGE_ALIGNED: return argument[0];
    case CALL_CALLOC: return argument[0] * argument[1];
    case CALL_REALLOC:
    case CALL_ALIGNED: return argument[1];
    case CALL_REALLOC_ARRAY: return argument[1] * argument[2];
    case CALL_POSIX_MEMALIGN: return argument[2];
    case CALL_FREE: return freed_bytes(argument[0]);
    default: return 0;
    }
}

UInt size_class_of_call(void) { return size_class_of(bytes_of_call()); }

static void forget_block(Addr address) {
    struct sized_block *block = address ? VG_(HT_remove)(sized_blocks, address) : NULL;
    if (block) VG_(free)(block);
}

static void know_block(Addr address, ULong bytes) {
    if (!address) return;
    forget_block(address);
    struct sized_block *block = VG_(malloc)("heaptape.sized", sizeof *block);
    block->address = address;
    block->bytes = bytes;
    VG_(HT_add_node)(sized_blocks, block);
}

void keep_block_size(ULong result) {
    const ULong *argument = running.argument;
    if (options.record) return;  // its file has the sizes
    if (!sized_blocks) sized_blocks = VG_(HT_construct)("heaptape.sized_blocks");
    switch (running.kind) {
    case CALL_FREE: forget_block(argument[0]); break;
    case CALL_REALLOC:
    case CALL_REALLOC_ARRAY:
        if (result || !bytes_of_call()) forget_block(argument[0]);
        know_block(result, bytes_of_call());
        break;
    case CALL_POSIX_MEMALIGN:
        if (!result) know_block(*(Addr *)argument[0], bytes_of_call());
        break;
    case CALL_NONE:
    case CALL_OTHER: break;
    default: know_block(result, bytes_of_call());
    }
}
