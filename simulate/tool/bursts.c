// SPDX-License-Identifier: GPL-3.0-or-later
// Sampled accesses. Far misses are all there: between bursts each line is accessed once for many times, but among so few
// others that the second levels would have held it. Near misses count within bursts, and become those of the whole
// program by the accesses of the program and of its allocator, all of which are known. Groups of bursts, the same ones
// under each allocator, show how far that is off.
#include "tool.h"
#include <pub_tool_libcbase.h>

enum { FEW_ACCESSES = 10000 };  // in bursts: with fewer of them, what was simulated between bursts says more

struct sums {
    ULong accesses;  // of the program, as recorded
    struct ht_miss_counts misses[PARTS];
};

struct ht_miss_counts *miss_counts = counts.misses;
UInt bursts, burst_groups;

static struct ht_miss_counts between[PARTS];
static struct sums group_ends[BURST_GROUPS_MAX];
static UInt bursts_of_group = 1;

Bool is_splice_counted(void) { return miss_counts == counts.misses; }
void leave_burst(void) { miss_counts = between; }
void enter_burst(void) { miss_counts = counts.misses; }

void count_burst(ULong accesses) {
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
