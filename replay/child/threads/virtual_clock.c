// SPDX-License-Identifier: Apache-2.0
// The executable exports these names, so that every library in the process that reads a clock reads this
// one. Interposition has no argument to carry state in: hence the globals here.
#include "virtual_clock.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include "raw_calls.h"
#include "replay_job.h"

// What is called until the next functions are found: glibc before 2.34 allocates when dlsym is called first, and the allocator
// may then ask for the time or start a thread. The clockwaits, of glibc 2.30, may not be there at all. Whoever waits here naps.
static void nap(void) {
    static const struct timespec time = {.tv_nsec = 100000};
    syscall(SYS_nanosleep, &time, NULL);
}

static int early_clock_gettime(clockid_t id, struct timespec *now) {
    return (int)syscall(SYS_clock_gettime, id, now);
}

static int early_nanosleep(const struct timespec *time, struct timespec *rest) {
    return (int)syscall(SYS_nanosleep, time, rest);
}

static int early_clock_nanosleep(clockid_t id, int flags, const struct timespec *time,
                                 struct timespec *rest) {
    return syscall(SYS_clock_nanosleep, id, flags, time, rest) ? errno : 0;
}

static bool has_come(clockid_t id, const struct timespec *moment) {
    struct timespec now;
    early_clock_gettime(id, &now);
    return now.tv_sec > moment->tv_sec || (now.tv_sec == moment->tv_sec && now.tv_nsec >= moment->tv_nsec);
}

// A condition may wake up whoever waits for it without cause.
static int early_cond_wait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex) {
    (void)cond;
    pthread_mutex_unlock(mutex);
    nap();
    return pthread_mutex_lock(mutex);
}

static int early_cond_clockwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex, clockid_t id,
                                const struct timespec *restrict moment) {
    return has_come(id, moment) ? ETIMEDOUT : early_cond_wait(cond, mutex);
}

static int early_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                                const struct timespec *restrict moment) {
    return early_cond_clockwait(cond, mutex, CLOCK_REALTIME, moment);
}

static int early_cond_signal(pthread_cond_t *cond) {
    (void)cond;
    return 0;
}

static int early_sem_wait(sem_t *semaphore) {
    int failed;
    while ((failed = sem_trywait(semaphore)) && errno == EAGAIN) nap();
    return failed;
}

static int early_sem_clockwait(sem_t *restrict semaphore, clockid_t id,
                               const struct timespec *restrict moment) {
    int failed;
    while ((failed = sem_trywait(semaphore)) && errno == EAGAIN) {
        if (has_come(id, moment)) {
            errno = ETIMEDOUT;
            return -1;
        }
        nap();
    }
    return failed;
}

struct ht_next ht_next = {.clock_gettime = early_clock_gettime,
                          .nanosleep = early_nanosleep,
                          .clock_nanosleep = early_clock_nanosleep,
                          .pthread_cond_wait = early_cond_wait,
                          .pthread_cond_timedwait = early_cond_timedwait,
                          .pthread_cond_clockwait = early_cond_clockwait,
                          .pthread_cond_signal = early_cond_signal,
                          .pthread_cond_broadcast = early_cond_signal,
                          .sem_wait = early_sem_wait,
                          .sem_clockwait = early_sem_clockwait};

static void look_up(void) {
#define LOOK_UP(NAME)                                                                                        \
    {                                                                                                        \
        void *found = dlsym(RTLD_NEXT, #NAME);                                                               \
        if (found) ht_next.NAME = (__typeof__(&NAME))found;                                                  \
    }
    HT_NEXT_FUNCTIONS(LOOK_UP)
}

enum { CLOCKS = 16 };

static struct {
    const _Atomic uint64_t *_Atomic trace_ns;  // NULL: real time
    _Atomic uint64_t shown_ns;                 // what the last reading was
    uint64_t base_ns[CLOCKS];
    _Atomic bool renounced;
    _Atomic uint32_t held_readings;  // so many readings more show the moment at which the process started
    bool running[CLOCKS];            // clocks that pass with time, unlike those that count CPU
} virtual_clock;

static void set_bases(void) {
    static const clockid_t running[] = {CLOCK_REALTIME,        CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW,
                                        CLOCK_REALTIME_COARSE, CLOCK_BOOTTIME,  CLOCK_TAI,
                                        CLOCK_MONOTONIC_COARSE};
    for (size_t i = 0; i < sizeof running / sizeof *running; i++) {
        clockid_t id = running[i];
        virtual_clock.base_ns[id] = ht_raw_clock_ns(id);
        virtual_clock.running[id] = true;
    }
}

// What an allocator notes down when it starts, such as when to purge next, must not depend on how long the
// process takes from there to the trace's first call, or peaks differ from run to run. So its first readings
// all show the same moment, which becomes trace time 0. A thread that reads more often than that, or sleeps,
// is after the time that passes, and gets it.
enum { HELD_READINGS = 64 };

static void hold(int argc, char **argv, char **environment) {
    (void)argc;
    (void)argv;
    for (char **at = environment; *at; at++) {
        if (strcmp(*at, HT_CLOCK_HELD)) continue;
        set_bases();
        virtual_clock.held_readings = HELD_READINGS;
    }
}

// What the look-up itself allocates reads no clock that is held.
static void begin(int argc, char **argv, char **environment) {
    look_up();
    hold(argc, argv, environment);
}
// An executable's alone can be so early.
__attribute__((section(".preinit_array"), used)) static void (*const before_all)(int, char **,
                                                                                 char **) = begin;

void ht_virtual_clock_release(void) { atomic_store(&virtual_clock.held_readings, 0); }

static bool is_held(clockid_t id) {
    uint32_t left = atomic_load_explicit(&virtual_clock.held_readings, memory_order_relaxed);
    if (!left || ht_virtual_clock_runs() || id < 0 || id >= CLOCKS || !virtual_clock.running[id])
        return false;
    return atomic_compare_exchange_strong(&virtual_clock.held_readings, &left, left - 1);
}

void ht_virtual_clock_start(const _Atomic uint64_t *trace_ns) {
    if (!atomic_load(&virtual_clock.held_readings)) set_bases();
    atomic_store(&virtual_clock.trace_ns, trace_ns);  // background threads may read clocks at this moment
}

bool ht_virtual_clock_runs(void) { return atomic_load(&virtual_clock.trace_ns) != NULL; }

void ht_virtual_clock_renounce(void) { atomic_store(&virtual_clock.renounced, true); }

bool ht_virtual_clock_may_run(void) { return !atomic_load(&virtual_clock.renounced); }

bool ht_virtual_clock_shows(clockid_t id) {
    return ht_virtual_clock_runs() && id >= 0 && id < CLOCKS && virtual_clock.running[id];
}

uint64_t ht_virtual_clock_place_ns(void) {
    const _Atomic uint64_t *trace_ns = atomic_load_explicit(&virtual_clock.trace_ns, memory_order_relaxed);
    return atomic_load_explicit(trace_ns, memory_order_relaxed);
}

uint64_t ht_virtual_clock_read_ns(void) {
    uint64_t trace_ns = ht_virtual_clock_place_ns(), now_ns;
    uint64_t shown_ns = atomic_load_explicit(&virtual_clock.shown_ns, memory_order_relaxed);
    do now_ns = trace_ns > shown_ns ? trace_ns : shown_ns + 1;
    while (!atomic_compare_exchange_weak(&virtual_clock.shown_ns, &shown_ns, now_ns));
    return now_ns;
}

void ht_virtual_clock_skip(uint64_t ns) {
    if (!ht_virtual_clock_runs()) return;
    ht_virtual_clock_read_ns();
    atomic_fetch_add(&virtual_clock.shown_ns, ns);
}

uint64_t ht_virtual_clock_trace_ns(clockid_t id, const struct timespec *moment) {
    uint64_t ns = ht_timespec_ns(moment), base_ns = virtual_clock.base_ns[id];
    return ns > base_ns ? ns - base_ns : 0;
}

// Real time is the C library's, which needs no system call for it: what an allocator pays for its clock
// belongs to it.
__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *now) {
    if (ht_virtual_clock_shows(id)) {
        *now = ht_timespec(virtual_clock.base_ns[id] + ht_virtual_clock_read_ns());
        return 0;
    }
    if (__builtin_expect(is_held(id), 0)) {
        *now = ht_timespec(virtual_clock.base_ns[id]);
        return 0;
    }
    return ht_next.clock_gettime(id, now);
}

__attribute__((visibility("default"))) int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec fine;
    if (clock_gettime(CLOCK_REALTIME, &fine)) return -1;
    now->tv_sec = fine.tv_sec;
    now->tv_usec = fine.tv_nsec / HT_NS_PER_US;
    return 0;
}

__attribute__((visibility("default"))) time_t time(time_t *also) {
    struct timespec fine;
    if (clock_gettime(CLOCK_REALTIME, &fine)) return (time_t)-1;
    if (also) *also = fine.tv_sec;
    return fine.tv_sec;
}

__attribute__((visibility("default"))) int timespec_get(struct timespec *now, int base) {
    return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, now) == 0 ? base : 0;
}

#if defined(__x86_64__)

enum { CALIBRATION_NS = 3000000, VDSO_BYTES_MAX = 16384, CPU_BITS = 12 };

// A signal handler has no argument to carry state in.
static struct {
    uint64_t base_ticks, base_ns;
    double ticks_per_ns;
    uintptr_t vdso;
    _Atomic uintptr_t first_reader;
} trap;

static void set_trap(bool on) { prctl(PR_SET_TSC, on ? PR_TSC_SIGSEGV : PR_TSC_ENABLE); }

static bool in_vdso(uintptr_t address) {
    return trap.vdso && address >= trap.vdso && address - trap.vdso < VDSO_BYTES_MAX;
}

extern const char __executable_start, etext;  // the linker's

// The harness's own code is the executable's.
static bool is_ours(uintptr_t address) {
    return address >= (uintptr_t)&__executable_start && address < (uintptr_t)&etext;
}

// The kernel's own reading, which makes a real clock's time of it, must be real, and ours is meant to be.
static uint64_t real_ticks(void) {
    set_trap(false);
    uint64_t ticks = ht_ticks();
    set_trap(true);
    return ticks;
}

static uint64_t trace_ticks(uintptr_t reader) {
    uintptr_t nobody = 0;
    atomic_compare_exchange_strong(&trap.first_reader, &nobody, reader);
    return trap.base_ticks +
           (uint64_t)((double)(ht_virtual_clock_read_ns() - trap.base_ns) * trap.ticks_per_ns);
}

static void answer(greg_t *registers, uintptr_t at, bool with_cpu) {
    uint64_t ticks = in_vdso(at) || is_ours(at) ? real_ticks() : trace_ticks(at);
    registers[REG_RAX] = (greg_t)(uint32_t)ticks;
    registers[REG_RDX] = (greg_t)(ticks >> 32);
    if (with_cpu) {  // as Linux sets the register: allocators take the CPU's number from it
        unsigned cpu = 0, node = 0;
        syscall(SYS_getcpu, &cpu, &node, NULL);
        registers[REG_RCX] = (greg_t)(node << CPU_BITS | cpu);
    }
    registers[REG_RIP] += with_cpu ? 3 : 2;
}

// Every other fault ends the process as it would have: by the default action when the instruction is tried
// again, or, where somebody sent the signal, when it is sent again.
static void on_fault(int number, siginfo_t *info, void *context) {
    static const unsigned char rdtsc[] = {0x0f, 0x31}, rdtscp[] = {0x0f, 0x01, 0xf9};
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    uintptr_t at = (uintptr_t)registers[REG_RIP];
    if (info->si_code == SI_KERNEL) {
        if (!memcmp((const void *)at, rdtsc, sizeof rdtsc)) return answer(registers, at, false);
        if (!memcmp((const void *)at, rdtscp, sizeof rdtscp)) return answer(registers, at, true);
    }
    signal(number, SIG_DFL);
    if (info->si_code <= 0) raise(number);
}

static void calibrate(void) {
    struct timespec pause = {.tv_nsec = CALIBRATION_NS};
    uint64_t ticks = ht_ticks(), ns = ht_raw_clock_ns(CLOCK_MONOTONIC_RAW);
    syscall(SYS_nanosleep, &pause, NULL);
    trap.base_ticks = ht_ticks();
    ns = ht_raw_clock_ns(CLOCK_MONOTONIC_RAW) - ns;
    trap.ticks_per_ns = (double)(trap.base_ticks - ticks) / (double)ns;
}

bool ht_cycle_trap_start(void) {
    struct sigaction former, action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    if (sigaction(SIGSEGV, NULL, &former) || former.sa_handler != SIG_DFL) return false;
    calibrate();
    trap.base_ns = ht_virtual_clock_read_ns();
    trap.vdso = getauxval(AT_SYSINFO_EHDR);
    return sigaction(SIGSEGV, &action, NULL) == 0 && prctl(PR_SET_TSC, PR_TSC_SIGSEGV) == 0;
}

void ht_cycle_trap_end(char *reader, size_t room) {
    Dl_info found = {0};
    void *address = (void *)trap.first_reader;
    set_trap(false);
    if (!address) return;
    const char *path = dladdr(address, &found) && found.dli_fname ? found.dli_fname : "code of no object";
    const char *slash = strrchr(path, '/');
    snprintf(reader, room, "%s", slash ? slash + 1 : path);
}

#else

bool ht_cycle_trap_start(void) { return false; }
void ht_cycle_trap_end(char *reader, size_t room) { snprintf(reader, room, "%s", ""); }

#endif
