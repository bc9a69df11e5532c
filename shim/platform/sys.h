// SPDX-License-Identifier: Apache-2.0
// System calls without libc. The program may define open, madvise, getpid or syscall itself, or have a
// library preloaded that does: none of that is ours to call from within malloc. Each returns the kernel's
// answer, a result or an errno negated, and leaves errno alone.
#ifndef HEAPTAPE_SYS_H
#define HEAPTAPE_SYS_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <time.h>

static inline long raw_syscall(long number, long a, long b, long c, long d, long e, long f) {
#if defined(__x86_64__)
    long result;
    register long fourth __asm__("r10") = d, fifth __asm__("r8") = e, sixth __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth), "r"(sixth)
                     : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long result __asm__("x0") = a;
    register long second __asm__("x1") = b, third __asm__("x2") = c, fourth __asm__("x3") = d;
    register long fifth __asm__("x4") = e, sixth __asm__("x5") = f, which __asm__("x8") = number;
    __asm__ volatile("svc 0"
                     : "+r"(result)
                     : "r"(second), "r"(third), "r"(fourth), "r"(fifth), "r"(sixth), "r"(which)
                     : "memory");
    return result;
#else
#error "heaptape knows the system calls of x86_64 and aarch64"
#endif
}

static inline uintptr_t stack_pointer(void) {
    uintptr_t at;
#if defined(__x86_64__)
    __asm__ volatile("mov %%rsp, %0" : "=r"(at));
#else
    __asm__ volatile("mov %0, sp" : "=r"(at));
#endif
    return at;
}

// The end of the frame of the function that this is inlined into: behind its return address.
#define frame_end() ((uintptr_t)__builtin_dwarf_cfa())

// The kernel's answer as libc's functions give it.
static inline long with_errno(long result) {
    if (result >= 0 || result < -4095) return result;
    errno = (int)-result;
    return -1;
}

static inline int sys_open(const char *path, int flags, unsigned mode) {
    return (int)raw_syscall(SYS_openat, AT_FDCWD, (long)path, flags, mode, 0, 0);
}
static inline void sys_close(int fd) { raw_syscall(SYS_close, fd, 0, 0, 0, 0, 0); }
static inline bool sys_descriptor_is_free(int fd) {
    return raw_syscall(SYS_fcntl, fd, F_GETFD, 0, 0, 0, 0) == -EBADF;
}
static inline long sys_read(int fd, void *to, size_t bytes) {
    return raw_syscall(SYS_read, fd, (long)to, (long)bytes, 0, 0, 0);
}
static inline long sys_write(int fd, const void *from, size_t bytes) {
    return raw_syscall(SYS_write, fd, (long)from, (long)bytes, 0, 0, 0);
}
static inline long sys_pread(int fd, void *to, size_t bytes, uint64_t offset) {
    return raw_syscall(SYS_pread64, fd, (long)to, (long)bytes, (long)offset, 0, 0);
}
static inline int sys_fstat(int fd, struct stat *status) {
    return (int)raw_syscall(SYS_fstat, fd, (long)status, 0, 0, 0, 0);
}
static inline int sys_stat(const char *path, struct stat *status) {
    return (int)raw_syscall(SYS_newfstatat, AT_FDCWD, (long)path, (long)status, 0, 0, 0);
}
static inline int sys_statfs(const char *path, struct statfs *status) {
    return (int)raw_syscall(SYS_statfs, (long)path, (long)status, 0, 0, 0, 0);
}
static inline long sys_pwrite(int fd, const void *from, size_t bytes, uint64_t offset) {
    return raw_syscall(SYS_pwrite64, fd, (long)from, (long)bytes, (long)offset, 0, 0);
}
static inline long sys_pwritev(int fd, const struct iovec *from, int pieces, uint64_t offset) {
    return raw_syscall(SYS_pwritev, fd, (long)from, pieces, (long)offset, 0, 0);
}
static inline int sys_ftruncate(int fd, uint64_t bytes) {
    return (int)raw_syscall(SYS_ftruncate, fd, (long)bytes, 0, 0, 0, 0);
}
// Without posix_fallocate's emulation for file systems that cannot: that would write byte by byte.
static inline int sys_fallocate(int fd, uint64_t offset, uint64_t bytes) {
    return (int)raw_syscall(SYS_fallocate, fd, 0, (long)offset, (long)bytes, 0, 0);
}
static inline void sys_unlink(const char *path) {
    raw_syscall(SYS_unlinkat, AT_FDCWD, (long)path, 0, 0, 0, 0);
}
static inline long sys_readlink(const char *path, char *to, size_t room) {
    return raw_syscall(SYS_readlinkat, AT_FDCWD, (long)path, (long)to, (long)room, 0, 0);
}
// The length with its final zero.
static inline long sys_getcwd(char *to, size_t room) {
    return raw_syscall(SYS_getcwd, (long)to, (long)room, 0, 0, 0, 0);
}
static inline uint32_t sys_getpid(void) { return (uint32_t)raw_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0); }
static inline uint32_t sys_gettid(void) { return (uint32_t)raw_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0); }
static inline void sys_tgkill(uint32_t pid, uint32_t tid, int number) {
    raw_syscall(SYS_tgkill, pid, tid, number, 0, 0, 0);
}
// Memory of this process that may be none: read by the kernel, which answers where a load would fault.
static inline bool sys_read_own(const void *from, void *to, size_t bytes) {
    struct iovec ours = {to, bytes}, theirs = {(void *)(uintptr_t)from, bytes};
    return raw_syscall(SYS_process_vm_readv, sys_getpid(), (long)&ours, 1, (long)&theirs, 1, 0) ==
           (long)bytes;
}
// Can a load from there do without a fault of the program's? The kernel reads a set of signals before it checks what it is
// to do with it.
static inline bool sys_can_read(uintptr_t at) {
    enum { NO_SUCH_OPERATION = -1, SIGNAL_SET_BYTES = 8 };
    return raw_syscall(SYS_rt_sigprocmask, NO_SUCH_OPERATION, (long)at, 0, SIGNAL_SET_BYTES, 0, 0) == -EINVAL;
}
static inline void sys_yield(void) { raw_syscall(SYS_sched_yield, 0, 0, 0, 0, 0, 0); }
static inline void sys_nap(long ns) {
    const struct timespec nap = {.tv_nsec = ns};
    raw_syscall(SYS_nanosleep, (long)&nap, 0, 0, 0, 0, 0);
}

// The steps of a wait for other threads, of which the last comes after a second or two: a busy machine may leave a
// thread without a processor for a tenth of one, while yielding on another processor takes no time at all.
enum { SYS_WAIT_YIELDS = 64, SYS_WAIT_STEPS = SYS_WAIT_YIELDS + (1 << 13), SYS_WAIT_NAP_NS = 100000 };
static inline void sys_wait_step(unsigned step) {
    if (step < SYS_WAIT_YIELDS) sys_yield();
    else sys_nap(SYS_WAIT_NAP_NS);
}

// NULL where it fails.
static inline void *sys_mmap(void *hint, size_t bytes, int protection, int flags, int fd) {
    long at = raw_syscall(SYS_mmap, (long)hint, (long)bytes, protection, flags, fd, 0);
    return at < 0 && at > -4096 ? NULL : (void *)at;
}
static inline void *sys_map_memory(size_t bytes) {
    return sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}
// Maps memory that causes no fault for each page later.
static inline void *sys_map_real_memory(size_t bytes) {
    return sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1);
}
static inline int sys_munmap(void *at, size_t bytes) {
    return (int)raw_syscall(SYS_munmap, (long)at, (long)bytes, 0, 0, 0, 0);
}
static inline int sys_mprotect(void *at, size_t bytes, int protection) {
    return (int)raw_syscall(SYS_mprotect, (long)at, (long)bytes, protection, 0, 0, 0);
}
static inline int sys_madvise(void *at, size_t bytes, int advice) {
    return (int)raw_syscall(SYS_madvise, (long)at, (long)bytes, advice, 0, 0, 0);
}
static inline int sys_mincore(uintptr_t at, size_t bytes, unsigned char *present) {
    return (int)raw_syscall(SYS_mincore, (long)at, (long)bytes, (long)present, 0, 0, 0);
}
static inline int sys_prctl(int option, void *to) {
    return (int)raw_syscall(SYS_prctl, option, (long)to, 0, 0, 0, 0);
}
// The soft limit; RLIM_INFINITY where it cannot be known.
static inline uint64_t sys_limit(int resource) {
    struct rlimit limit;
    return raw_syscall(SYS_prlimit64, 0, resource, 0, (long)&limit, 0, 0) ? RLIM_INFINITY : limit.rlim_cur;
}

// Signals wait while something is changed that a handler's calls must not find half done. Not those that a
// fault raises: the kernel kills where they are blocked, and a program's handler may be there to open a page
// of the stack, to note one that is written, or to answer a system call.
static inline uint64_t sys_block_signals(void) {
    static const unsigned char fault[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    uint64_t waiting = ~UINT64_C(0), old = 0;
    for (unsigned i = 0; i < sizeof fault; i++) waiting &= ~(UINT64_C(1) << (fault[i] - 1));
    raw_syscall(SYS_rt_sigprocmask, SIG_BLOCK, (long)&waiting, (long)&old, sizeof old, 0, 0);
    return old;
}
static inline void sys_restore_signals(uint64_t old) {
    raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&old, 0, sizeof old, 0, 0);
}

// Page faults, which the kernel counts and gives for less than a microsecond (of a process with many threads, for some
// more). Memory without a fault since the last sample has not grown.
#define FAULTS_UNKNOWN UINT64_MAX  // the kernel does not give them
static inline uint64_t sys_faults_of(int whose) {
    struct rusage usage = {0};
    if (raw_syscall(SYS_getrusage, whose, (long)&usage, 0, 0, 0, 0)) return FAULTS_UNKNOWN;
    return (uint64_t)usage.ru_minflt + (uint64_t)usage.ru_majflt;
}
static inline uint64_t sys_faults_of_thread(void) { return sys_faults_of(RUSAGE_THREAD); }
// No process has had none: a kernel that says so (gVisor) does not count.
static inline uint64_t sys_faults_of_process(void) {
    uint64_t faults = sys_faults_of(RUSAGE_SELF);
    return faults ? faults : FAULTS_UNKNOWN;
}

#endif
