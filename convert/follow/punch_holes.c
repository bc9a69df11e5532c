// SPDX-License-Identifier: Apache-2.0
#include "punch_holes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { BEYOND_BYTES = 1 << 20, OPEN_BYTES_MIN = 64 << 10 };

static bool punch(int fd, uint64_t offset, uint64_t bytes) {
    return !fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes);
}

// A plain reader would pass over a hole as if nothing had ever been there: the log's header must have it
// first.
static bool announce(struct hole_punch *holes, int fd) {
    uint32_t features = holes->log->header.features | HT_RAW_FEATURE_CONSUMED;
    holes->announced = pwrite(fd, holes->trace, sizeof holes->trace, HT_RAW_CONSUMER_OFFSET) ==
                           (ssize_t)sizeof holes->trace &&
                       pwrite(fd, &features, sizeof features, offsetof(struct ht_raw_header, features)) ==
                           (ssize_t)sizeof features;
    return holes->announced;
}

// Chunks before the one that the merge is at. Nobody writes to them again.
static bool punch_closed(struct hole_punch *holes, int fd, struct live_stream *known, uint64_t at) {
    struct log_ranges kept = {0};
    bool done = true;
    for (size_t i = 0; i < known->closed.count; i++) {
        struct log_range range = known->closed.range[i];
        uint64_t end = range.offset + range.bytes, until = end < at || known->over ? end : at;
        if (done && until > range.offset) {
            done = punch(fd, range.offset, until - range.offset);
            if (done) holes->bytes += until - range.offset;
        }
        if (!done || until < range.offset) until = range.offset;
        if (end > until) done &= log_ranges_add(&kept, until, end - until);
    }
    free(known->closed.range);
    known->closed = kept;
    return done;
}

// The program writes to an open chunk's first page again, when it closes it, and behind its last record. The
// pages between are done with.
static bool punch_open(struct hole_punch *holes, int fd, struct live_stream *known,
                       const struct stream_place *place) {
    if (known->over || place->chunk != known->trusted.chunk) return true;
    uint32_t end = place->at / HT_CHUNK_ALIGN * HT_CHUNK_ALIGN, from = known->punched_end;
    if (from < HT_CHUNK_ALIGN) from = HT_CHUNK_ALIGN;
    if (end < from + OPEN_BYTES_MIN) return true;
    if (!punch(fd, place->chunk + from, end - from)) return false;
    holes->bytes += end - from;
    known->punched_end = end;
    return true;
}

static bool punch_all(struct hole_punch *holes, int fd, struct live_streams *live) {
    for (uint32_t i = 0; i < live->streams->count; i++) {
        struct live_stream *known = &live->stream[i];
        if (!known->known) continue;
        struct stream_place needed = live_stream_needed(live, i);
        if (!punch_closed(holes, fd, known, needed.chunk) || !punch_open(holes, fd, known, &needed))
            return false;
    }
    return true;
}

static int punch_by(struct hole_punch *holes, int fd, struct live_streams *live, struct ht_error *error) {
    int status = 0;
    if (!holes->announced && !punch(fd, holes->log->file_bytes + BEYOND_BYTES, HT_CHUNK_ALIGN)) {
        holes->impossible = true;
        if (errno != EOPNOTSUPP && errno != ENOSYS)
            status = ht_error_system(error, holes->log->path, "cannot punch holes");
    } else if (!holes->announced && (!announce(holes, fd) || fdatasync(fd))) {
        status = ht_error_system(error, holes->log->path, "cannot mark the log as punched");
    } else if (!punch_all(holes, fd, live)) {
        status = ht_error_system(error, holes->log->path, "cannot punch holes");
    }
    return status;
}

// Opened anew each time: as long as anybody has it open for writing, its program seems to be alive. The lock shows others
// that it is only us.
static int open_locked(const struct ht_raw_log *log) {
    flock(log->fd, LOCK_EX);
    return ht_raw_open_for_writing(log);
}

static void close_locked(const struct ht_raw_log *log, int fd) {
    if (fd >= 0) close(fd);
    flock(log->fd, LOCK_UN);
}

int punch_holes(struct hole_punch *holes, struct live_streams *live, struct ht_error *error) {
    if (holes->impossible) return 0;
    int fd = open_locked(holes->log);
    int status = fd < 0 ? ht_error_system(error, holes->log->path, "cannot punch holes")
                        : punch_by(holes, fd, live, error);
    close_locked(holes->log, fd);
    return status;
}

bool punch_all_but_header(struct hole_punch *holes) {
    const struct ht_raw_log *log = holes->log;
    if (holes->impossible) return false;
    int fd = open_locked(log);
    // The file keeps its length, by which readers tell a log that was cut off.
    bool done = fd >= 0 && (holes->announced || announce(holes, fd)) &&
                punch(fd, log->header.header_bytes, log->file_bytes);
    close_locked(log, fd);
    return done;
}

bool punch_holes_under_way(const struct ht_raw_log *log) {
    return flock(log->fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
}
