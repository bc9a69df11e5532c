// SPDX-License-Identifier: Apache-2.0
#include "raw_state.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "now.h"
#include "older_libc.h"

const char *ht_stop_words(const struct ht_raw_header *header, char text[HT_STOP_TEXT_BYTES]) {
    const char *why = header->stop_errno ? strerrordesc_np((int)header->stop_errno) : NULL;
    switch (header->stop_reason) {
    case HT_STOP_NONE: return NULL;
    case HT_STOP_NO_SPACE:
        snprintf(text, HT_STOP_TEXT_BYTES, "no space%s%s", why ? ": " : "", why ? why : "");
        break;
    case HT_STOP_SIZE_LIMIT: snprintf(text, HT_STOP_TEXT_BYTES, "size limit"); break;
    case HT_STOP_SANDBOX:
        snprintf(text, HT_STOP_TEXT_BYTES,
                 "the program forbade system calls (seccomp) or the cycle counter, and the prepared space "
                 "is full");
        break;
    case HT_STOP_FOLDER:
        snprintf(text, HT_STOP_TEXT_BYTES,
                 "never begun: the folder's file system may fail to store data, which would end the "
                 "program; name another folder by MALLOC_WRAP_OUT or -o");
        break;
    case HT_STOP_MEMORY:
        snprintf(
            text, HT_STOP_TEXT_BYTES,
            "its folder is in memory, and the program needs the remaining memory; choose a folder on a disk");
        break;
    case HT_STOP_EXIT:
        snprintf(
            text, HT_STOP_TEXT_BYTES,
            "the program made more calls after its exit than the log had room for, and it could not grow%s%s",
            why ? ": " : "", why ? why : "");
        break;
    case HT_STOP_CONTROL: snprintf(text, HT_STOP_TEXT_BYTES, "ended by heaptape ctl"); break;
    default: snprintf(text, HT_STOP_TEXT_BYTES, "unknown reason %u", header->stop_reason);
    }
    return text;
}

bool ht_stopped_early(const struct ht_raw_header *header) {
    return header->state == HT_RAW_STOPPED && header->stop_reason != HT_STOP_CONTROL;
}

// ---- is it still written? ----

// 1 or 0, or -1 where the process cannot be read.
static int look_into_process(const struct ht_raw_log *log) {
    char line[4096 + 256];
    struct stat status;
    snprintf(line, sizeof line, "/proc/%" PRIu32 "/maps", log->header.pid);
    FILE *maps = fopen(line, "re");
    if (!maps) return -1;
    bool known = !fstat(log->fd, &status), found = false;
    while (known && !found && fgets(line, sizeof line, maps)) {
        unsigned major, minor;
        uint64_t inode;
        found = sscanf(line, "%*s %*s %*s %x:%x %" SCNu64, &major, &minor, &inode) == 3 &&
                inode == status.st_ino && makedev(major, minor) == status.st_dev;
    }
    fclose(maps);
    return known ? found : -1;
}

bool ht_raw_is_mapped(const struct ht_raw_log *log) { return look_into_process(log) > 0; }

// One that cannot be read, and exists, counts as having it mapped.
static bool seems_mapped(const struct ht_raw_log *log) {
    int mapped = look_into_process(log);
    return mapped < 0 ? !kill((pid_t)log->header.pid, 0) || errno != ESRCH : mapped > 0;
}

// When a process opens the file for writing while we hold the lease, the kernel sends us a signal: SIGIO,
// which would end us, unless another is chosen. SIGURG is ignored by default, whichever thread it comes to.
static bool take_lease(int fd) { return !fcntl(fd, F_SETSIG, SIGURG) && !fcntl(fd, F_SETLEASE, F_RDLCK); }

bool ht_raw_in_use(const struct ht_raw_log *log) {
    // A read lease is granted only where nobody has the file open, or mapped, for writing.
    int fd = open(log->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return seems_mapped(log);
    bool granted = take_lease(fd);
    bool refused = !granted && errno == EAGAIN;
    if (granted) fcntl(fd, F_SETLEASE, F_UNLCK);
    close(fd);
    return granted ? false : refused || seems_mapped(log);
}

// ---- holes ----

int consumed_log_check(const struct ht_raw_log *log, struct ht_error *error) {
    char consumer[HT_RAW_CONSUMER_BYTES], state[HT_RAW_CONSUMER_BYTES + 16];
    if (!ht_raw_consumer(log, consumer)) return 0;
    snprintf(state, sizeof state, "%s.state", consumer);
    if (access(state, F_OK))
        return ht_error_input(error, log->path, 12,
                              "expected a whole log, found one with holes: its trace is %s", consumer);
    return ht_error_input(error, log->path, 12,
                          "expected a whole log, found one with holes: heaptape convert --follow %s -o %s "
                          "resumes from %s.partial",
                          log->path, consumer, consumer);
}

// The lock lies on the field that the follower writes its trace's path into. It is a read lock, because a
// follower does not keep the log open for writing (its program would seem to be alive), and says by that what
// a write lock would: a process that finds another's there ends. It belongs to the open file, so that it ends
// with its process, however that ends.
static const struct flock CONSUMER_FIELD = {.l_type = F_RDLCK,
                                            .l_whence = SEEK_SET,
                                            .l_start = HT_RAW_CONSUMER_OFFSET,
                                            .l_len = HT_RAW_CONSUMER_BYTES};

// Is the lock on the field another follower's? Locks of other places, as network file systems make of flock,
// are not.
static bool is_followed(int fd) {
    struct flock found = CONSUMER_FIELD;
    found.l_type = F_WRLCK;
    return !fcntl(fd, F_OFD_GETLK, &found) && found.l_type != F_UNLCK &&
           found.l_start == CONSUMER_FIELD.l_start && found.l_len == CONSUMER_FIELD.l_len;
}

// Followers that begin at once take turns by another lock, which a follower has while it punches holes and
// may be stopped with. A process that does not get it within a second continues without: at worst both refuse
// then. So it is where that lock wants a file that is open for writing, as on network file systems.
static bool take_turn(int fd) {
    for (int tries = 0; tries < 100 && !is_followed(fd); tries++) {
        if (!flock(fd, LOCK_EX | LOCK_NB)) return true;
        if (errno != EWOULDBLOCK && errno != EINTR) return false;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return false;
}

int consumed_log_lock(const struct ht_raw_log *log, bool *locked, struct ht_error *error) {
    struct flock lock = CONSUMER_FIELD;
    bool in_turn = take_turn(log->fd);
    *locked = !fcntl(log->fd, F_OFD_SETLK, &lock);
    bool followed = *locked && is_followed(log->fd);
    if (in_turn) flock(log->fd, LOCK_UN);
    if (!followed) return 0;
    lock.l_type = F_UNLCK;
    fcntl(log->fd, F_OFD_SETLK, &lock);
    errno = 0;
    return ht_error_system(error, log->path, "another process already follows this log");
}

// ---- the clock ----

#if defined(__x86_64__)
static uint64_t counter(void) { return __builtin_ia32_rdtsc(); }
enum { COUNTER_KIND = HT_CLOCK_TSC };
#elif defined(__aarch64__)
static uint64_t counter(void) {
    uint64_t value;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
    return value;
}
enum { COUNTER_KIND = HT_CLOCK_CNTVCT };
#else
static uint64_t counter(void) { return ht_now_ns(CLOCK_MONOTONIC); }
enum { COUNTER_KIND = HT_CLOCK_GETTIME };
#endif

bool log_clock_is_here(const struct ht_raw_log *log) {
    return log->header.clock_kind == COUNTER_KIND || log->header.clock_kind == HT_CLOCK_GETTIME;
}

uint64_t log_clock_now(const struct ht_raw_log *log) {
    uint64_t now = log->header.clock_kind == HT_CLOCK_GETTIME ? ht_now_ns(CLOCK_MONOTONIC) : counter();
    return now >> log->header.clock_shift;
}

// A preemption between two readings would bend the rate: the tightest of a few is kept.
struct ht_clock_pair log_clock_pair(const struct ht_raw_log *log) {
    struct ht_clock_pair best = {0};
    uint64_t best_width = UINT64_MAX;
    for (unsigned i = 0; i < 8; i++) {
        uint64_t before = log_clock_now(log), ns = ht_now_ns(CLOCK_MONOTONIC),
                 width = log_clock_now(log) - before;
        if (width >= best_width) continue;
        best_width = width;
        best = (struct ht_clock_pair){.stamp = before + width / 2, .mono_ns = ns};
    }
    return best;
}
