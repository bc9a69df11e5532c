// SPDX-License-Identifier: Apache-2.0
// heaptape calibrate: measures what instructions, misses, page faults and mapping calls cost on this machine, in some seconds, and keeps
// it for the model.
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "cost_model.h"
#include "json_values.h"
#include "machine_facts.h"
#include "now.h"
#include "output_file.h"
#include "print.h"
#include "random_numbers.h"
#include "simulation.h"
#include "talk.h"
#include "text_table.h"
#include "verbs.h"

// A malloc and a free of small blocks, as allocators with lists of free blocks by size do them, all of it in the first-level
// cache. Written out, so that the number of instructions is known. Beside it misses of a ring of lines cost what they cost
// among an allocator's calls: most of the wait is for work that the processor does anyway.
enum { KERNEL_CLASSES = 64, KERNEL_CALLS = 256, KERNEL_INSTRUCTIONS = 24 };

#ifdef __x86_64__
struct call_kernel {
    uint64_t size[KERNEL_CALLS];
    void *held[KERNEL_CALLS], *free[KERNEL_CLASSES];
    uint32_t count[KERNEL_CLASSES];
    struct kernel_block {
        void *next;
        uint64_t class, rest[2];
    } block[KERNEL_CALLS + KERNEL_CLASSES];
};

static void call_kernel_make(struct call_kernel *kernel, struct ht_random *random) {
    for (uint32_t i = 0; i < KERNEL_CALLS + KERNEL_CLASSES; i++) {
        uint32_t class = i < KERNEL_CALLS ? ht_random_below(random, KERNEL_CLASSES) : i - KERNEL_CALLS;
        kernel->block[i].class = class;
        if (i < KERNEL_CALLS) {
            kernel->size[i] = 16 * class + 1;
            kernel->held[i] = &kernel->block[i];
        } else {
            kernel->free[class] = &kernel->block[i];
            kernel->count[class] = 1;
        }
    }
}

// The calls from one to before the other, of KERNEL_CALLS: each a free of a block and a malloc of its size.
__attribute__((noinline)) static void call_kernel_run(struct call_kernel *kernel, uint64_t from,
                                                      uint64_t to) {
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
                     "cmp %[to], %[i]\n"
                     "jb 1b\n"
                     "2:\n"
                     : [i] "+r"(from)
                     : [size] "r"(kernel->size), [free] "r"(kernel->free), [count] "r"(kernel->count),
                       [held] "r"(kernel->held), [to] "r"(to)
                     : "rax", "rcx", "rdx", "cc", "memory");
    assert(from == to);  // no list was empty: the instructions are those counted
}

// Rings of pointers that lie in a cache or beyond it, on few pages or on many. Followed, one step after the other, the
// difference of two rings is the latency of what one of them misses. Read in the same order among calls of an allocator's kind,
// it is the cost: a processor executes what follows meanwhile, and how much of the wait is left is its own.
//
// Other processes run too. Time is the thread's CPU time, so that waiting for the processor does not count. What they do to
// caches and to the core's shared units only adds time, to a program's calls as to the probes, so that the costs are to have
// it; but a run may be slowed for some milliseconds. So each round takes many short pieces of each probe, interleaved with the
// others, and of them the median. The figure is the median of the rounds, the interval from the second to the last but one of nine. On a
// machine that is so busy that time runs out, there are fewer rounds, and the interval is all of them.

enum {
    ROUNDS = 9,
    ROUNDS_MIN = 3,
    PIECES_MAX = 40,
    FAR_PIECES = 16,
    LINE = 1 << HT_LINE_SHIFT,
    PAGE = 1 << HT_PAGE_SHIFT,
    HUGE_PAGE = 2 << 20,
    MIB_LINES = (1 << 20) / LINE,
    CALLS_PER_READ = 5,  // 120 instructions: what a call of malloc takes in the median of traces
};

static const double time_max_s = 7;

static double now_ns(void) { return (double)ht_now_ns(CLOCK_THREAD_CPUTIME_ID); }

static void *map_pages(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

// Lines that are twice the second level, and the middle of what lies between two sizes of enum ht_far.
enum ring_name {
    IN_L1,
    IN_L2,
    IN_4_MIB,
    IN_8_MIB,
    IN_16_MIB,
    IN_32_MIB,
    BEYOND,
    ALONG,
    ON_FEW,
    ON_DTLB,
    ON_MORE,
    ON_STLB,
    RINGS
};

struct ring {
    uint32_t lines;
    bool on_pages;  // each line on a page of its own
    bool in_order;
    bool is_far;  // lines are to be as long ago as there are lines, not as in the last piece
    void *memory;
    size_t bytes;
    char *start;
    uint32_t *order;  // where the lines lie, in lines from start
    uint32_t next;    // in order, of reads
    void **at;        // the line that is followed next
};

// Huge pages for the dense ones, where the kernel has them: their cost is to be that of caches alone.
static bool make_ring(struct ring *ring, struct ht_random *random) {
    ring->order = malloc(ring->lines * sizeof *ring->order);
    ring->bytes = (size_t)ring->lines * (ring->on_pages ? PAGE : LINE) + 2 * HUGE_PAGE;
    ring->memory = map_pages(ring->bytes);
    if (!ring->order || !ring->memory) return false;
    madvise(ring->memory, ring->bytes, ring->on_pages ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
    ring->start = (char *)(((uintptr_t)ring->memory + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1));
    ht_random_order(random, ring->order, ring->lines);
    for (uint32_t i = 0; i < ring->lines; i++) {
        uint32_t line = ring->in_order ? i : ring->order[i];
        ring->order[i] = ring->on_pages ? line * (PAGE / LINE) + line % (PAGE / LINE) : line;
    }
    for (uint32_t i = 0; i < ring->lines; i++) {
        char *here = ring->start + (size_t)ring->order[i] * LINE;
        *(void **)here = ring->start + (size_t)ring->order[(i + 1) % ring->lines] * LINE;
    }
    ring->at = (void **)(ring->start + (size_t)ring->order[0] * LINE);
    return true;
}

static void free_ring(struct ring *ring) {
    if (ring->memory) munmap(ring->memory, ring->bytes);
    free(ring->order);
}

static double follow(struct ring *ring, uint32_t steps) {
    void **at = ring->at;
    double before = now_ns();
    for (uint32_t i = 0; i < steps; i += 8) {
#define STEP at = *(void *volatile *)at
        STEP, STEP, STEP, STEP, STEP, STEP, STEP, STEP;
#undef STEP
    }
    double passed = now_ns() - before;
    ring->at = at;
    return passed / steps;
}

// Reads whose addresses are known early, as those of the blocks that a program frees are, among calls.
static double read_among_calls(struct ring *ring, struct call_kernel *kernel, uint32_t steps) {
    uint32_t next = ring->next;
    uint64_t call = 0;
    double before = now_ns();
    for (uint32_t i = 0; i < steps; i++) {
        call_kernel_run(kernel, call, call + CALLS_PER_READ);
        call = call + 2 * CALLS_PER_READ > KERNEL_CALLS ? 0 : call + CALLS_PER_READ;
        (void)*(void *volatile *)(ring->start + (size_t)ring->order[next] * LINE);
        next = next + 1 == ring->lines ? 0 : next + 1;
    }
    double passed = now_ns() - before;
    ring->next = next;
    return passed / steps;
}

// In order, which is fast, all lines of a ring: they are in the cache that has room for them.
static void warm(const struct ring *ring) {
    for (uint32_t i = 0; i < ring->lines; i++) (void)*(void *volatile *)(ring->start + (size_t)i * LINE);
}

static double cycle(void) {
    enum { TURNS = 20000 };
    uint64_t x = 0, one = 1;  // a register: newer processors do additions of constants while renaming
    double before = now_ns();
    for (int i = 0; i < TURNS; i++)
        __asm__ volatile("add %1,%0\nadd %1,%0\nadd %1,%0\nadd %1,%0\nadd %1,%0" : "+r"(x) : "r"(one));
    return (now_ns() - before) / (5 * TURNS);
}

static double instruction(struct call_kernel *kernel) {
    enum { LAPS = 20 };
    double before = now_ns();
    for (int lap = 0; lap < LAPS; lap++) call_kernel_run(kernel, 0, KERNEL_CALLS);
    return (now_ns() - before) / ((double)LAPS * KERNEL_CALLS * KERNEL_INSTRUCTIONS);
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

// The same among calls: some ten microseconds lie between two faults of a program, and the kernel's own lines and branches
// are then no longer at hand.
static double fault_among_calls(struct call_kernel *kernel) {
    enum { PAGES = 64, LAPS = 16 };
    double begun = now_ns();
    for (int lap = 0; lap < PAGES * LAPS; lap++) call_kernel_run(kernel, 0, KERNEL_CALLS);
    double before = now_ns();
    char *memory = map_pages(PAGES * PAGE);
    if (!memory) return 0;
    madvise(memory, PAGES * PAGE, MADV_NOHUGEPAGE);
    for (int i = 0; i < PAGES; i++) {
        for (int lap = 0; lap < LAPS; lap++) call_kernel_run(kernel, 0, KERNEL_CALLS);
        ((volatile char *)memory)[i * PAGE] = 1;
    }
    munmap(memory, PAGES * PAGE);
    return (now_ns() - before - (before - begun)) / PAGES;
}

struct bench {
    struct ring ring[RINGS];
    struct call_kernel kernel;
};
// Behind the probes that follow a ring lie those that read it among calls.
enum { READ = RINGS, CYCLE = 2 * RINGS, INSTRUCTION, FAULT, FAULT_MAPPED, FAULT_AMONG, PROBES };

static double piece(struct bench *bench, int probe) {
    enum { NEAR_STEPS = 32768, NEAR_READS = 4096, FAR_STEPS = 2048 };
    struct ring *ring = &bench->ring[probe % RINGS];
    switch (probe) {
    case CYCLE: return cycle();
    case INSTRUCTION: return instruction(&bench->kernel);
    case FAULT: return fault(256, 256);
    case FAULT_MAPPED: return fault(64, 1);
    case FAULT_AMONG: return fault_among_calls(&bench->kernel);
    default: break;
    }
    return probe < READ ? follow(ring, ring->is_far ? FAR_STEPS : NEAR_STEPS)
                        : read_among_calls(ring, &bench->kernel, ring->is_far ? FAR_STEPS : NEAR_READS);
}

static int by_value(const void *a, const void *b) {
    double first = *(const double *)a, second = *(const double *)b;
    return (first > second) - (first < second);
}

static double median_piece(struct bench *bench, int probe) {
    double pieces[PIECES_MAX];
    const bool is_far = probe < CYCLE && bench->ring[probe % RINGS].is_far;
    const int count = is_far ? FAR_PIECES : PIECES_MAX;
    if (is_far) warm(&bench->ring[probe % RINGS]);
    for (int i = is_far ? 0 : -count / 4; i < count; i++) {  // the first ones fill the caches
        double ns = piece(bench, probe);
        if (i >= 0) pieces[i] = ns;
    }
    qsort(pieces, (size_t)count, sizeof *pieces, by_value);
    return pieces[count / 2];
}

static uint32_t entries(const struct ht_geometry *geometry, enum ht_level level) {
    return geometry->size.level[level].sets * geometry->size.level[level].ways;
}

static bool make_bench(struct bench *bench) {
    struct ht_geometry geometry;
    struct ht_random random = {1};
    ht_geometry_read(&geometry);
    uint32_t l1 = entries(&geometry, HT_L1D), l2 = entries(&geometry, HT_L2);
    uint32_t dtlb = entries(&geometry, HT_DTLB), stlb = entries(&geometry, HT_STLB);
    uint32_t on_dtlb = 4 * dtlb < l1 / 2 ? 4 * dtlb : l1 / 2, on_stlb = 4 * stlb < l2 / 2 ? 4 * stlb : l2 / 2;
    const struct ring rings[RINGS] = {[IN_L1] = {.lines = l1 / 2},
                                      [IN_L2] = {.lines = l2 / 4},
                                      [IN_4_MIB] = {.lines = 2 * l2, .is_far = true},
                                      [IN_8_MIB] = {.lines = 6 * MIB_LINES, .is_far = true},
                                      [IN_16_MIB] = {.lines = 12 * MIB_LINES, .is_far = true},
                                      [IN_32_MIB] = {.lines = 24 * MIB_LINES, .is_far = true},
                                      [BEYOND] = {.lines = 48 * MIB_LINES, .is_far = true},
                                      [ALONG] = {.lines = 4 * l2, .in_order = true, .is_far = true},
                                      [ON_FEW] = {.lines = on_dtlb},
                                      [ON_DTLB] = {.lines = on_dtlb, .on_pages = true},
                                      [ON_MORE] = {.lines = on_stlb},
                                      [ON_STLB] = {.lines = on_stlb, .on_pages = true}};
    memcpy(bench->ring, rings, sizeof rings);
    call_kernel_make(&bench->kernel, &random);
    for (int i = 0; i < RINGS; i++)
        if (!make_ring(&bench->ring[i], &random)) return false;
    return true;
}

// Of the events that rings show, what one takes alone, or among calls.
static void derive_misses(const double of[RINGS], double ns[HT_COSTS]) {
    static const enum ring_name far[] = {IN_4_MIB, IN_8_MIB, IN_16_MIB, IN_32_MIB, BEYOND};
    ns[HT_COST_L1D] = ns[HT_COST_L1I] = of[IN_L2] - of[IN_L1];
    ns[HT_COST_SEQUENTIAL] = of[ALONG] - of[IN_L1];
    for (int i = 0; i <= HT_FARS; i++) ns[HT_COST_FAR + i] = of[far[i]] - of[IN_L1];
    ns[HT_COST_DTLB] = of[ON_DTLB] - of[ON_FEW];
    ns[HT_COST_STLB] = of[ON_STLB] - of[ON_MORE] - fmax(ns[HT_COST_DTLB], 0);
}

// Of one round.
static void derive(const double of[PROBES], double latency[HT_COSTS], double cost[HT_COSTS]) {
    derive_misses(of, latency);
    derive_misses(of + READ, cost);
    // More than alone is a neighbour's doing, between the two probes.
    for (int i = 0; i < HT_COSTS; i++) cost[i] = fmin(cost[i], latency[i]);
    latency[HT_COST_INSTRUCTION] = cost[HT_COST_INSTRUCTION] = of[INSTRUCTION];
    latency[HT_COST_FAULT] = of[FAULT];
    cost[HT_COST_FAULT] = of[FAULT_AMONG];
    latency[HT_COST_MAPPING] = cost[HT_COST_MAPPING] = (of[FAULT_MAPPED] - of[FAULT]) / 2;
    cost[HT_COST_L1I] = HT_CODE_MISS_SHARE * latency[HT_COST_L1I];
    for (int i = 0; i < HT_COSTS; i++) {
        latency[i] = fmax(latency[i], 0);
        cost[i] = fmax(cost[i], 0);
    }
}

static struct ht_median median_of(double *rounds, int count) {
    const int left_out = count == ROUNDS;
    qsort(rounds, (size_t)count, sizeof *rounds, by_value);
    return (struct ht_median){rounds[count / 2], rounds[left_out], rounds[count - 1 - left_out]};
}

struct rounds {
    int count;
    double latency[HT_COSTS][ROUNDS], cost[HT_COSTS][ROUNDS], cycle[ROUNDS];
};

static void measure_round(struct bench *bench, struct rounds *rounds) {
    double probes[PROBES], latency[HT_COSTS] = {0}, cost[HT_COSTS] = {0};
    for (int probe = 0; probe < PROBES; probe++) probes[probe] = median_piece(bench, probe);
    derive(probes, latency, cost);
    for (int i = 0; i < HT_COSTS; i++) {
        rounds->latency[i][rounds->count] = latency[i];
        rounds->cost[i][rounds->count] = cost[i];
    }
    rounds->cycle[rounds->count++] = probes[CYCLE];
}

// False with errno: no memory for it. ENOTSUP: this machine is none that the simulation knows.
static bool measure_costs(struct ht_calibration *calibration) {
    struct bench *bench = calloc(1, sizeof *bench);
    struct ht_machine machine;
    struct rounds rounds = {0};
    double begun_s = ht_now_s();
    bool made = bench && make_bench(bench);
    while (made && rounds.count < ROUNDS && (rounds.count < ROUNDS_MIN || ht_now_s() - begun_s < time_max_s))
        measure_round(bench, &rounds);
    for (int i = 0; made && i < HT_COSTS; i++) {
        calibration->latency[i] = median_of(rounds.latency[i], rounds.count);
        calibration->cost[i] = median_of(rounds.cost[i], rounds.count);
    }
    if (made) calibration->cycle_ns = median_of(rounds.cycle, rounds.count).ns;
    for (int i = 0; bench && i < RINGS; i++) free_ring(&bench->ring[i]);
    free(bench);
    ht_machine_read(&machine);
    memcpy(calibration->processor, machine.cpu, sizeof calibration->processor);
    return made;
}
#else
static bool measure_costs(struct ht_calibration *calibration) {
    (void)calibration;
    errno = ENOTSUP;
    return false;
}
#endif

struct options {
    const char *output;
    bool json;
};

static const struct argp_option option_table[] = {
    {"output", 'o', "FILE", 0, "Store the result in FILE instead, which no other command reads; -: print it",
     0},
    {"json", 'j', NULL, 0, "Print one JSON object instead of the table", 0},
    {0}};

static error_t parse_option(int key, char *value, struct argp_state *state) {
    struct options *options = state->input;
    switch (key) {
    case 'o': options->output = value; return 0;
    case 'j': options->json = true; return 0;
    case ARGP_KEY_ARG: argp_error(state, "%s: expected no argument", value); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp parser = {
    .options = option_table,
    .parser = parse_option,
    .args_doc = "",
    .doc =
        "Measure for a few seconds what an instruction, a miss of each cache and TLB, a page fault and a call that "
        "maps memory cost on this machine, and store it: heaptape count and replay --pass count compute times from their "
        "counts by it."
        "\vA latency is the time of one such event that nothing overlaps; the cost is what it takes among calls of malloc, while "
        "the processor does other work; the share is their ratio."};

const struct ht_page ht_page_calibrate = {
    .name = "calibrate",
    .argp = &parser,
    .examples = (const struct ht_fact[]){{"heaptape calibrate", "Measure this machine once"},
                                         {"heaptape calibrate --json", "The same, as JSON"},
                                         {0}},
    .files = (const struct ht_fact[]){{"$XDG_CACHE_HOME/heaptape/calibration.json",
                                       "The result; without XDG_CACHE_HOME in ~/.cache"},
                                      {0}},
    .statuses = (const struct ht_fact[]){HT_USUAL_STATUSES, {0}},
    .see_also = "count replay"};

static void print_table(const struct ht_calibration *calibration) {
    static struct ht_text_table table = {.alignments = "lrrrr"};
    char text[4][48];
    ht_print(stdout, "%s, %.2f GHz\n\n", calibration->processor, 1 / calibration->cycle_ns);
    ht_table_add(&table, (const char *const[]){"", "latency [ns]", "share", "cost [ns]", "96 % interval"});
    for (int i = 0; i < HT_COSTS; i++) {
        const struct ht_cost_kind *kind = &ht_cost_kinds[i];
        const struct ht_median *cost = &calibration->cost[i];
        snprintf(text[0], sizeof text[0], "%.3g", calibration->latency[i].ns);
        snprintf(text[1], sizeof text[1], "%.2g", ht_cost_share(calibration, i));
        snprintf(text[2], sizeof text[2], "%.3g", cost->ns);
        snprintf(text[3], sizeof text[3], "%.3g to %.3g", cost->low_ns, cost->high_ns);
        ht_table_add(&table, (const char *const[]){kind->name, text[0], text[1], text[2], text[3]});
    }
    ht_table_print(stdout, &table);
}

// The folders of a path that are not there yet.
static void make_folders(char *path) {
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0777);  // what goes wrong shows when the file is made
        *slash = '/';
    }
}

static int complain(const char *what, const char *problem) {
    ht_print(stderr, "heaptape calibrate: %s: %s: %s\n", what, problem, strerror(errno));
    return HT_EXIT_FAILED;
}

static int calibrate(char *path, const struct options *options) {
    struct ht_calibration calibration;
    struct output_file file;
    if (!options->output) make_folders(path);
    if (output_file_open(&file, path)) return complain(path, "cannot create");
    if (!measure_costs(&calibration)) {
        output_file_abandon(&file);
        return complain("this machine", "nothing could be measured");
    }
    json_t *json = ht_calibration_json(&calibration);
    const char *problem = json_dumpfd(json, file.fd, JSON_INDENT(1) | HT_JSON_REALS)
                              ? "cannot write"
                              : output_file_finish(&file);
    if (problem) {
        complain(path, problem);
        output_file_abandon(&file);
    }
    if (options->json) json_dumpf(json, stdout, JSON_INDENT(1) | HT_JSON_REALS), putchar('\n');
    else if (strcmp(path, "-")) print_table(&calibration);
    json_decref(json);
    return ht_stdout_status("heaptape calibrate", problem ? HT_EXIT_FAILED : HT_EXIT_DONE);
}

int ht_verb_calibrate(int argc, char **argv) {
    struct options options = {0};
    ht_page_parse(&ht_page_calibrate, argc, argv, 0, &options);
    char *path = options.output ? strdup(options.output) : ht_calibration_path();
    if (!path) {
        ht_print(stderr, "heaptape calibrate: neither XDG_CACHE_HOME nor HOME is set: expected -o FILE\n");
        return HT_EXIT_USAGE;
    }
    int status = calibrate(path, &options);
    free(path);
    return status;
}
