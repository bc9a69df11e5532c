// SPDX-License-Identifier: Apache-2.0
// Programs that live by faults: their handlers open pages of the stack, or note which pages are written. A
// fault whose signal is blocked ends a program, whatever its handler would have done.
// Usage: fault_kinds COUNTS MODE
#include <signal.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>

#include "target_modes.h"

enum {
    SIZE_MAIN = 7750,
    SIZE_DEEP,
    SIZE_HANDLER,
    PAGE = 4096,
    STACK_BYTES = 64 << 10,
    ALTERNATE_BYTES = 64 << 10
};

static char *stack;
static volatile long faults;

static void *map_memory(size_t bytes, int protection, int flags) {
    void *at = mmap(NULL, bytes, protection, flags | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) target_fail("cannot map");
    return at;
}

// The handler has a stack of its own, which nothing ever protects.
static void catch_faults(void (*handler)(int, siginfo_t *, void *)) {
    stack_t alternate = {.ss_sp = map_memory(ALTERNATE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED),
                         .ss_size = ALTERNATE_BYTES};
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    if (sigaltstack(&alternate, NULL) || sigaction(SIGSEGV, &action, NULL))
        target_fail("cannot catch faults");
}

static void require_no_signal_blocked(void) {
    sigset_t now;
    sigprocmask(SIG_BLOCK, NULL, &now);
    for (int number = 1; number < 32; number++)
        if (sigismember(&now, number)) target_fail("a signal was left blocked");
}

// ---- stacks that grow page by page ----

static bool handler_allocates;

static void open_page(int number, siginfo_t *info, void *unused) {
    (void)number, (void)unused;
    char *page = (char *)((uintptr_t)info->si_addr & ~(uintptr_t)(PAGE - 1));
    if (page < stack || page >= stack + STACK_BYTES) _exit(98);
    mprotect(page, PAGE, PROT_READ | PROT_WRITE);
    if (handler_allocates) free(tally_malloc(SIZE_HANDLER));
    faults++;
}

static ucontext_t main_context, fiber;
static int depth_bytes;
static long pause_ns;

static __attribute__((noinline)) void call_at(int bytes) {
    volatile char pad[64];
    if (bytes > 0) {
        pad[0] = 1;
        call_at(bytes - 96);
        pad[1] = pad[0];
        return;
    }
    // A sample of memory is due by then.
    if (pause_ns) nanosleep(&(struct timespec){.tv_nsec = pause_ns}, NULL);
    free(tally_malloc(SIZE_DEEP));
}

static void on_fiber(void) {
    call_at(depth_bytes);
    swapcontext(&fiber, &main_context);
}

// A call at every depth, so that some find the next page closed within the recorder's work.
static void call_on_fibers(int rounds, int step) {
    for (int round = 0; round < rounds; round++) {
        depth_bytes = round * step % (2 * PAGE);
        stack = map_memory(STACK_BYTES, PROT_NONE, MAP_PRIVATE);
        mprotect(stack + STACK_BYTES - PAGE, PAGE, PROT_READ | PROT_WRITE);
        getcontext(&fiber);
        fiber.uc_stack.ss_sp = stack;
        fiber.uc_stack.ss_size = STACK_BYTES;
        fiber.uc_link = &main_context;
        makecontext(&fiber, on_fiber, 0);
        swapcontext(&main_context, &fiber);
        munmap(stack, STACK_BYTES);
        require_no_signal_blocked();
    }
}

static int first_call_on_a_closed_stack(char *depth) {
    catch_faults(open_page);
    depth_bytes = depth ? atoi(depth) : 0;
    call_on_fibers(1, 0);
    call_on_fibers(1000, 32);
    return faults > 0 ? 70 : 99;
}

static int samples_on_closed_stacks(char *allocates) {
    handler_allocates = allocates != NULL;
    tally_churn(SIZE_MAIN, 100);
    catch_faults(open_page);
    pause_ns = 1100000;
    call_on_fibers(512, 16);
    return faults > 0 ? 71 : 99;
}

// ---- pages that are watched for writes ----

// The system calls themselves: libc's data may be among what is protected.
static long bare_call(long number, long a, long b, long c) {
#if defined(__x86_64__)
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
#else
    return syscall(number, a, b, c);
#endif
}

static long *noted;

static void note_page(int number, siginfo_t *info, void *unused) {
    (void)number, (void)unused;
    uintptr_t page = (uintptr_t)info->si_addr & ~(uintptr_t)(PAGE - 1);
    bare_call(SYS_mprotect, (long)page, PAGE, PROT_READ | PROT_WRITE);
    ++*noted;
}

static char *maps;
enum { MAPS_BYTES = 1 << 16 };

static void protect_everything(void) {
    int fd = (int)bare_call(SYS_openat, AT_FDCWD, (long)"/proc/self/maps", O_RDONLY);
    long used = 0, got;
    while ((got = bare_call(SYS_read, fd, (long)maps + used, MAPS_BYTES - 1 - used)) > 0) used += got;
    bare_call(SYS_close, fd, 0, 0);
    maps[used] = 0;
    for (char *line = maps, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        uintptr_t first = strtoul(line, &line, 16), last = strtoul(line + 1, &line, 16);
        if (!strncmp(line + 1, "rw-p", 4) && !strstr(line, "[stack]"))
            bare_call(SYS_mprotect, (long)first, (long)(last - first), PROT_READ);
    }
}

// Incremental checkpoints: all that is private and writable is made read-only now and then, the recorder's
// own memory with it.
static int notes_what_is_written(char *unused) {
    (void)unused;
    void *block[256] = {0};
    uint64_t random = 1;
    maps = map_memory(MAPS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED);
    noted = map_memory(PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);
    catch_faults(note_page);
    for (int round = 0; round < 30; round++) {
        protect_everything();
        for (int i = 0; i < 10000; i++) {
            void **slot = &block[random_next(&random) % 256];
            free(*slot);
            *slot = tally_malloc(i % 2 ? SIZE_MAIN : SIZE_DEEP);
        }
        require_no_signal_blocked();
    }
    return *noted > 0 ? 72 : 99;
}

int main(int argc, char **argv) {
    static const struct target_mode modes[] = {{"closed_first", first_call_on_a_closed_stack},
                                               {"closed", samples_on_closed_stacks},
                                               {"written", notes_what_is_written},
                                               {NULL, NULL}};
    return run_target_mode(modes, argc, argv);
}
