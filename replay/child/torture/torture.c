// SPDX-License-Identifier: Apache-2.0
#include "torture.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "rss_probe.h"
#include "torture_part.h"

static const uint64_t SEED_STEP = 0x9e3779b97f4a7c15;

// In the child all blocks are as they were, and what it does to them is not the parent's.
static bool change_all(struct ht_torturer *t) {
    ht_slots_check(t, ht_residents);
    for (unsigned i = 0; i < 4000; i++)
        ht_slots_put(t, ht_residents, ht_any_function(t, true), ht_any_size(t, 13), ht_any_alignment(t));
    ht_slots_end(t, ht_residents);
    return true;
}

static bool run_fork(struct ht_torturer *t) {
    bool done = ht_torture_in_child(t, change_all) && ht_torture_in_child(t, change_all);
    ht_slots_check(t, ht_residents);
    return done;
}

static void run_parts(struct ht_torturer *t) {
    static bool (*const parts[HT_TORTURE_PARTS])(struct ht_torturer *) = {
        [HT_TORTURE_FIRST_CALLS] = ht_torture_first_calls,
        [HT_TORTURE_SIZES] = ht_torture_sizes,
        [HT_TORTURE_ALIGNMENTS] = ht_torture_alignments,
        [HT_TORTURE_REALLOC] = ht_torture_realloc,
        [HT_TORTURE_REFUSALS] = ht_torture_refusals,
        [HT_TORTURE_REUSE] = ht_torture_reuse,
        [HT_TORTURE_DUEL] = ht_torture_duel,
        [HT_TORTURE_THREADS] = ht_torture_threads,
        [HT_TORTURE_THREAD_ENDS] = ht_torture_thread_ends,
        [HT_TORTURE_FORK] = run_fork,
        [HT_TORTURE_NO_MEMORY] = ht_torture_no_memory};
    const uint32_t of_threads = 1u << HT_TORTURE_FIRST_CALLS | 1u << HT_TORTURE_DUEL |
                                1u << HT_TORTURE_THREADS | 1u << HT_TORTURE_THREAD_ENDS;
    struct ht_torture_record *record = &t->of->findings->torture;
    for (uint32_t i = 0; i < HT_TORTURE_PARTS && !t->of->stopped; i++) {
        if (t->of->threads < 2 && of_threads >> i & 1) continue;
        record->part = t->part = i;
        for (uint32_t k = 0; i == HT_TORTURE_REUSE && k < 2 * HT_RESIDENTS; k++)
            ht_slots_put(t, ht_residents, ht_any_function(t, true), ht_any_size(t, k % 50 ? 11 : 17),
                         ht_any_alignment(t));
        ht_torture_start_clock(t);
        bool done = parts[i](t);
        ht_slots_check(t, ht_residents);
        ht_torture_add(t);
        if (done && !t->late && !t->of->stopped) record->done |= 1u << i;
    }
    ht_slots_end(t, ht_residents);
    record->part = HT_TORTURE_PARTS;
}

bool ht_torture_run(const struct ht_job *job, void *(*own)(const char *name),
                    struct ht_verify_findings *findings) {
    static struct ht_torture torture = {.blocks_count = 1 + HT_RESIDENTS + HT_WORK};
    cpu_set_t processors;
    const struct rlimit no_circle = {60, 60};  // an allocator that goes round in circles is killed (SIGXCPU)
    struct ht_torturer t = {.of = &torture, .alone = true, .random = (job->torture_seed + 1) * SEED_STEP};
    torture.findings = findings;
    torture.known = job->known;
    torture.threads = job->torture_threads;
    torture.most_bytes = job->torture_bytes;
    torture.statm_fd = ht_rss_open();
    torture.blocks = mmap(NULL, torture.blocks_count * sizeof *torture.blocks, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (torture.blocks == MAP_FAILED) return false;
    findings->torture.threads = 1;
    findings->torture.processors =
        sched_getaffinity(0, sizeof processors, &processors) ? 1 : (uint32_t)CPU_COUNT(&processors);
    ht_torture_find(&torture, own);
    setrlimit(RLIMIT_CPU, &no_circle);
    run_parts(&t);
    return true;
}
