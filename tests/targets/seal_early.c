// SPDX-License-Identifier: Apache-2.0
// Forbids itself system calls at moments that catch a recorder out: before the first allocation of a process,
// or of a forked child, or where nothing is being recorded. Usage: seal_early COUNTS MODE [BY]
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "seccomp_filters.h"
#include "target_modes.h"

enum { SIZE_BEFORE = 7960, SIZE_AFTER, SIZE_CHILD };

static struct call_filter filter;

static void seal(void) {
    filter_strict(&filter);
    filter_install_by_prctl(&filter);
}

static void work(size_t size) {
    tally_churn(size, 2000);
    free(malloc(1 << 20));
}

// Nothing has been allocated yet: the tallies are a mapping.
static int before_the_first(char *unused) {
    (void)unused;
    filter_opening(&filter);  // glibc's own first malloc needs more than the strict filter allows
    filter_install_by_syscall(&filter, 0);
    work(SIZE_AFTER);
    return 112;
}

static int in_a_child(char *unused) {
    (void)unused;
    tally_churn(SIZE_BEFORE, 100);
    pid_t pid = fork();
    if (pid == 0) {
        seal();
        work(SIZE_CHILD);
        _exit(7);
    }
    if (child_status(pid) != 7) return 1;
    work(SIZE_AFTER);
    return 113;
}

// The recording has ended or is paused, or begins when it must not any more.
static int when_idle(char *unused) {
    (void)unused;
    for (int i = 0; i < 20000; i++) tally_churn(SIZE_BEFORE, 1);
    seal();
    for (int i = 0; i < 200; i++) {
        work(SIZE_AFTER);
        for (volatile int spin = 0; spin < 100000; spin++) continue;
    }
    return 114;
}

// The limit on address space comes after the start, and leaves room for what is asked for next. By the number
// of a system call, if one is named.
static int limits_itself(char *by) {
    struct rlimit limit = {1ul << 30, 1ul << 30};
    tally_churn(SIZE_BEFORE, 1000);
    long failed = -1;
    if (!by) failed = setrlimit(RLIMIT_AS, &limit);
    else if (!strcmp(by, "prlimit64")) failed = syscall(SYS_prlimit64, 0, RLIMIT_AS, &limit, NULL);
#ifdef SYS_setrlimit
    else if (!strcmp(by, "setrlimit")) failed = syscall(SYS_setrlimit, RLIMIT_AS, &limit);
#endif
    if (failed) target_fail("the limit was not set");
    void *block = malloc(512 << 20);
    if (!block) return 1;
    free(block);
    tally_churn(SIZE_AFTER, 100000);
    return 115;
}

// Locks all memory as one that may lock little.
static void lock_all(void) {
    struct rlimit locked;
    getrlimit(RLIMIT_MEMLOCK, &locked);
    if (locked.rlim_max > 64 << 20) locked.rlim_max = 64 << 20;
    locked.rlim_cur = locked.rlim_max;
    if (setrlimit(RLIMIT_MEMLOCK, &locked)) target_fail("the limit on locked memory was not set");
    if (geteuid() == 0 && setuid(65534)) target_fail("cannot change the user");
    if (mlockall(MCL_CURRENT)) target_fail("the memory was not locked");
    munlockall();
}

static void limit_space(void) {
    struct rlimit space = {512ul << 20, 512ul << 20};
    if (setrlimit(RLIMIT_AS, &space)) target_fail("the limit on address space was not set");
    void *block = malloc(256 << 20);
    if (!block) target_fail("the limit leaves no room");
    free(block);
}

// The recording is paused, and may begin later, or has ended.
static int limits_idle(char *locks) {
    tally_churn(SIZE_BEFORE, 600000);
    if (locks) lock_all();
    else limit_space();
    usleep(500000);
    tally_churn(SIZE_AFTER, 20000);
    return 116;
}

// A short process that forbids itself nothing in fact, or asks in vain.
static int is_short(char *in_vain) {
    struct sock_fprog refused = {0, NULL};
    tally_churn(SIZE_BEFORE, 10);
    filter_nothing(&filter);
    if (!in_vain) filter_install_by_prctl(&filter);
    else if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &refused, 0, 0) != -1) target_fail("not refused");
    tally_churn(SIZE_AFTER, 10);
    _exit(120);
}

// The recorder may call nothing when the limit comes.
static int limits_sealed(char *unused) {
    (void)unused;
    tally_churn(SIZE_BEFORE, 1000);
    filter_nothing(&filter);
    filter_install_by_prctl(&filter);
    limit_space();
    tally_churn(SIZE_AFTER, 1000);
    return 117;
}

// System calls from outside the C library are handed to a handler of the program's.
static volatile sig_atomic_t handed_over;
static void take_over(int number) {
    (void)number;
    handed_over++;
}

static int find_libc(struct dl_phdr_info *info, size_t bytes, void *context) {
    uintptr_t *range = context, place = (uintptr_t)dlsym(RTLD_NEXT, "write");
    (void)bytes;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || place - info->dlpi_addr - segment->p_vaddr >= segment->p_memsz)
            continue;
        range[0] = info->dlpi_addr + segment->p_vaddr;
        range[1] = segment->p_memsz;
        return 1;
    }
    return 0;
}

static char blocks_others;
static int dispatch(const uintptr_t *range, int by_number) {
    enum { SET_DISPATCH = 59, ON = 1, BLOCK = 1 };
    blocks_others = BLOCK;
    long on = range != NULL, from = on ? (long)range[0] : 0, bytes = on ? (long)range[1] : 0;
    char *selector = on ? &blocks_others : NULL;
    return by_number ? (int)syscall(SYS_prctl, SET_DISPATCH, on, from, bytes, selector)
                     : prctl(SET_DISPATCH, on, from, bytes, selector);
}

// With a filter that comes meanwhile and stays. Without one, all of it once more.
static int dispatches(char *how) {
    uintptr_t range[2] = {0, 0};
    struct sigaction action = {.sa_handler = take_over};
    struct rlimit limit = {1ul << 30, 1ul << 30};
    int filters = how && !strcmp(how, "filter"), by_number = how && !strcmp(how, "number");
    if (!dl_iterate_phdr(find_libc, range)) target_fail("no C library");
    if (sigaction(SIGSYS, &action, NULL)) target_fail("no handler");
    for (int i = 0; i < (filters ? 1 : 3); i++) {
        tally_churn(SIZE_BEFORE, 1000);
        if (dispatch(range, by_number)) return 77;
        for (int k = 0; k < 100; k++) work(SIZE_AFTER);
        if (setrlimit(RLIMIT_AS, &limit)) target_fail("the limit was not set");
        if (filters) {
            filter_upkeep(&filter);
            filter_install_by_prctl(&filter);
        }
        if (dispatch(NULL, by_number)) return 1;
        for (int k = 0; k < 100; k++) work(SIZE_CHILD);
    }
    return handed_over ? 1 : 119;
}

// A filter that the kernel refuses forbids nothing: as much is recorded as without it.
static int is_refused(char *unused) {
    (void)unused;
    struct sock_fprog program = {0, NULL};
    tally_churn(SIZE_BEFORE, 1000);
    for (int i = 0; i < 3; i++)
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != -1) target_fail("not refused");
    tally_churn(SIZE_AFTER, 9000000);
    return 118;
}

// The filter comes by a bare system call. What precedes it may be seen, or not.
static void seal_bare(const char *unseen) {
    if (unseen ? bare_call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0) : prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        target_fail("privileges are kept");
    filter_install_bare(&filter);
}

static int bare(char *unseen) {
    tally_churn(SIZE_BEFORE, 1000);
    if (unseen) filter_but_questions(&filter);
    else filter_strict(&filter);
    seal_bare(unseen);
    for (int i = 0; i < 100; i++) work(SIZE_AFTER);
    _exit(121);
}

// The filter falls on a forked child that has allocated nothing yet.
static int bare_in_child(char *unseen) {
    tally_churn(SIZE_BEFORE, 1000);
    pid_t pid = fork();
    if (pid == 0) {
        filter_but_questions(&filter);
        seal_bare(unseen);
        tally_churn(SIZE_CHILD, 1000);
        _exit(7);
    }
    if (child_status(pid) != 7) return 1;
    tally_churn(SIZE_AFTER, 1000);
    return 123;
}

static void *work_in_thread(void *started) {
    tally_churn(SIZE_BEFORE, 10);
    pthread_barrier_wait(started);
    tally_churn(SIZE_AFTER, 40000);
    return NULL;
}

// No filter comes: several threads learn that at once, each of which has used up what was prepared.
static int sign_among_threads(void) {
    enum { THREADS = 3 };
    pthread_t thread[THREADS];
    pthread_barrier_t started;
    pthread_barrier_init(&started, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, work_in_thread, &started)) target_fail("no thread");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) target_fail("privileges are kept");
    pthread_barrier_wait(&started);
    tally_churn(SIZE_CHILD, 40000);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    return 7;
}

// As it hangs on the moment, in several processes.
static int signs_among_threads(char *unused) {
    enum { PROCESSES = 6 };
    (void)unused;
    tally_churn(SIZE_BEFORE, 10);
    for (int i = 0; i < PROCESSES; i++) {
        pid_t pid = fork();
        if (pid == 0) _exit(sign_among_threads());
        if (child_status(pid) != 7) return 1;
    }
    return 124;
}

// No filter comes: as much is recorded as without the sign of one, a child too.
static int sign_alone(char *child) {
    enum { BLOCK_BYTES = 64 << 20 };
    volatile char *block = malloc(BLOCK_BYTES);
    tally_churn(SIZE_BEFORE, 1000);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) target_fail("privileges are kept");
    pid_t pid = child ? fork() : 1;
    if (pid == 0) {
        tally_churn(SIZE_CHILD, 1000);
        _exit(7);
    }
    if (child && child_status(pid) != 7) return 1;
    tally_churn(SIZE_AFTER, 200000);
    for (size_t at = 0; block && at < BLOCK_BYTES; at += 4096) block[at] = 1;
    tally_churn(SIZE_AFTER, 100000);
    return 122;
}

int main(int argc, char **argv) {
    static const struct target_mode modes[] = {{"before_the_first", before_the_first},
                                               {"in_a_child", in_a_child},
                                               {"when_idle", when_idle},
                                               {"limits_itself", limits_itself},
                                               {"limits_idle", limits_idle},
                                               {"limits_sealed", limits_sealed},
                                               {"is_refused", is_refused},
                                               {"dispatches", dispatches},
                                               {"is_short", is_short},
                                               {"bare", bare},
                                               {"sign_alone", sign_alone},
                                               {"bare_in_child", bare_in_child},
                                               {"signs_among_threads", signs_among_threads},
                                               {NULL, NULL}};
    return run_target_mode(modes, argc, argv);
}
