// Starts, follows and ends the recording: the log file, its windows, forks and exits.
//
// The log is a sparse file mapped once, with no descriptor kept. Windows are handed out by one atomic
// addition and made real before they are written, so that a full disk ends the recording instead of killing
// the program.
#include "recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

extern char **environ;

enum {
    WINDOW_BYTES_FIRST = 4096,      // what a short-lived thread costs
    WINDOW_BYTES_LAST = 256 << 10,  // about 0.1 ms of the kernel's work at once
    WRITABLE_STEP_BYTES = 4 << 20,
    TAIL_BYTES = 16 << 20,  // room left in the file for calls made after our destructor
    EPOCH_NOT_STARTED = 0x80000001u
};
static const uint64_t RESERVE_BYTES_MAX = UINT64_C(256) << 30, RESERVE_BYTES_MIN = UINT64_C(1) << 20;

// Before the start the page is this one, whose epoch no gate equals.
static struct epoch_page page_before_start = {EPOCH_NOT_STARTED};
struct epoch_page *epoch_page = &page_before_start;
__thread struct thread_state self __attribute__((tls_model("initial-exec"))) = {.gate = GATE_FRESH};
struct recording recording;

static atomic_flag starting = ATOMIC_FLAG_INIT;
static pthread_key_t end_key;
static bool end_key_made;
static _Atomic uint64_t fork_stamp;
static char directory[3072];

const char *environment(const char *name) {
    size_t length = strlen(name);
    for (char **variable = environ; variable && *variable; variable++)
        if (!strncmp(*variable, name, length) && (*variable)[length] == '=') return *variable + length + 1;
    return NULL;
}

// Where logs go, made absolute: children may change directory.
static bool choose_directory(void) {
    const char *wanted = environment("MALLOC_WRAP_OUT");
    if (!wanted || !*wanted) wanted = "/tmp";
    size_t used = 0;
    if (*wanted != '/') {
        if (!getcwd(directory, sizeof directory)) return false;
        used = strlen(directory);
        directory[used++] = '/';
    }
    size_t length = strlen(wanted);
    if (used + length >= sizeof directory) return false;
    memcpy(directory + used, wanted, length + 1);
    return true;
}

// A new file of this process; an exec in the same pid, or an old pid, never overwrites.
static int create_log(void) {
    recording.pid = (uint32_t)getpid();
    for (recording.sequence = 0; recording.sequence < 10000; recording.sequence++) {
        if (recording.sequence)
            snprintf(recording.path, sizeof recording.path, "%s/malloc-footprint.%u.%u.mraw", directory,
                     recording.pid, recording.sequence);
        else
            snprintf(recording.path, sizeof recording.path, "%s/malloc-footprint.%u.mraw", directory,
                     recording.pid);
        int fd = open(recording.path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0 || errno != EEXIST) return fd;
    }
    return -1;
}

static uint64_t reserve_limit(void) {
    struct rlimit limit;
    uint64_t bytes = RESERVE_BYTES_MAX;
    // Growing a file past RLIMIT_FSIZE would raise SIGXFSZ in the program.
    if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < bytes)
        bytes = limit.rlim_cur & ~(rlim_t)4095;
    // The address space is the program's; where it is limited we take a small part.
    if (!getrlimit(RLIMIT_AS, &limit) && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur / 16 < bytes)
        bytes = (limit.rlim_cur / 16) & ~(rlim_t)4095;
    return bytes;
}

static bool same_file(int fd) {
    struct stat status;
    return !fstat(fd, &status) && (uint64_t)status.st_dev == recording.device &&
           (uint64_t)status.st_ino == recording.inode;
}

// The file once more, by its name; -1 if that is no longer our file.
static int reopen_log(void) {
    int fd = open(recording.path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && !same_file(fd)) {
        close(fd);
        return -1;
    }
    return fd;
}

// The mapping is without access but for its used part: a program's mlockall must not fill in 256 GiB of it.
static int make_writable(uint64_t end) {
    uint64_t now = atomic_load(&recording.writable_bytes);
    if (end <= now) return 0;
    end = (end + WRITABLE_STEP_BYTES - 1) / WRITABLE_STEP_BYTES * WRITABLE_STEP_BYTES;
    if (end > recording.reserve_bytes) end = recording.reserve_bytes;
    if (mprotect((char *)recording.header + now, end - now, PROT_READ | PROT_WRITE)) return errno;
    // Threads may do this at once; all start from a part that is writable already.
    while (now < end && !atomic_compare_exchange_weak(&recording.writable_bytes, &now, end)) continue;
    return 0;
}

// Gives the file blocks (or pages) for [offset, offset + bytes). 0, or the errno that says why not.
static int make_real(uint64_t offset, uint64_t bytes) {
    char *at = (char *)recording.header + offset;
    int failed = make_writable(offset + bytes);
    if (failed) return failed;
    do failed = madvise(at, bytes, MADV_POPULATE_WRITE) ? errno : 0;
    while (failed == EINTR || failed == EAGAIN);
    if (failed != EINVAL) return failed == EFAULT ? ENOSPC : failed;
    int fd = reopen_log();  // Linux before 5.14
    if (fd < 0) return errno;
    failed = posix_fallocate(fd, (off_t)offset, (off_t)bytes);
    close(fd);
    return failed;
}

static bool map_log(int fd) {
    struct stat status;
    if (fstat(fd, &status)) return false;
    recording.device = (uint64_t)status.st_dev;
    recording.inode = (uint64_t)status.st_ino;
    void *mapping = MAP_FAILED;
    uint64_t bytes = reserve_limit();
    for (; bytes >= RESERVE_BYTES_MIN; bytes = (bytes / 2) & ~UINT64_C(4095)) {
        if (ftruncate(fd, (off_t)bytes)) continue;
        mapping = mmap(NULL, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
        if (mapping != MAP_FAILED) break;
    }
    if (mapping == MAP_FAILED) return false;
    madvise(mapping, bytes, MADV_DONTFORK);
    madvise(mapping, bytes, MADV_DONTDUMP);
    recording.header = mapping;
    recording.reserve_bytes = bytes;
    recording.writable_bytes = 0;
    if (!make_real(0, HT_RAW_HEADER_BYTES)) return true;
    munmap(mapping, bytes);
    return false;
}

static void write_header(uint32_t parent_pid, uint32_t parent_sequence, uint64_t forked_stamp) {
    struct ht_raw_header *header = recording.header;
    *header = (struct ht_raw_header){.version = HT_RAW_VERSION,
                                     .min_reader = HT_RAW_MIN_READER,
                                     .header_bytes = HT_RAW_HEADER_BYTES,
                                     .page_bytes = recording.page_bytes,
                                     .pid = recording.pid,
                                     .sequence = recording.sequence,
                                     .parent_pid = parent_pid,
                                     .parent_sequence = parent_sequence,
                                     .fork_stamp = forked_stamp,
                                     .clock_kind = CLOCK_KIND,
                                     .clock_shift = CLOCK_SHIFT,
                                     .windows_end = HT_RAW_HEADER_BYTES,
                                     .reserve_bytes = recording.reserve_bytes,
                                     .state = HT_RAW_RECORDING};
    header->start_realtime_ns = clock_realtime_ns();
    header->first_pair = clock_pair();
    // Written once: a forked child's loader lock may be held by a thread that exists no more.
    static char context[HT_RAW_HEADER_BYTES - HT_RAW_CONTEXT_OFFSET];
    static uint32_t context_bytes;
    if (!context_bytes) context_bytes = context_write(context, sizeof context);
    memcpy((char *)header + HT_RAW_CONTEXT_OFFSET, context, context_bytes);
    header->context_bytes = context_bytes;
    memcpy(header->magic, HT_RAW_MAGIC, sizeof header->magic);
}

// Makes this process's log and begins an epoch. The caller's gate is busy.
static bool open_recording(uint32_t parent_pid, uint32_t parent_sequence, uint64_t forked_stamp) {
    int fd = create_log();
    if (fd < 0) return false;
    bool mapped = map_log(fd);
    close(fd);
    if (!mapped) {
        unlink(recording.path);
        return false;
    }
    write_header(parent_pid, parent_sequence, forked_stamp);
    atomic_store(&recording.sample_last_stamp, 0);
    uint32_t epoch = atomic_load(&recording.epoch) + 1;
    atomic_store(&recording.epoch, epoch);
    atomic_store(&epoch_page->epoch, epoch);
    return true;
}

static void before_fork(void) {
    struct thread_state *t = &self;
    uint64_t stamp = stamp_now();
    atomic_store(&fork_stamp, stamp);
    if (t->gate != atomic_load(&epoch_page->epoch) || t->epoch != t->gate) return;
    t->gate = GATE_BUSY;
    if (recorder_room(t)) ht_append_long(&t->cursor, HT_LONG_FORK, &stamp, 1);
    t->gate = t->epoch;
}

// Kernels that can't wipe a page on fork leave the parent's epoch in it. Where another handler has allocated
// before this one, the child has its log already.
static void in_forked_child(void) {
    uint32_t epoch = atomic_load(&epoch_page->epoch);
    if ((uint32_t)getpid() != recording.pid && epoch != EPOCH_OFF && epoch != EPOCH_NOT_STARTED)
        atomic_store(&epoch_page->epoch, EPOCH_WIPED);
}

static void thread_ends(void *state) { recorder_thread_ends(state); }

// The first call of the process: everything is set up here, once.
static void start(void) {
    real_resolve();
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        atomic_store(&page_before_start.epoch, EPOCH_OFF);
        return;
    }
    struct epoch_page *fresh = page;
    madvise(page, 4096, MADV_WIPEONFORK);
    atomic_store(&fresh->epoch, EPOCH_OFF);
    // Another thread must not see the page before its epoch.
    __atomic_store_n(&epoch_page, fresh, __ATOMIC_RELEASE);
    // Our own programs, run from a shell that has LD_PRELOAD set, are not what the user wants to record.
    if (symbol_anywhere("heaptape_is_itself") || !choose_directory()) return;
    recording.page_bytes = (uint32_t)sysconf(_SC_PAGESIZE);
    memory_start();
    if (!open_recording(0, 0, 0)) return;
    end_key_made = pthread_key_create(&end_key, thread_ends) == 0;
    pthread_atfork(before_fork, NULL, in_forked_child);
}

static void start_in_child(void) {
    // The parent never recorded: the fork wiped that too.
    if (atomic_load(&recording.epoch) == 0) {
        atomic_store(&epoch_page->epoch, EPOCH_OFF);
        return;
    }
    uint32_t parent_pid = recording.pid, parent_sequence = recording.sequence;
    large_after_fork();
    memory_after_fork();
    if (!open_recording(parent_pid, parent_sequence, atomic_load(&fork_stamp)))
        atomic_store(&epoch_page->epoch, EPOCH_OFF);
}

static void open_stream(struct thread_state *t, uint32_t epoch) {
    t->epoch = epoch;
    t->windows = 0;
    t->window = NULL;
    t->calls = 0;
    t->cursor = (struct ht_cursor){.last_stamp = stamp_now()};
    t->limit = NULL;
    t->stream = __atomic_fetch_add(&recording.header->streams, 1, __ATOMIC_RELAXED);
    t->tid = (uint32_t)syscall(SYS_gettid);
    t->sample_budget_bytes = 1 << 20;
    t->sample_due_stamp = t->cursor.last_stamp + STAMPS_PER_S / 1000;
    if (end_key_made) pthread_setspecific(end_key, t);
}

bool recorder_enter_slowly(struct thread_state *t) {
    if (t->gate == GATE_BUSY) return false;
    uint32_t epoch = atomic_load_explicit(&epoch_page->epoch, memory_order_acquire);
    if (epoch == EPOCH_OFF) return false;
    int saved = errno;
    t->gate = GATE_BUSY;
    if (epoch == EPOCH_NOT_STARTED) {
        // Another thread may be at it; until it is done, our calls pass through unrecorded.
        if (!atomic_flag_test_and_set(&starting)) start();
    } else if (epoch == EPOCH_WIPED) {
        start_in_child();
    }
    epoch = atomic_load_explicit(&epoch_page->epoch, memory_order_acquire);
    bool on = epoch != EPOCH_OFF && epoch != EPOCH_NOT_STARTED && epoch != EPOCH_WIPED;
    if (on && t->epoch != epoch) open_stream(t, epoch);
    if (!on) t->gate = GATE_FRESH;
    errno = saved;
    return on;
}

bool recorder_next_window(struct thread_state *t) {
    int saved = errno;
    struct ht_raw_header *header = recording.header;
    uint64_t bytes = t->windows < 6 ? (uint64_t)WINDOW_BYTES_FIRST << t->windows : WINDOW_BYTES_LAST;
    bool done = false;
    // Stopped meanwhile by another thread: the mapping's end may be full or gone.
    if (atomic_load(&epoch_page->epoch) == t->epoch) {
        uint64_t offset = __atomic_fetch_add(&header->windows_end, bytes, __ATOMIC_SEQ_CST);
        int failed = 0;
        if (offset + bytes > recording.reserve_bytes) recorder_stop(HT_STOP_SIZE_LIMIT, 0);
        else if ((failed = make_real(offset, bytes))) recorder_stop(HT_STOP_NO_SPACE, failed);
        else {
            struct ht_window *window = (struct ht_window *)((char *)header + offset);
            *window = (struct ht_window){.stream = t->stream,
                                         .tid = t->tid,
                                         .index = t->windows,
                                         .bytes = bytes,
                                         .base_stamp = t->cursor.last_stamp,
                                         .base_address = t->cursor.last_address,
                                         .calls_before = t->calls};
            // The old window is closed only now: had this one failed, its calls would be counted from its
            // records.
            if (t->window) t->window->used = (uint32_t)(t->cursor.at - (uint8_t *)t->window);
            __atomic_store_n(&window->magic, HT_WINDOW_MAGIC, __ATOMIC_RELEASE);
            t->window = window;
            t->windows++;
            t->cursor.at = (uint8_t *)(window + 1);
            t->limit = (uint8_t *)window + bytes - HT_APPEND_ROOM_BYTES;
            done = true;
        }
    }
    if (!done) __atomic_fetch_add(&header->lost_calls, 1, __ATOMIC_RELAXED);
    errno = saved;
    return done;
}

void recorder_stop(enum ht_stop_reason reason, int error_number) {
    struct ht_raw_header *header = recording.header;
    uint32_t expected = recording.epoch;
    if (!atomic_compare_exchange_strong(&epoch_page->epoch, &expected, EPOCH_OFF)) return;
    header->stop_reason = reason;
    header->stop_errno = (uint32_t)error_number;
    header->stop_stamp = stamp_now();
    header->state = HT_RAW_STOPPED;
}

void recorder_thread_ends(struct thread_state *t) {
    if (t->gate != atomic_load(&epoch_page->epoch) || t->gate != t->epoch) return;
    t->gate = GATE_BUSY;
    int saved = errno;
    uint64_t word[3] = {stamp_now(), 0, 0};
    prctl(PR_GET_NAME, &word[1], 0, 0, 0);
    if (recorder_room(t)) ht_append_long(&t->cursor, HT_LONG_THREAD_END, word, 3);
    errno = saved;
    t->gate = t->epoch;
}

static void note_resident(void *context, const void *block, size_t bytes) {
    struct thread_state *t = context;
    uint64_t word[3] = {stamp_now(), (uint64_t)(uintptr_t)block, memory_resident_pages(block, bytes)};
    if (recorder_room(t)) ht_append_long(&t->cursor, HT_LONG_RESIDENT_AT_EXIT, word, 3);
}

// The file is sparse and as long as its reservation; a finished one ends soon after its last window.
static void shorten_log(void) {
    int fd = reopen_log();
    if (fd < 0) return;
    struct ht_raw_header *header = recording.header;
    uint64_t old_reserve = recording.reserve_bytes;
    uint64_t end = __atomic_load_n(&header->windows_end, __ATOMIC_SEQ_CST) + TAIL_BYTES;
    if (end < old_reserve) {
        // Other threads may be taking windows: they must see the new end before the file is cut, or not need
        // it.
        atomic_store(&recording.reserve_bytes, end);
        if (__atomic_load_n(&header->windows_end, __ATOMIC_SEQ_CST) > end)
            atomic_store(&recording.reserve_bytes, old_reserve);
        else if (!ftruncate(fd, (off_t)end)) header->reserve_bytes = end;
    }
    close(fd);
}

__attribute__((destructor)) void recorder_at_exit(void) {
    struct thread_state *t = &self;
    uint32_t epoch = atomic_load(&epoch_page->epoch);
    if (t->gate == GATE_BUSY || epoch != recording.epoch || t->epoch != epoch) return;
    t->gate = GATE_BUSY;
    int saved = errno;
    uint64_t stamp = stamp_now();
    memory_sample(t, stamp, true);
    large_each(note_resident, t);
    stamp = stamp_now();
    if (recorder_room(t)) ht_append_long(&t->cursor, HT_LONG_EXIT, &stamp, 1);
    if (recording.header->state == HT_RAW_RECORDING) recording.header->state = HT_RAW_EXITED;
    shorten_log();
    errno = saved;
    t->gate = t->epoch;
}
