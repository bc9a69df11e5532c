// Rings of pointers that lie in a cache or beyond it, on few pages or on many, are followed, one step after the other: the
// difference of two rings is what the misses of one of them cost.
//
// Other processes run too. Time is the thread's CPU time, so that waiting for the processor does not count; what they do to
// caches only adds time, and a run may be slowed for some milliseconds. So each round takes many short pieces of each
// probe, interleaved with the others, and of them the lower quartile: the least would be that of a moment
// with a higher clock. The figure is the median of the rounds, the interval from the second to the last but one of nine. On a
// machine that is so busy that time runs out, there are fewer rounds, and the interval is all of them.
#include "measure_costs.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "geometry.h"
#include "machine_facts.h"
#include "now.h"
#include "random_numbers.h"

enum {
    ROUNDS = 9,
    ROUNDS_MIN = 3,
    PIECES = 40,
    LINE = 1 << HT_LINE_SHIFT,
    PAGE = 1 << HT_PAGE_SHIFT,
    HUGE_PAGE = 2 << 20
};

#ifdef __x86_64__
static const double time_max_s = 7;

static double now_ns(void) { return (double)ht_now_ns(CLOCK_THREAD_CPUTIME_ID); }

static void *map_pages(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

enum ring_name { IN_L1, IN_L2, BEYOND, ALONG, ON_FEW, ON_DTLB, ON_MORE, ON_STLB, RINGS };

struct ring {
    uint32_t lines;
    bool on_pages;  // each line on a page of its own
    bool in_order;
    uint32_t steps;  // of a piece
    void *memory;
    size_t bytes;
    void **at;
};

// Huge pages for the dense ones, where the kernel has them: their cost is to be that of caches alone.
static bool make_ring(struct ring *ring, struct ht_random *random) {
    uint32_t *order = malloc(ring->lines * sizeof *order);
    ring->bytes = (size_t)ring->lines * (ring->on_pages ? PAGE : LINE) + 2 * HUGE_PAGE;
    ring->memory = map_pages(ring->bytes);
    if (!order || !ring->memory) {
        free(order);
        return false;
    }
    madvise(ring->memory, ring->bytes, ring->on_pages ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
    char *start = (char *)(((uintptr_t)ring->memory + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1));
    ht_random_order(random, order, ring->lines);
    for (uint32_t i = 0; i < ring->lines && ring->in_order; i++) order[i] = i;
    ring->at = (void **)start;
    for (uint32_t i = 0; i <= ring->lines; i++) {
        uint32_t line = order[i % ring->lines];
        size_t place =
            ring->on_pages ? (size_t)line * PAGE + line % (PAGE / LINE) * LINE : (size_t)line * LINE;
        *ring->at = start + place;
        ring->at = (void **)(start + place);
    }
    free(order);
    return true;
}

static double follow(struct ring *ring) {
    void **at = ring->at;
    double before = now_ns();
    for (uint32_t i = 0; i < ring->steps; i += 8) {
#define STEP at = *(void *volatile *)at
        STEP, STEP, STEP, STEP, STEP, STEP, STEP, STEP;
#undef STEP
    }
    double passed = now_ns() - before;
    ring->at = at;
    return passed / ring->steps;
}

static double cycle(void) {
    enum { TURNS = 20000 };
    uint64_t x = 0, one = 1;  // a register: newer processors do additions of constants while renaming
    double before = now_ns();
    for (int i = 0; i < TURNS; i++)
        __asm__ volatile("add %1,%0\nadd %1,%0\nadd %1,%0\nadd %1,%0\nadd %1,%0" : "+r"(x) : "r"(one));
    return (now_ns() - before) / (5 * TURNS);
}

// A malloc and a free of small blocks, as allocators with lists of free blocks by size do them, all of it in
// the first-level cache. Written out, so that the number of instructions is known.
enum { CLASSES = 64, CALLS = 256, CALL_INSTRUCTIONS = 24 };
struct heap {
    uint64_t size[CALLS];
    void *held[CALLS], *free[CLASSES];
    uint32_t count[CLASSES];
    struct block {
        void *next;
        uint64_t class, rest[2];
    } block[CALLS + CLASSES];
};

static void make_heap(struct heap *heap, struct ht_random *random) {
    for (uint32_t i = 0; i < CALLS + CLASSES; i++) {
        uint32_t class = i < CALLS ? ht_random_below(random, CLASSES) : i - CALLS;
        heap->block[i].class = class;
        if (i < CALLS) {
            heap->size[i] = 16 * class + 1;
            heap->held[i] = &heap->block[i];
        } else {
            heap->free[class] = &heap->block[i];
            heap->count[class] = 1;
        }
    }
}

static double instruction(struct heap *heap) {
    enum { LAPS = 20 };
    double before = now_ns();
    for (int lap = 0; lap < LAPS; lap++) {
        uint64_t i = 0;
        __asm__ volatile("1: mov (%[size],%[i],8), %%rax\n"
                         "add $15, %%rax\n"
                         "shr $4, %%rax\n"
                         "sub $1, %%rax\n"
                         "cmp $63, %%rax\n"
                         "ja 2f\n"
                         "mov (%[free],%%rax,8), %%rdx\n"
                         "test %%rdx, %%rdx\n"
                         "je 2f\n"
                         "mov (%%rdx), %%rcx\n"
                         "mov %%rcx, (%[free],%%rax,8)\n"
                         "subl $1, (%[count],%%rax,4)\n"
                         "mov (%[held],%[i],8), %%rcx\n"
                         "mov %%rdx, (%[held],%[i],8)\n"
                         "mov 8(%%rcx), %%rax\n"
                         "cmpl $7, (%[count],%%rax,4)\n"
                         "jae 2f\n"
                         "mov (%[free],%%rax,8), %%rdx\n"
                         "mov %%rdx, (%%rcx)\n"
                         "mov %%rcx, (%[free],%%rax,8)\n"
                         "addl $1, (%[count],%%rax,4)\n"
                         "add $1, %[i]\n"
                         "cmp %[calls], %[i]\n"
                         "jb 1b\n"
                         "2:\n"
                         : [i] "+r"(i)
                         : [size] "r"(heap->size), [free] "r"(heap->free), [count] "r"(heap->count),
                           [held] "r"(heap->held), [calls] "i"(CALLS)
                         : "rax", "rcx", "rdx", "cc", "memory");
        assert(i == CALLS);  // no list was empty: the instructions are those counted
    }
    return (now_ns() - before) / ((double)LAPS * CALLS * CALL_INSTRUCTIONS);
}

// Of one of so many pages, in mappings of some. With the return of the page, as a page that is taken from the kernel has mostly
// been given back before.
static double fault(size_t pages, size_t mapped) {
    double before = now_ns();
    for (size_t done = 0; done < pages; done += mapped) {
        char *memory = map_pages(mapped * PAGE);
        if (!memory) return 0;
        if (mapped > 1) madvise(memory, mapped * PAGE, MADV_NOHUGEPAGE);
        for (size_t i = 0; i < mapped; i++) ((volatile char *)memory)[i * PAGE] = 1;
        munmap(memory, mapped * PAGE);
    }
    return (now_ns() - before) / (double)pages;
}

struct bench {
    struct ring ring[RINGS];
    struct heap heap;
};
enum { CYCLE = RINGS, INSTRUCTION, FAULT, FAULT_MAPPED, PROBES };

static double piece(struct bench *bench, int probe) {
    switch (probe) {
    case CYCLE: return cycle();
    case INSTRUCTION: return instruction(&bench->heap);
    case FAULT: return fault(256, 256);
    case FAULT_MAPPED: return fault(64, 1);
    default: return follow(&bench->ring[probe]);
    }
}

static int by_value(const void *a, const void *b) {
    double first = *(const double *)a, second = *(const double *)b;
    return (first > second) - (first < second);
}

static double lower_quartile(struct bench *bench, int probe) {
    double pieces[PIECES];
    for (int i = -PIECES / 4; i < PIECES; i++) {  // the first ones fill the caches
        double ns = piece(bench, probe);
        if (i >= 0) pieces[i] = ns;
    }
    qsort(pieces, PIECES, sizeof *pieces, by_value);
    return pieces[PIECES / 4];
}

static uint32_t entries(const struct ht_geometry *geometry, enum ht_level level) {
    return geometry->size.level[level].sets * geometry->size.level[level].ways;
}

static bool make_bench(struct bench *bench) {
    enum { NEAR_STEPS = 32768, FAR_STEPS = 2048 };
    struct ht_geometry geometry;
    struct ht_random random = {1};
    ht_geometry_read(&geometry);
    uint32_t l1 = entries(&geometry, HT_L1D), l2 = entries(&geometry, HT_L2);
    uint32_t dtlb = entries(&geometry, HT_DTLB), stlb = entries(&geometry, HT_STLB);
    uint32_t on_dtlb = 4 * dtlb < l1 / 2 ? 4 * dtlb : l1 / 2, on_stlb = 4 * stlb < l2 / 2 ? 4 * stlb : l2 / 2;
    const struct ring rings[RINGS] = {[IN_L1] = {.lines = l1 / 2, .steps = NEAR_STEPS},
                                      [IN_L2] = {.lines = l2 / 4, .steps = NEAR_STEPS},
                                      [BEYOND] = {.lines = 4 * l2, .steps = FAR_STEPS},
                                      [ALONG] = {.lines = 4 * l2, .in_order = true, .steps = FAR_STEPS},
                                      [ON_FEW] = {.lines = on_dtlb, .steps = NEAR_STEPS},
                                      [ON_DTLB] = {.lines = on_dtlb, .on_pages = true, .steps = NEAR_STEPS},
                                      [ON_MORE] = {.lines = on_stlb, .steps = NEAR_STEPS},
                                      [ON_STLB] = {.lines = on_stlb, .on_pages = true, .steps = NEAR_STEPS}};
    memcpy(bench->ring, rings, sizeof rings);
    make_heap(&bench->heap, &random);
    for (int i = 0; i < RINGS; i++)
        if (!make_ring(&bench->ring[i], &random)) return false;
    return true;
}

// Of one round.
static void derive(const double of[PROBES], double cost[HT_COSTS + 1]) {
    cost[HT_COST_INSTRUCTION] = of[INSTRUCTION];
    cost[HT_COST_L1D] = cost[HT_COST_L1I] = of[IN_L2] - of[IN_L1];
    cost[HT_COST_SEQUENTIAL] = of[ALONG] - of[IN_L1];
    cost[HT_COST_FAR] = of[BEYOND] - of[IN_L1];
    cost[HT_COST_DTLB] = of[ON_DTLB] - of[ON_FEW];
    cost[HT_COST_STLB] = of[ON_STLB] - of[ON_MORE] - cost[HT_COST_DTLB];
    cost[HT_COST_FAULT] = of[FAULT];
    cost[HT_COST_MAPPING] = (of[FAULT_MAPPED] - of[FAULT]) / 2;
    cost[HT_COSTS] = of[CYCLE];
    for (int i = 0; i < HT_COSTS; i++) cost[i] = cost[i] > 0 ? cost[i] : 0;
}

bool ht_measure_costs(struct ht_calibration *calibration) {
    struct bench *bench = calloc(1, sizeof *bench);
    struct ht_machine machine;
    double costs[HT_COSTS + 1][ROUNDS], probes[PROBES], of_round[HT_COSTS + 1];
    double begun_s = ht_now_s();
    bool made = bench && make_bench(bench);
    int rounds = 0;
    while (made && rounds < ROUNDS && (rounds < ROUNDS_MIN || ht_now_s() - begun_s < time_max_s)) {
        for (int probe = 0; probe < PROBES; probe++) probes[probe] = lower_quartile(bench, probe);
        derive(probes, of_round);
        for (int i = 0; i <= HT_COSTS; i++) costs[i][rounds] = of_round[i];
        rounds++;
    }
    for (int i = 0; made && i <= HT_COSTS; i++) {
        int left_out = rounds == ROUNDS;
        qsort(costs[i], (size_t)rounds, sizeof *costs[i], by_value);
        double median = costs[i][rounds / 2];
        if (i == HT_COSTS) calibration->cycle_ns = median;
        else
            calibration->latency[i] =
                (struct ht_latency){median, costs[i][left_out], costs[i][rounds - 1 - left_out]};
    }
    for (int i = 0; bench && i < RINGS; i++)
        if (bench->ring[i].memory) munmap(bench->ring[i].memory, bench->ring[i].bytes);
    free(bench);
    ht_machine_read(&machine);
    memcpy(calibration->processor, machine.cpu, sizeof calibration->processor);
    return made;
}
#else
bool ht_measure_costs(struct ht_calibration *calibration) {
    (void)calibration;
    errno = ENOTSUP;
    return false;
}
#endif
