// SPDX-License-Identifier: Apache-2.0
// A program with an allocator of its own, which hands its calls to the recorder (heaptape_recorder.h). That allocator is
// built on malloc and mmap, so that every call of it makes calls of hooked functions, which must not be recorded.
//
// linked_in lines OUT [CALLS]: random calls, printed as `heaptape dump --no-time` shows them.
// linked_in tables: which versions of the interface there are.
// linked_in signal|steps|jump COUNTS: calls of tallied sizes, in the situations that main() names.
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/time.h>

#include "heaptape_recorder.h"
#include "own_functions_target.h"
#include "single_steps.h"

enum { HEADER_BYTES = 2048 };
static const struct heaptape_recorder *recorder;

// ---- the allocator: the block lies behind room for its alignment, and just before it is where that begins ----

static void *pool_take(size_t size, size_t alignment) {
    if (size > SIZE_MAX - HEADER_BYTES) return NULL;
    char *start = malloc(size + HEADER_BYTES);
    // A mapping of its own now and then, as any allocator makes.
    void *mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped != MAP_FAILED) munmap(mapped, 4096);
    if (!start) return NULL;
    uintptr_t block = ((uintptr_t)start + 16 + alignment - 1) / alignment * alignment;
    memcpy((char *)block - sizeof start, &start, sizeof start);
    return (void *)block;
}

static void pool_give(void *block) {
    char *start;
    if (!block) return;
    memcpy(&start, (char *)block - sizeof start, sizeof start);
    free(start);
}

static void *pool_resize(void *block, size_t former, size_t size) {
    if (size == 0) {
        pool_give(block);
        return NULL;
    }
    void *moved = pool_take(size, 16);
    if (moved && block) memcpy(moved, block, former < size ? former : size);
    if (moved) pool_give(block);
    else errno = ENOMEM;
    return moved;
}

// ---- its functions, as a program would have them ----

__attribute__((noinline)) static void *own_allocate(unsigned function, size_t count, size_t size,
                                                    size_t alignment) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) bytes = SIZE_MAX;
    if (!recorder) return pool_take(bytes, alignment ? alignment : 16);
    struct heaptape_call call;
    recorder->begin_allocation(&call);
    void *block = pool_take(bytes, alignment ? alignment : 16);
    recorder->end_allocation(&call, function, block, count, size, alignment);
    return block;
}

__attribute__((noinline)) static void *own_resize(void *former, size_t former_bytes, size_t size) {
    if (!recorder) return pool_resize(former, former_bytes, size);
    struct heaptape_call call;
    recorder->begin_resize(&call, former, size);
    void *block = pool_resize(former, former_bytes, size);
    recorder->end_resize(&call, block);
    return block;
}

__attribute__((noinline)) static void own_free(unsigned function, void *block, size_t size,
                                               size_t alignment) {
    struct heaptape_call call;
    if (recorder) recorder->begin_free(&call, function, block, size, alignment);
    pool_give(block);
    if (recorder) recorder->end_free(&call);
}

// ---- lines ----

// Names and whether they take an alignment, as the dump prints them.
static const struct {
    unsigned function;
    const char *name;
    bool aligned;
} allocates[] = {{HEAPTAPE_MALLOC, "malloc", false},
                 {HEAPTAPE_CALLOC, "calloc", false},
                 {HEAPTAPE_POSIX_MEMALIGN, "posix_memalign", true},
                 {HEAPTAPE_ALIGNED_ALLOC, "aligned_alloc", true},
                 {HEAPTAPE_MEMALIGN, "memalign", true},
                 {HEAPTAPE_NEW, "new", false},
                 {HEAPTAPE_NEW_ARRAY, "new[]", false},
                 {99, "malloc", false}};  // unknown

static void allocate(struct object *object) {
    size_t which = below(sizeof allocates / sizeof *allocates), size = random_size();
    size_t alignment = allocates[which].aligned ? random_alignment() : 0;
    bool counted = allocates[which].function == HEAPTAPE_CALLOC;
    size_t count = counted ? 1 + below(3) : 1;
    if (counted) writer_print(&out, "calloc(%zu, %zu)", count, size);
    else if (alignment) writer_print(&out, "%s(%zu, %zu)", allocates[which].name, alignment, size);
    else writer_print(&out, "%s(%zu)", allocates[which].name, size);
    void *block = own_allocate(allocates[which].function, count, size, alignment);
    born(object, block, count * size, alignment);
}

static void change(struct object *object) {
    size_t size = random_size();
    check(object, object->size);
    writer_print(&out, "realloc(#%lu, %zu)", object->birth, size);
    object->alignment = 0;
    resized(object, own_resize(object->block, object->size, size), size);
}

static void release(struct object *object) {
    check(object, object->size);
    switch (below(4)) {
    case 0:
        writer_print(&out, "free_sized(#%lu, %zu)\n", object->birth, object->size);
        own_free(HEAPTAPE_FREE_SIZED, object->block, object->size, 0);
        break;
    case 1:
        writer_print(&out, "delete(#%lu)\n", object->birth);
        own_free(HEAPTAPE_DELETE, object->block, object->size, 0);
        break;
    case 2:
        writer_print(&out, "free(#%lu)\n", object->birth);
        own_free(99, object->block, object->size, 64);  // unknown
        break;
    default:
        writer_print(&out, "free(#%lu)\n", object->birth);
        own_free(HEAPTAPE_FREE, object->block, object->size, 0);
    }
    object->block = NULL;
}

static void rare_calls(void) {
    if (own_allocate(HEAPTAPE_MALLOC, 1, SIZE_MAX, 0)) target_fail("a call that cannot succeed did");
    writer_print(&out, "malloc(%zu) = NULL (failed)\n", SIZE_MAX);
    own_free(HEAPTAPE_FREE, NULL, 0, 0);
    writer_print(&out, "free(NULL)\n");
    struct object object;
    void *block = own_resize(NULL, 0, 77);
    writer_print(&out, "realloc(NULL, 77)");
    born(&object, block, 77, 0);
    errno = 35;
    if (own_resize(object.block, 77, SIZE_MAX) || errno != ENOMEM)
        target_fail("a realloc that cannot succeed did");
    writer_print(&out, "realloc(?, %zu) = NULL (failed)\n", SIZE_MAX);
    errno = 35;
    if (own_resize(object.block, 77, 0) || errno != 35) target_fail("errno changed");
    writer_print(&out, "realloc(#%lu, 0) = NULL (released)\n", object.birth);
}

static void lines(const char *path, unsigned long calls) {
    print_calls(path, calls, &(struct turns){allocate, change, release}, rare_calls);
}

// ---- situations ----

static void *tally_own(size_t size) {
    void *block = own_allocate(HEAPTAPE_MALLOC, 1, size, 0);
    if (!block) target_fail("no block");
    tally_count(size);
    return block;
}

// A handler's own room, since it may have interrupted malloc.
static char handler_room[64 << 20];
static size_t handler_used;
static volatile int strikes;

static void strike(int number) {
    (void)number;
    struct heaptape_call call;
    for (int i = 0; i < 3; i++) {
        if (recorder) recorder->begin_allocation(&call);
        void *block = handler_room + __atomic_fetch_add(&handler_used, 8192, __ATOMIC_RELAXED);
        if (recorder) recorder->end_allocation(&call, HEAPTAPE_MALLOC, block, 1, 7701, 0);
        tally_count(7701);
    }
    strikes++;
}

// A handler's calls that interrupt a call are recorded, and none twice.
static void under_signals(void) {
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    signal(SIGALRM, strike);
    setitimer(ITIMER_REAL, &often, NULL);
    while (strikes < 500) {
        void *block = own_resize(tally_own(7702), 7702, 7600);
        own_free(HEAPTAPE_FREE, block, 0, 0);
        free(tally_malloc(7703));
    }
    setitimer(ITIMER_REAL, &never, NULL);
}

static volatile unsigned steps_left;
static volatile int struck;

static void strike_in_steps(int number, siginfo_t *information, void *context) {
    (void)information;
    if (steps_left && steps_left--) return;
    stop_steps_of(context);
    struck = 1;
    strike(number);
}

__attribute__((noinline)) static void *plain_allocate(size_t size) {
    struct heaptape_call call;
    if (recorder) recorder->begin_allocation(&call);
    void *block = malloc(size);
    if (recorder) recorder->end_allocation(&call, HEAPTAPE_MALLOC, block, 1, size, 0);
    return block;
}

__attribute__((noinline)) static void *plain_resize(void *former, size_t size) {
    struct heaptape_call call;
    if (recorder) recorder->begin_resize(&call, former, size);
    void *block = realloc(former, size);
    if (recorder) recorder->end_resize(&call, block);
    return block;
}

__attribute__((noinline)) static void plain_free(void *block) {
    struct heaptape_call call;
    if (recorder) recorder->begin_free(&call, HEAPTAPE_FREE, block, 0, 0);
    free(block);
    if (recorder) recorder->end_free(&call);
}

// A handler that hands calls over behind every instruction of a call, where the program has a stack for handlers.
static void in_every_step(void) {
    static char other_stack[64 << 10];
    stack_t other = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
    struct sigaction action = {.sa_sigaction = strike_in_steps, .sa_flags = SA_SIGINFO};
    sigaltstack(&other, NULL);
    sigaction(SIGTRAP, &action, NULL);
    void *block = NULL;
    for (unsigned part = 0; part < 3; part++) {
        struck = 1;
        for (unsigned steps = 0; struck; steps++) {
            if (part) block = plain_allocate(7709);
            if (part) tally_count(7709);
            struck = 0;
            steps_left = steps + 1;
            begin_steps();
            if (part == 0) block = plain_allocate(7707);
            else if (part == 1) block = plain_resize(block, 6000);
            else plain_free(block);
            end_steps();
            if (part == 0) tally_count(7707);
            if (part < 2) plain_free(block);
        }
    }
}

static jmp_buf before;

__attribute__((noinline)) static void give_up_inside(void) {
    struct heaptape_call call;
    if (recorder) recorder->begin_allocation(&call);
    longjmp(before, 1);
}

// An allocator that leaves its call by a jump: what follows is recorded again, whoever is called first.
static void jump_out(void) {
    for (volatile int i = 0; i < 100; i++) {
        if (!setjmp(before)) give_up_inside();
        if (i % 2) free(tally_malloc(7704));
        own_free(HEAPTAPE_FREE, tally_own(7705), 0, 0);
        free(tally_malloc(7704));
    }
}

int main(int argc, char **argv) {
    recorder = heaptape_recorder_find();
    if (argc == 2 && !strcmp(argv[1], "tables")) {
        const struct heaptape_recorder *(*find)(uint32_t);
        *(void **)&find = dlsym(NULL, "heaptape_recorder");
        for (uint32_t version = 0; find && version < 4; version++)
            printf("%u %s\n", version, find(version) ? "there" : "missing");
        if (recorder) printf("%u, %zu bytes\n", recorder->version, (size_t)recorder->bytes);
        return 0;
    }
    if (argc < 3) target_fail("usage: linked_in MODE FILE [CALLS]");
    if (recorder) recorder->name_allocator("my pool:1");
    if (!strcmp(argv[1], "lines")) {
        lines(argv[2], argc > 3 ? strtoul(argv[3], NULL, 10) : 100000);
        return 0;
    }
    tally_open(argv[2]);
    if (!strcmp(argv[1], "signal")) under_signals();
    else if (!strcmp(argv[1], "steps")) in_every_step();
    else if (!strcmp(argv[1], "jump")) jump_out();
    else target_fail("unknown mode");
    return 51;
}
