// SPDX-License-Identifier: Apache-2.0
// How deep into a stack calls of the malloc family and its kin reach: they are made on a stack of their own,
// which is painted before, and the number of bytes that lost their paint is printed.
// Usage: stack_depths COUNTS MODE
#include <pthread.h>
#include <time.h>
#include <ucontext.h>

#include "target_modes.h"

enum { SIZE_MAIN = 7880, STACK_BYTES = 256 << 10, PAINT = 0xa5, ROUNDS = 300, LARGE_BYTES = 400000 };

static ucontext_t back, fiber;

static void sleep_ms(long ms) { nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL); }

// The calls that are measured must not be removed for having no effect.
static void *volatile kept;

static void one_call(void) {
    kept = malloc(100);
    free(kept);
}

// Many chunks of the log begin.
static void many_calls(void) {
    for (unsigned i = 0; i < 300000; i++) {
        kept = malloc(100 + i % 3000);
        *(volatile char *)kept = 1;
        free(kept);
    }
}

// A sample is due at the next call each time.
static void rare_calls(void) {
    for (int i = 0; i < ROUNDS; i++) {
        sleep_ms(2);
        one_call();
    }
}

// Samples because memory grows, probes of how far blocks are filled, and of peaks before they go.
static void large_blocks(void) {
    static void *block[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        block[i] = malloc(LARGE_BYTES);
        memset(block[i], 1, LARGE_BYTES);
        if (i % 3 == 0) sleep_ms(1);
    }
    for (int i = 0; i < ROUNDS; i++) {
        block[i] = realloc(block[i], 2 * LARGE_BYTES);
        memset(block[i], 1, 2 * LARGE_BYTES);
        free(block[i]);
    }
}

static void kin(void) {
    for (int i = 0; i < ROUNDS; i++) {
        void *block = calloc(10, 100);
        kept = block = realloc(block, 3000);
        kept = block = reallocarray(block, 10, 500);
        free(block);
        if (posix_memalign(&block, 256, 1000)) target_fail("no memory");
        free(block);
        kept = block = aligned_alloc(64, 640);
        free(block);
        free(NULL);
        if (i % 10 == 0) sleep_ms(2);
    }
}

#ifdef WITH_CXX
// By their symbols' names: there is no C++ in the target itself.
void *operator_new(size_t size) __asm__("_Znwm");
void operator_delete(void *block) __asm__("_ZdlPv");
void *operator_new_aligned(size_t size, size_t alignment) __asm__("_ZnwmSt11align_val_t");
void operator_delete_aligned(void *block, size_t alignment) __asm__("_ZdlPvSt11align_val_t");

static void cxx(void) {
    for (int i = 0; i < ROUNDS; i++) {
        kept = operator_new(100);
        operator_delete(kept);
        kept = operator_new_aligned(100, 128);
        operator_delete_aligned(kept, 128);
        if (i % 10 == 0) sleep_ms(2);
    }
}
#endif

// Where there is no malloc, samples fall due in these.
static void mappings(void) {
    enum { BYTES = 1 << 20 };
    for (int i = 0; i < ROUNDS; i++) {
        char *at = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED || mprotect(at, BYTES, PROT_READ | PROT_WRITE)) target_fail("cannot map");
        memset(at, 1, BYTES);
        at = mremap(at, BYTES, 2 * BYTES, MREMAP_MAYMOVE);
        if (at == MAP_FAILED || munmap(at, 2 * BYTES)) target_fail("cannot move");
        if (i % 10 == 0) sleep_ms(2);
    }
}

// Somebody pauses the recording and resumes it meanwhile.
static void slow_calls(void) {
    for (int i = 0; i < 2000; i++) {
        sleep_ms(1);
        one_call();
    }
}

static void (*calls)(void);

static void on_fiber(void) {
    calls();
    swapcontext(&fiber, &back);
}

static long depth_of(void (*wanted)(void)) {
    unsigned char *stack =
        mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED) target_fail("no stack");
    memset(stack, PAINT, STACK_BYTES);
    calls = wanted;
    getcontext(&fiber);
    fiber.uc_stack.ss_sp = stack;
    fiber.uc_stack.ss_size = STACK_BYTES;
    fiber.uc_link = &back;
    makecontext(&fiber, on_fiber, 0);
    swapcontext(&back, &fiber);
    size_t untouched = 0;
    while (untouched < STACK_BYTES && stack[untouched] == PAINT) untouched++;
    munmap(stack, STACK_BYTES);
    return (long)(STACK_BYTES - untouched);
}

static int say(long depth) {
    char text[32];
    int length = snprintf(text, sizeof text, "%ld\n", depth);
    return write(1, text, (size_t)length) == length ? 75 : 99;
}

static int first_call(char *unused) {
    (void)unused;
    return say(depth_of(one_call));
}

static void *in_thread(void *unused) {
    (void)unused;
    say(depth_of(one_call));
    return NULL;
}

static int first_call_of_a_thread(char *unused) {
    pthread_t thread;
    (void)unused;
    tally_churn(SIZE_MAIN, 10);
    if (pthread_create(&thread, NULL, in_thread, NULL) || pthread_join(thread, NULL))
        target_fail("no thread");
    return 75;
}

static int first_call_of_a_child(char *unused) {
    (void)unused;
    tally_churn(SIZE_MAIN, 10);
    pid_t child = fork();
    if (child == 0) _exit(say(depth_of(one_call)));
    return child_status(child);
}

// The recording begins by itself, after the delay that the environment asks for.
static int call_after_a_delay(char *unused) {
    (void)unused;
    tally_churn(SIZE_MAIN, 10);
    sleep_ms(600);
    return say(depth_of(one_call));
}

static int later(void (*wanted)(void)) {
    tally_churn(SIZE_MAIN, 10);
    return say(depth_of(wanted));
}

static int of_many_calls(char *unused) { return (void)unused, later(many_calls); }
static int of_samples(char *unused) { return (void)unused, later(rare_calls); }
static int of_large_blocks(char *unused) { return (void)unused, later(large_blocks); }
static int of_kin(char *unused) { return (void)unused, later(kin); }
#ifdef WITH_CXX
static int of_cxx(char *unused) { return (void)unused, later(cxx); }
#endif
static int of_mappings(char *unused) { return (void)unused, later(mappings); }
static int while_controlled(char *unused) { return (void)unused, later(slow_calls); }

int main(int argc, char **argv) {
    static const struct target_mode modes[] = {{"first", first_call},
                                               {"thread", first_call_of_a_thread},
                                               {"child", first_call_of_a_child},
                                               {"delayed", call_after_a_delay},
                                               {"chunks", of_many_calls},
                                               {"samples", of_samples},
                                               {"large", of_large_blocks},
                                               {"kin", of_kin},
#ifdef WITH_CXX
                                               {"cxx", of_cxx},
#endif
                                               {"mappings", of_mappings},
                                               {"controlled", while_controlled},
                                               {NULL, NULL}};
    return run_target_mode(modes, argc, argv);
}
