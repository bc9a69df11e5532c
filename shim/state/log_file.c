// SPDX-License-Identifier: Apache-2.0
#include "log_file.h"

#include <errno.h>
#include <string.h>

#include "apart.h"
#include "clock.h"
#include "context.h"
#include "file_systems.h"
#include "memory_room.h"
#include "settings.h"
#include "sys.h"
#include "text.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum {
    SEQUENCE_MAX = 1000000,
    AT_ONCE_BYTES_MIN = 128 << 10,
    // This holds where the thread has to wait for one of ours meanwhile: none does so that makes some ten thousand calls.
    AT_ONCE_BYTES_MIN_APART = 512 << 10,
    // Some 10 us of the kernel's work, during which the program's other threads can map and protect nothing: one that
    // waited for longer would sleep, and a third one begin.
    POPULATE_BYTES_MAX = 32 << 10
};
static const uint64_t RESERVE_BYTES_MAX = UINT64_C(256) << 30, RESERVE_BYTES_MIN = UINT64_C(64) << 10,
                      SCARCE_BYTES_MAX = UINT64_C(1) << 30;

static void name_file(struct recording *recording, const char *directory, uint32_t sequence) {
    struct text path = {recording->path, recording->path + sizeof recording->path - 1};
    recording->sequence = sequence;
    text_string(&path, directory);
    text_string(&path, "/malloc-footprint.");
    text_number(&path, recording->pid);
    if (sequence) {
        text_char(&path, '.');
        text_number(&path, sequence);
    }
    text_string(&path, ".mraw");
    *path.at = 0;
}

static bool is_taken(struct recording *recording, const char *directory, uint32_t sequence) {
    struct stat status;
    if (sequence >= SEQUENCE_MAX) return false;
    name_file(recording, directory, sequence);
    return !sys_stat(recording->path, &status);
}

// The first free number behind a taken one, if the taken ones are without gaps: by steps that double, then by halves, so
// that a process that executes programs by the thousand asks a few times for each.
static uint32_t first_free(struct recording *recording, const char *directory, uint32_t taken) {
    uint32_t step = 1;
    while (is_taken(recording, directory, taken + step)) {
        taken += step;
        step *= 2;
    }
    while (step > 1) {
        step /= 2;
        if (is_taken(recording, directory, taken + step)) taken += step;
    }
    return taken + 1;
}

// An open descriptor, or an errno negated.
static int create_file(struct recording *recording, const char *directory, uint32_t sequence) {
    while (sequence < SEQUENCE_MAX) {
        name_file(recording, directory, sequence);
        int fd = sys_open(recording->path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        // The kernel has made a file before it asks whether it may be opened (landlock): of nobody else, or it would be EEXIST.
        if (fd == -EACCES) sys_unlink(recording->path);
        if (fd != -EEXIST) return fd;
        sequence = first_free(recording, directory, sequence);
    }
    return -EEXIST;
}

// The address space is the program's; where it is limited we take a small part.
static uint64_t space_for(uint64_t bytes) {
    enum { PART = 16 };
    uint64_t limit = sys_limit(RLIMIT_AS);
    if (limit != RLIM_INFINITY && limit / PART < bytes) bytes = limit / PART;
    return bytes & ~UINT64_C(4095);
}

static uint64_t reserve_limit(uint64_t bytes_max) {
    uint64_t bytes = bytes_max < RESERVE_BYTES_MAX ? bytes_max : RESERVE_BYTES_MAX;
    // Growing a file past RLIMIT_FSIZE would raise SIGXFSZ in the program.
    uint64_t file_limit = sys_limit(RLIMIT_FSIZE);
    return space_for(file_limit < bytes ? file_limit : bytes);
}

// These hold for this process and the children that it forks from then on (log_stays_closed).
static _Atomic bool files_are_watched, opens_are_asked_for;

void log_stays_closed(bool is_asked) {
    atomic_store(&files_are_watched, true);
    if (is_asked) atomic_store(&opens_are_asked_for, true);
}

// The file once more, by its name; an errno negated if that is no longer our file. What has its name now is opened without
// waiting, and never becomes the program's terminal.
static int reopen(const struct recording *recording) {
    struct stat status;
    if (files_are_watched) return -EBUSY;
    int fd = sys_open(recording->path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
    if (fd < 0) return fd;
    if (!sys_fstat(fd, &status) && (uint64_t)status.st_dev == recording->device &&
        (uint64_t)status.st_ino == recording->inode)
        return fd;
    sys_close(fd);
    return -ESTALE;
}

// The mapping is without access except its used part: a program's mlockall must not fill in 256 GiB of it.
static int make_writable(struct recording *recording, uint64_t end) {
    uint64_t now = atomic_load(&recording->writable_bytes);
    if (end <= now) return 0;
    end = (end + LOG_WRITABLE_STEP_BYTES - 1) / LOG_WRITABLE_STEP_BYTES * LOG_WRITABLE_STEP_BYTES;
    if (end > recording->reserve_bytes) end = recording->reserve_bytes;
    int failed = sys_mprotect((char *)recording->header + now, end - now, PROT_READ | PROT_WRITE);
    if (failed) return -failed;
    // Threads may do this at once; all start from a part that is writable already.
    while (now < end && !atomic_compare_exchange_weak(&recording->writable_bytes, &now, end)) continue;
    return 0;
}

// What is done to the file by a descriptor, apart from the program.
struct file_work {
    const struct recording *recording;
    uint64_t offset, bytes;
    int failed;
};

static void give_blocks_apart(void *argument) {
    struct file_work *work = argument;
    int fd = reopen(work->recording);
    work->failed = fd < 0 ? fd : sys_fallocate(fd, work->offset, work->bytes);
    if (fd >= 0) sys_close(fd);
}

// 0, or an errno.
static int give_blocks(const struct recording *recording, uint64_t offset, uint64_t bytes) {
    struct file_work work = {recording, offset, bytes, 0};
    return run_apart(give_blocks_apart, &work, sizeof work) ? -work.failed : EAGAIN;
}

// Zeros by the system call that writes, not by the faults of a mapping: the kernel makes many pages at once, for a
// third of the work, and does not take huge pages that the machine must first find.
static void write_zeros_apart(void *argument) {
    enum { PIECE_BYTES = 4096, PIECES_MAX = 128 };
    static const char zeros[PIECE_BYTES];
    struct iovec piece[PIECES_MAX];
    for (unsigned i = 0; i < PIECES_MAX; i++) piece[i] = (struct iovec){(void *)zeros, PIECE_BYTES};
    struct file_work *work = argument;
    // To write past the limit would raise SIGXFSZ.
    int fd = sys_limit(RLIMIT_FSIZE) < work->offset + work->bytes ? -EFBIG : reopen(work->recording);
    work->failed = fd < 0 ? fd : 0;
    for (uint64_t done = 0; done < work->bytes && !work->failed;) {
        uint64_t left = (work->bytes - done) / PIECE_BYTES;
        long written =
            sys_pwritev(fd, piece, left < PIECES_MAX ? (int)left : PIECES_MAX, work->offset + done);
        // A part of a piece, after which the device is full: the fault says so.
        if (written < PIECE_BYTES) work->failed = written < 0 ? (int)written : -ENOSPC;
        else done += (uint64_t)written / PIECE_BYTES * PIECE_BYTES;
    }
    if (fd >= 0) sys_close(fd);
}

// The pages of a large chunk, in which nothing is written yet. Where the file cannot be opened once more, the kernel
// reads ahead instead, from then on: it makes 2 MiB of pages at the first fault.
static void make_pages_at_once(struct recording *recording, uint64_t offset, uint64_t bytes) {
    uint64_t bytes_min = apart_is_alone() ? AT_ONCE_BYTES_MIN : AT_ONCE_BYTES_MIN_APART;
    if (bytes < bytes_min || recording->reads_ahead || apart_must_not_wait()) return;
    struct file_work work = {recording, offset, bytes, 0};
    if (run_apart(write_zeros_apart, &work, sizeof work) && !work.failed) return;
    if (atomic_exchange(&recording->reads_ahead, true)) return;
    sys_madvise((char *)recording->header + offset, recording->reserve_bytes - offset, MADV_NORMAL);
}

// Populates by the mapping, which changes nothing that other threads may have written there. 0, or an errno.
static int populate(struct recording *recording, uint64_t offset, uint64_t bytes) {
    char *at = (char *)recording->header + offset;
    int failed = make_writable(recording, offset + bytes);
    if (failed) return failed;
    uint64_t faults = sys_faults_of_thread();
    uint64_t most = apart_is_alone() ? bytes : POPULATE_BYTES_MAX;
    for (uint64_t done = 0, piece; done < bytes && !failed; done += piece) {
        piece = bytes - done < most ? bytes - done : most;
        do failed = sys_madvise(at + done, piece, MADV_POPULATE_WRITE);
        while (failed == -EINTR || failed == -EAGAIN);
    }
    uint64_t faults_then = sys_faults_of_thread();
    if (faults != FAULTS_UNKNOWN && faults_then != FAULTS_UNKNOWN)
        atomic_fetch_add(&recording->log_faults, faults_then - faults);
    if (failed != -EINVAL) return failed == -EFAULT ? ENOSPC : -failed;
    return give_blocks(recording, offset, bytes);  // Linux before 5.14
}

int log_make_real(struct recording *recording, uint64_t offset, uint64_t bytes) {
    make_pages_at_once(recording, offset, bytes);
    return populate(recording, offset, bytes);
}

void log_prepare_ahead(struct recording *recording, uint64_t bytes) {
    uint64_t start = __atomic_load_n(&recording->header->chunks_end, __ATOMIC_SEQ_CST);
    uint64_t room = start < recording->reserve_bytes ? recording->reserve_bytes - start : 0;
    uint64_t end = 0;
    if (bytes > room) bytes = room;
    while (bytes >= HT_CHUNK_ALIGN && !log_has_room_in_memory(recording, start + bytes))
        bytes = (bytes / 2) & ~UINT64_C(4095);
    for (; bytes >= HT_CHUNK_ALIGN && !end; bytes = (bytes / 2) & ~UINT64_C(4095)) {
        if (give_blocks(recording, start, bytes) && populate(recording, start, bytes)) continue;
        if (!make_writable(recording, start + bytes)) end = start + bytes;
    }
    atomic_store(&recording->real_bytes, end);
}

void log_release_pages(struct ht_raw_chunk *chunk) {
    if (!recorder_may_call()) return;
    sys_madvise(chunk, chunk->bytes, MADV_DONTNEED);
    recorder_has_called();
}

static void ask_apart(void *argument) {
    uint64_t *room = argument;
    *room = memory_room_bytes("");
}

// A log in memory may grow up to a third of what it leaves at most. The program's needs change, so what is left is asked again
// now and then.
static uint64_t memory_share(void) {
    enum { PART = 3 };
    static _Atomic uint64_t known = UINT64_MAX;
    static _Atomic uint32_t asks;  // the process of which a thread asks; 0: none does
    uint32_t pid = sys_getpid(), other = asks;
    // Where it is another process, that is the parent of a fork, whose thread is not here.
    if (other != pid && !apart_must_not_wait() && atomic_compare_exchange_strong(&asks, &other, pid)) {
        uint64_t room = UINT64_MAX;
        if (run_apart(ask_apart, &room, sizeof room)) known = room;
        asks = 0;
    }
    return known / PART;
}

bool log_has_room_in_memory(struct recording *recording, uint64_t end) {
    enum { SHARE_UNASKED = 8, UNASKED_BYTES_MAX = 16 << 20 };
    if (!recording->in_memory || end <= recording->memory_end) return true;
    uint64_t share = memory_share();
    if (end > share) return false;
    uint64_t unasked = (share - end) / SHARE_UNASKED;
    recording->memory_end = end + (unasked < UNASKED_BYTES_MAX ? unasked : UNASKED_BYTES_MAX);
    return true;
}

static void advise(void *at, uint64_t bytes) {
    sys_madvise(at, bytes, MADV_DONTFORK);
    sys_madvise(at, bytes, MADV_DONTDUMP);
    // Without this the kernel reads ahead of every first touch, and fills 2 MiB with zeros in a millisecond or more.
    sys_madvise(at, bytes, MADV_RANDOM);
}

// An address space of which little is left (limited, or locked as a whole) is the program's: of that we take a part.
static uint64_t part_of_scarce(void *mapping, uint64_t bytes) {
    enum { PART = 16 };
    uint64_t part = (bytes / PART) & ~UINT64_C(65535);
    if (bytes > SCARCE_BYTES_MAX) return bytes;
    if (part < RESERVE_BYTES_MIN) part = RESERVE_BYTES_MIN;
    if (part < bytes) sys_munmap((char *)mapping + part, bytes - part);
    return part < bytes ? part : bytes;
}

static bool map(struct recording *recording, const char *directory, int fd, uint64_t bytes, bool any_folder) {
    struct stat status;
    if (sys_fstat(fd, &status)) return false;
    recording->device = (uint64_t)status.st_dev;
    recording->inode = (uint64_t)status.st_ino;
    struct statfs place;
    bool known = log_folder_status(directory, &place);
    recording->in_memory = known && file_system_in_memory(&place);
    if (!any_folder && known && file_system_unfit(&place)) {
        recording->refused = true;
        recording->reserve_bytes = HT_RAW_HEADER_BYTES;
        recording->header = sys_map_memory(HT_RAW_HEADER_BYTES);
        return recording->header;
    }
    void *mapping = NULL;
    bool scarce = false;
    for (; bytes >= RESERVE_BYTES_MIN && !mapping; bytes = (bytes / 2) & ~UINT64_C(4095)) {
        if (sys_ftruncate(fd, bytes)) continue;
        mapping = sys_mmap(NULL, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd);
        if (mapping && scarce) bytes = part_of_scarce(mapping, bytes);
        scarce = !mapping;
        recording->reserve_bytes = recording->real_bytes = bytes;
    }
    if (!mapping) return false;
    recording->header = mapping;
    advise(mapping, recording->reserve_bytes);
    if (!log_make_real(recording, 0, HT_RAW_HEADER_BYTES)) return true;
    sys_munmap(mapping, recording->reserve_bytes);
    return false;
}

struct recording *log_create(const char *directory, uint32_t pid, uint32_t sequence, uint64_t bytes_max,
                             bool any_folder) {
    if (opens_are_asked_for) return NULL;
    // Never unmapped: a thread may read it at any time.
    struct recording *recording = sys_map_memory(sizeof *recording);
    if (!recording) return NULL;
    recording->pid = pid;
    int fd = create_file(recording, directory, sequence);
    if (fd >= 0) {
        bool mapped = map(recording, directory, fd, reserve_limit(bytes_max), any_folder);
        sys_close(fd);
        if (mapped) return recording;
        sys_unlink(recording->path);
    }
    sys_munmap(recording, sizeof *recording);
    return NULL;
}

void log_refuse(struct recording *recording) {
    recording->header->state = HT_RAW_STOPPED;
    recording->header->stop_reason = HT_STOP_FOLDER;
    // Growing a file past RLIMIT_FSIZE would raise SIGXFSZ in the program.
    int fd = sys_limit(RLIMIT_FSIZE) < HT_RAW_HEADER_BYTES ? -EFBIG : reopen(recording);
    bool written =
        fd >= 0 && sys_pwrite(fd, recording->header, HT_RAW_HEADER_BYTES, 0) == HT_RAW_HEADER_BYTES;
    if (fd >= 0) sys_close(fd);
    if (!written) sys_unlink(recording->path);
    sys_munmap(recording->header, HT_RAW_HEADER_BYTES);
    sys_munmap(recording, sizeof *recording);
}

// Lowers the reservation to `room` behind the last chunk, unless a thread has already gone beyond. Threads that take a chunk
// see the new end before what lies behind it is given up, or did not need it. If several lower it at once, each gives up a part
// of its own: what is given up may be the program's already.
static bool lower_reserve(struct recording *recording, uint64_t room, uint64_t *old, uint64_t *end) {
    uint64_t *chunks_end = &recording->header->chunks_end;
    *old = recording->reserve_bytes;
    *end = __atomic_load_n(chunks_end, __ATOMIC_SEQ_CST) + room;
    uint64_t was = *old, lowered = *end;
    if (*end >= *old || !atomic_compare_exchange_strong(&recording->reserve_bytes, &was, *end)) return false;
    if (__atomic_load_n(chunks_end, __ATOMIC_SEQ_CST) <= *end) return true;
    atomic_compare_exchange_strong(&recording->reserve_bytes, &lowered, *old);
    return false;
}

void log_shrink_mapping(struct recording *recording, uint64_t room) {
    uint64_t old, end;
    if (lower_reserve(recording, room & ~UINT64_C(4095), &old, &end))
        sys_munmap((char *)recording->header + end, old - end);
}

void log_shrink_to_real(struct recording *recording) {
    uint64_t start = __atomic_load_n(&recording->header->chunks_end, __ATOMIC_SEQ_CST),
             end = recording->real_bytes;
    log_shrink_mapping(recording, end > start ? end - start : 0);
}

static void map_again_apart(void *argument) {
    struct file_work *work = argument;
    char *at = (char *)work->recording->header + work->offset;
    int fd = reopen(work->recording), flags = MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    work->failed = fd < 0 ? fd : 0;
    if (fd < 0) return;
    long mapped =
        raw_syscall(SYS_mmap, (long)at, (long)work->bytes, PROT_NONE, flags, fd, (long)work->offset);
    sys_close(fd);
    if (mapped == (long)at) return;
    work->failed = -ENOMEM;
    // A kernel that does not know the flag maps it elsewhere.
    if (mapped > 0 || mapped < -4095) sys_munmap((void *)mapped, work->bytes);
}

// Behind what is mapped, up to `end`. False: the program has taken the place, or the file cannot be opened.
static bool map_again(struct recording *recording, uint64_t end) {
    uint64_t now = recording->reserve_bytes, writable = recording->writable_bytes;
    char *at = (char *)recording->header + now;
    struct file_work work = {recording, now, end - now, 0};
    if (!run_apart(map_again_apart, &work, sizeof work) || work.failed) return false;
    advise(at, work.bytes);
    // That is noted as writable which was so before.
    if (writable > end) writable = end;
    return writable <= now || !sys_mprotect(at, writable - now, PROT_READ | PROT_WRITE);
}

void log_end_preparation(struct recording *recording, uint64_t bytes, uint64_t room) {
    uint64_t prepared = recording->reserve_bytes, end;
    bytes = bytes > prepared ? prepared + space_for(bytes - prepared) : prepared;
    if (bytes == prepared || !map_again(recording, bytes)) return;
    // Until more is given out again, the prepared room behind the end is ours alone.
    if (lower_reserve(recording, room, &prepared, &end))
        sys_madvise((char *)recording->header + end, prepared - end, MADV_REMOVE);
    atomic_store(&recording->reserve_bytes, bytes);
    atomic_store(&recording->real_bytes, bytes);
}

static void reopen_apart(void *argument) {
    struct file_work *work = argument;
    int fd = reopen(work->recording);
    work->failed = fd < 0 ? fd : 0;
    if (fd >= 0) sys_close(fd);
}

void log_note_if_out_of_reach(struct recording *recording, const char *by) {
    struct file_work work = {.recording = recording};
    struct text text;
    if (!run_apart(reopen_apart, &work, sizeof work) || work.failed != -EACCES ||
        !context_begin_string(recording->header, &text))
        return;
    text_string(&text, "out_of_reach=");
    text_string(&text, by);
    context_end_string(recording->header, &text, true);
}

static void truncate_apart(void *argument) {
    struct file_work *work = argument;
    int fd = reopen(work->recording);
    work->failed = fd < 0 ? fd : sys_ftruncate(fd, work->bytes);
    if (fd >= 0) sys_close(fd);
}

void log_shorten(struct recording *recording, uint64_t room) {
    uint64_t old = recording->reserve_bytes;
    log_shrink_mapping(recording, room);
    struct file_work work = {.recording = recording, .bytes = recording->reserve_bytes};
    if (work.bytes < old && !apart_must_not_wait() && run_apart(truncate_apart, &work, sizeof work) &&
        !work.failed)
        recording->header->reserve_bytes = work.bytes;
}

void log_shorten_at_exit(struct recording *recording, uint64_t room) {
    uint64_t old, end;
    if (!lower_reserve(recording, room & ~UINT64_C(4095), &old, &end)) return;
    recording->grows_to_bytes = old;
    struct file_work work = {.recording = recording, .bytes = end};
    if (run_apart(truncate_apart, &work, sizeof work) && !work.failed) recording->header->reserve_bytes = end;
    else atomic_compare_exchange_strong(&recording->reserve_bytes, &end, old);
}

// Blocks behind the file's end make it longer, whatever other threads give it meanwhile.
int log_grow_after_exit(struct recording *recording, uint64_t offset, uint64_t bytes) {
    uint64_t end = offset + bytes, now = recording->reserve_bytes;
    if (end > recording->grows_to_bytes || end > sys_limit(RLIMIT_FSIZE)) return EFBIG;
    int failed = give_blocks(recording, offset, bytes);
    if (failed) return failed;
    while (now < end && !atomic_compare_exchange_weak(&recording->reserve_bytes, &now, end)) continue;
    recording->header->reserve_bytes = recording->reserve_bytes;
    return 0;
}

void log_replace_in_child(struct recording *recording, void *start, void *end) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, access = PROT_READ | PROT_WRITE;
    sys_mmap(recording->header, HT_RAW_HEADER_BYTES, access, flags, -1);
    if (start) sys_mmap(start, (size_t)((char *)end - (char *)start), access, flags, -1);
}

// ---- the end before the process's ----

enum disposition _Atomic recorder_disposition;
_Atomic bool recorder_paused;

void set_epoch(uint32_t epoch) { atomic_store_explicit(&epoch_page.epoch, epoch, memory_order_release); }

// Gives up address space after the end: the program may limit it, or lock all that it has.
static void give_up_reserve(struct recording *recording) {
    if (!recorder_may_call()) return;
    // Another thread may be about to make the rest of its chunk's last step writable.
    log_shrink_mapping(recording, LOG_WRITABLE_STEP_BYTES);
    recorder_has_called();
}

void log_end(struct recording *recording, enum ht_stop_reason reason, int error_number, enum epoch next) {
    struct ht_raw_header *header = recording->header;
    uint32_t expected = recording->epoch;
    if (!atomic_compare_exchange_strong(&epoch_page.epoch, &expected, next)) return;
    atomic_store(&recorder_paused, next == EPOCH_PAUSED);
    header->stop_reason = reason;
    header->stop_errno = (uint32_t)error_number;
    header->stop_stamp = stamp_now();
    header->state = HT_RAW_STOPPED;
    if (next == EPOCH_OFF) give_up_reserve(recording);
}

void log_give_up(enum ht_stop_reason reason) {
    struct recording *recording = recorder_current();
    if (recorder_is_borrowed()) return;
    recorder_disposition = NEVER;
    if (!recording) return;
    log_end(recording, reason, 0, EPOCH_OFF);
    if (epoch_now() != EPOCH_PAUSED) return;
    recording->header->stop_reason = reason;
    recording->header->state = HT_RAW_STOPPED;
    set_epoch(EPOCH_OFF);
    give_up_reserve(recording);
}

void log_heed_control(struct recording *recording) {
    uint32_t wanted = __atomic_load_n(&recording->header->control, __ATOMIC_RELAXED);
    if (likely(wanted != HT_CONTROL_PAUSE && wanted != HT_CONTROL_STOP) || recorder_is_borrowed()) return;
    int saved = errno;
    if (wanted == HT_CONTROL_STOP) log_give_up(HT_STOP_CONTROL);
    else log_end(recording, HT_STOP_CONTROL, 0, EPOCH_PAUSED);
    if (recorder_may_call()) {
        log_shorten(recording, LOG_PHASE_TAIL_BYTES);
        recorder_has_called();
    }
    errno = saved;
}
