// SPDX-License-Identifier: Apache-2.0
// Signal handlers that allocate where they may: the thread was in ordinary code, or in mmap.
// Usage: signal_kinds COUNTS MODE
#include <alloca.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/time.h>

#include "target_modes.h"

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

enum { SIZE_MAIN = 7710, SIZE_HANDLER, MAPPED_BYTES = 1 << 16, JUMPS = 300, TICKS = 60 };

static sigjmp_buf back;
static volatile sig_atomic_t handled;

static void catch_signal(int number, void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigaction(number, &action, NULL);
}

static void tick_every_us(long us) {
    struct itimerval timer = {{0, us}, {0, us}};
    setitimer(ITIMER_REAL, &timer, NULL);
}

static void allocate(int number) {
    (void)number;
    tally_churn(SIZE_HANDLER, 5);
    handled++;
}

// The thread only spins while ticks arrive, so that its heap is at rest whenever the handler uses it.
static int in_ordinary_code(char *unused) {
    (void)unused;
    catch_signal(SIGALRM, allocate, SA_RESTART);
    tally_churn(SIZE_MAIN, 100);
    for (int i = 0; i < 200; i++) raise(SIGALRM);
    sig_atomic_t wanted = handled + TICKS;
    tick_every_us(500);
    while (handled < wanted) continue;
    tick_every_us(0);
    catch_signal(SIGALRM, SIG_IGN, 0);
    tally_churn(SIZE_MAIN, 100);
    return 30;
}

static void map_and_jump(int number) {
    (void)number;
    void *mapped = mmap(NULL, MAPPED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) target_fail("the handler cannot map");
    handled++;
    siglongjmp(back, 1);
}

// Leaves mmap and munmap by a jump, at any instant of them; a lock held there would never be given back.
static int jump_out_of_mappings(char *unused) {
    (void)unused;
    tally_churn(SIZE_MAIN, 1000);
    catch_signal(SIGALRM, map_and_jump, 0);
    // Before the first signal, which may come at once.
    if (!sigsetjmp(back, 1)) tick_every_us(300);
    while (handled < JUMPS) {
        char *mapped = mmap(NULL, MAPPED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mapped == MAP_FAILED) target_fail("cannot map");
        *(volatile char *)mapped = 1;
        mremap(mapped, MAPPED_BYTES, MAPPED_BYTES / 2, 0);
        munmap(mapped, MAPPED_BYTES / 2);
    }
    tick_every_us(0);
    catch_signal(SIGALRM, SIG_IGN, 0);
    tally_churn(SIZE_MAIN, 100000);
    return 31;
}

static char *lowest;
static size_t room_bytes;

// So much of the stack is left to what it calls, however large the frame of a signal is on this machine.
static void allocate_in_room(int number) {
    size_t left = (size_t)((char *)__builtin_frame_address(0) - lowest);
    if (left < room_bytes) target_fail("the stack is smaller than the room");
    memset(alloca(left - room_bytes), 0, left - room_bytes);
    allocate(number);
}

// An alternate stack of the least size that the system asks for and a page for the handler, no more: below it
// lies a page without access. The handler's calls are many, so that samples of memory fall among them.
static int on_small_stack(char *room) {
    size_t least = getauxval(AT_MINSIGSTKSZ), page = 4096;
    size_t bytes = ((least > 2048 ? least : 2048) + page + page - 1) / page * page;
    char *area = mmap(NULL, bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED || mprotect(area, page, PROT_NONE)) target_fail("cannot map a stack");
    stack_t alternate = {.ss_sp = area + page, .ss_size = bytes};
    sigaltstack(&alternate, NULL);
    lowest = area + page;
    room_bytes = room ? (size_t)atoi(room) : 0;
    catch_signal(SIGUSR1, room ? allocate_in_room : allocate, SA_ONSTACK);
    // The first call of the whole program is the handler's, which then starts the recording.
    for (int i = 0; i < 20000; i++) {
        raise(SIGUSR1);
        if (i % 100 == 0) free(tally_malloc(SIZE_MAIN));
    }
    return 32;
}

int main(int argc, char **argv) {
    static const struct target_mode modes[] = {{"ordinary", in_ordinary_code},
                                               {"jump", jump_out_of_mappings},
                                               {"small_stack", on_small_stack},
                                               {NULL, NULL}};
    return run_target_mode(modes, argc, argv);
}
