// SPDX-License-Identifier: Apache-2.0
// Allocations from stacks that are hard to distinguish or to unwind, by the kind asked for:
//     site_kinds recursion|alloca|left_over|threads|signal|coroutine|guarded|no_memory|plugins|plugin_threads LIBRARY...
// `plugins` (`plugin_threads`: in threads, for longer) opens and closes the libraries in turn, each of which has a function `work`, so that one comes to lie where
// another was.
#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum { DEPTH = 3000, THREADS = 4, ROUNDS = 50, PLUGIN_CALLS = 20, STACK_BYTES = 64 << 10 };
// Of `guarded`: how far below what libc knows of a thread frames lie. The second is in the guard of a stack of STACK_BYTES.
enum {
    GUARD_BYTES = 64 << 10,
    LEAF_AT = STACK_BYTES + GUARD_BYTES + (32 << 10),
    FAR_AT = STACK_BYTES + GUARD_BYTES / 2
};
enum { PATH_BITS = 11, PATHS_AT_EDGES = 100, BETWEEN_BYTES = 128 };
enum { CALLS_BEFORE = 34000, CALLS_BETWEEN = 300, TRIES = 8 };

static __thread void *volatile kept[2];  // so that no pair is dropped

// Two functions with the same frames, which call each other in an order that only the return addresses show.
static __attribute__((noinline)) void even(unsigned depth, unsigned path);
static __attribute__((noinline)) void odd(unsigned depth, unsigned path) {
    kept[1] = malloc(depth % 64 + 1);
    free(kept[1]);
    if (depth) (path & 1 ? odd : even)(depth - 1, path >> 1 | path << 31);
    __asm__ volatile("");
}
static void even(unsigned depth, unsigned path) {
    kept[0] = malloc(depth % 64 + 1);
    free(kept[0]);
    if (depth) (path & 1 ? odd : even)(depth - 1, path >> 1 | path << 31);
    __asm__ volatile("");
}

static __attribute__((noinline)) void vary(unsigned depth) {
    char *volatile block = alloca(16 + depth * 37 % 512);
    block[0] = 1;
    kept[0] = malloc(depth + (unsigned char)block[0]);
    free(kept[0]);
    if (depth) vary(depth - 1);
    __asm__ volatile("");
}

// Only at the end of each path, so that each allocation has a stack of its own.
static __attribute__((noinline)) void left(unsigned depth, unsigned path);
static __attribute__((noinline)) void right(unsigned depth, unsigned path) {
    if (depth) (path & 1 ? right : left)(depth - 1, path >> 1);
    else free(kept[1] = malloc(1));
    __asm__ volatile("");
}
static void left(unsigned depth, unsigned path) {
    if (depth) (path & 1 ? right : left)(depth - 1, path >> 1);
    else free(kept[0] = malloc(2));
    __asm__ volatile("");
}

typedef void in_room(unsigned bytes, unsigned path);
static __attribute__((noinline)) void go_left(unsigned bytes, unsigned path) {
    char *volatile block = alloca(bytes);
    block[0] = 1;
    left(PATH_BITS, path);
    __asm__ volatile("");
}
static __attribute__((noinline)) void go_between(unsigned bytes, unsigned path) {
    char *volatile block = alloca(BETWEEN_BYTES);
    block[0] = 1;
    go_left(bytes, path);
    __asm__ volatile("");
}
static __attribute__((noinline)) void go(in_room *volatile function, unsigned bytes, unsigned path) {
    function(bytes, path);
    __asm__ volatile("");
}

// A frame that sometimes is as large as itself and another one below its caller: its end then lies where it did, and what it
// has not written has the other one's return address.
static void leave_over(void) {
    for (unsigned path = 0; path < 1 << PATH_BITS; path++) {
        in_room *volatile function = path % 2 ? go_left : go_between;
        go(function, path % 2 ? 16 + 16 * (path / 2 % 32) : 16, path);
    }
}

static void take_address_space(void) {
    const struct rlimit limit = {1 << 30, 1 << 30};
    if (setrlimit(RLIMIT_AS, &limit)) abort();
    for (size_t bytes = 1 << 29; bytes >= 4096; bytes /= 2)
        while (mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) continue;
}

// Some stacks, many more once all address space is taken, and the first ones again, in a forked child, too.
static void run_out_of_memory(void) {
    pid_t child = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        bool is_edge = round == 0 || round == ROUNDS - 1;
        if (round) take_address_space();  // also what the recorder gave back meanwhile
        if (round == ROUNDS - 1) child = fork();
        for (unsigned path = 0; path < (is_edge ? PATHS_AT_EDGES : 1u << PATH_BITS); path++)
            left(PATH_BITS, path);
    }
    if (child < 0 || (child && waitpid(child, NULL, 0) != child)) abort();
}

static void *work(void *unused) {
    for (unsigned round = 0; round < ROUNDS; round++) even(12, round * 0x9e3779b9u);
    return unused;
}

static void handle(int number) {
    (void)number;
    even(5, 21);
}

static ucontext_t caller, coroutine;
static void run_coroutine(void) {
    even(6, 42);
    swapcontext(&coroutine, &caller);
    even(6, 11);
}

static void coroutines(void) {
    char *stack = malloc(STACK_BYTES);
    if (!stack || getcontext(&coroutine)) abort();
    coroutine.uc_stack.ss_sp = stack;
    coroutine.uc_stack.ss_size = STACK_BYTES;
    coroutine.uc_link = &caller;
    makecontext(&coroutine, run_coroutine, 0);
    for (int part = 0; part < 2; part++)
        if (swapcontext(&caller, &coroutine)) abort();
    free(stack);
}

static __attribute__((noinline)) void leaf(void) {
    kept[0] = malloc(1);
    free(kept[0]);
    __asm__ volatile("");
}

static __attribute__((noinline)) void others(unsigned calls) {
    for (unsigned i = 0; i < calls; i++) {
        kept[1] = malloc(2);
        free(kept[1]);
    }
}

// Calls the function with a stack that lies so far below what libc knows of the thread.
static __attribute__((noinline)) void call_at(uintptr_t below, void (*function)(void)) {
    uintptr_t at = ((uintptr_t)__builtin_thread_pointer() - below) & ~(uintptr_t)15;
    char *volatile room = alloca((uintptr_t)__builtin_frame_address(0) - at);
    room[0] = 1;
    function();
    __asm__ volatile("");
}

static __attribute__((noinline)) void leaf_deep_down(void) { call_at(LEAF_AT, leaf); }
static __attribute__((noinline)) void one_way(void) {
    leaf_deep_down();
    __asm__ volatile("");
}
static __attribute__((noinline)) void other_way(void) {
    leaf_deep_down();
    __asm__ volatile("");
}

// Stacks that part far above the leaf.
static void *part_far_up(void *unused) {
    for (unsigned round = 0; round < ROUNDS; round++) {
        call_at(FAR_AT, one_way);
        call_at(FAR_AT, other_way);
    }
    return unused;
}

static void run_below_guard(void) {
    for (unsigned try = 0; try < TRIES; try++) {
        others(CALLS_BETWEEN);
        leaf_deep_down();
    }
}

// The same leaf, at the same distance, on a coroutine's stack below the thread's own and its guard.
static void *allocate_below_guard(void *stack) {
    others(CALLS_BEFORE);
    if (getcontext(&coroutine)) abort();
    coroutine.uc_stack.ss_sp = stack;
    coroutine.uc_stack.ss_size = STACK_BYTES;
    coroutine.uc_link = &caller;
    makecontext(&coroutine, run_below_guard, 0);
    if (swapcontext(&caller, &coroutine)) abort();
    return NULL;
}

static void run_thread(const pthread_attr_t *attributes, void *(*body)(void *), void *argument) {
    pthread_t thread;
    if (pthread_create(&thread, attributes, body, argument) || pthread_join(thread, NULL)) abort();
}

static void guarded(void) {
    pthread_attr_t attributes;
    char *low =
        mmap(NULL, 2 * STACK_BYTES + GUARD_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (low == MAP_FAILED || mprotect(low + STACK_BYTES, GUARD_BYTES, PROT_NONE)) abort();
    if (pthread_attr_init(&attributes) ||
        pthread_attr_setstack(&attributes, low + STACK_BYTES + GUARD_BYTES, STACK_BYTES))
        abort();
    run_thread(NULL, part_far_up, NULL);
    run_thread(&attributes, allocate_below_guard, low);
}

static void plugins(char **libraries) {
    for (unsigned round = 0; round < ROUNDS; round++)
        for (char **name = libraries; *name; name++) {
            void *library = dlopen(*name, RTLD_NOW);
            void *(*function)(size_t) = library ? (void *(*)(size_t))dlsym(library, "work") : NULL;
            if (!function) abort();
            for (size_t call = 0; call < PLUGIN_CALLS; call++) free(function(call + 1));
            dlclose(library);
        }
}

static void *plugins_for_long(void *libraries) {
    for (int i = 0; i < THREADS; i++) plugins(libraries);
    return NULL;
}

static void in_threads(void *(*body)(void *), void *argument) {
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, body, argument)) abort();
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
}

int main(int argc, char **argv) {
    const char *kind = argc > 1 ? argv[1] : "";
    if (!strcmp(kind, "recursion")) {
        for (unsigned path = 1; path < 4; path++) even(DEPTH, path * 0x9e3779b9u);
    } else if (!strcmp(kind, "alloca")) {
        vary(200);
        vary(180);
    } else if (!strcmp(kind, "left_over")) {
        leave_over();
    } else if (!strcmp(kind, "no_memory")) {
        run_out_of_memory();
    } else if (!strcmp(kind, "threads")) {
        in_threads(work, NULL);
    } else if (!strcmp(kind, "signal")) {
        signal(SIGUSR1, handle);
        for (int i = 0; i < 10; i++) raise(SIGUSR1);
    } else if (!strcmp(kind, "coroutine")) {
        coroutines();
    } else if (!strcmp(kind, "guarded")) {
        guarded();
    } else if (!strcmp(kind, "plugins")) {
        plugins(argv + 2);
    } else if (!strcmp(kind, "plugin_threads")) {
        in_threads(plugins_for_long, argv + 2);
    } else {
        return 2;
    }
    return 0;
}
