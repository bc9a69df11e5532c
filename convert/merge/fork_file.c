// SPDX-License-Identifier: Apache-2.0
#include "fork_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "all_bytes.h"
#include "live_blocks.h"
#include "output_file.h"

#define FORK_FILE_MAGIC "HTAPEFRK"
enum { VERSION = 3, RUN_BYTES = 64 };

struct head {
    char magic[8];
    uint32_t version;
    uint32_t pid, sequence;
    uint32_t clock_kind, clock_shift;
    uint32_t zero;
    uint64_t first_stamp;
    uint64_t passed_stamp;
    char run[RUN_BYTES];
};
static_assert(sizeof(struct head) == 112, "fork file");

struct fork_file {
    char *path;
    int fd;
    uint64_t bytes;
};

bool fork_file_path(const char *raw, char *path, size_t room) {
    size_t length = strlen(raw);
    if (length > 5 && !strcmp(raw + length - 5, ".mraw")) length -= 5;
    return (size_t)snprintf(path, room, "%.*s.forks", (int)length, raw) < room;
}

static struct head head_of(const struct ht_raw_log *log) {
    struct head head = {.version = VERSION,
                        .pid = log->header.pid,
                        .sequence = log->header.sequence,
                        .clock_kind = log->header.clock_kind,
                        .clock_shift = log->header.clock_shift,
                        .first_stamp = log->header.first_pair.stamp};
    memcpy(head.magic, FORK_FILE_MAGIC, sizeof head.magic);
    const char *run = ht_raw_context(log, "run");
    if (run) snprintf(head.run, sizeof head.run, "%s", run);
    return head;
}

// The file that an earlier follower of the log has left. -1: there is none. Logs lie in folders like /tmp,
// where others may have put something by that name.
static int open_kept(const char *path, const struct head *head, uint64_t keep_bytes) {
    struct head there;
    struct stat status;
    if (keep_bytes < sizeof there) return -1;
    int fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return -1;
    if (output_file_is_own(fd) && !fstat(fd, &status) && (uint64_t)status.st_size >= keep_bytes &&
        ht_read_at(fd, &there, sizeof there, 0) && there.first_stamp == head->first_stamp &&
        there.pid == head->pid)
        return fd;
    close(fd);
    return -1;
}

// What lies there under the name goes, if it may; nothing that it leads to is touched.
static int create(const char *path) {
    unlink(path);
    return open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, HT_PRIVATE_MODE);
}

struct fork_file *fork_file_open(const struct ht_raw_log *log, uint64_t keep_bytes, struct ht_error *error) {
    char path[4096];
    struct head head = head_of(log);
    struct fork_file *file = calloc(1, sizeof *file);
    if (!file || !fork_file_path(log->path, path, sizeof path)) {
        free(file);
        errno = file ? ENAMETOOLONG : ENOMEM;
        ht_error_system(error, log->path, "cannot save what its children inherit");
        return NULL;
    }
    file->path = strdup(path);
    file->fd = open_kept(path, &head, keep_bytes);
    file->bytes = file->fd >= 0 ? keep_bytes : sizeof head;
    if (file->fd < 0) file->fd = create(path);
    // A head that was kept says what had been passed, which is to come again.
    if (file->path && file->fd >= 0 && ht_write_at(file->fd, &head, sizeof head, 0) &&
        !ftruncate(file->fd, (off_t)file->bytes))
        return file;
    ht_error_system(error, path, "cannot write");
    fork_file_close(file);
    return NULL;
}

uint64_t fork_file_bytes(const struct fork_file *file) { return file->bytes; }

int fork_file_put(struct fork_file *file, uint64_t stamp, const struct live_blocks *blocks,
                  struct ht_error *error) {
    return block_store_put(file->fd, stamp, blocks, &file->bytes)
               ? 0
               : ht_error_system(error, file->path, "cannot save what a child inherits");
}

int fork_file_sync(const struct fork_file *file, struct ht_error *error) {
    return fdatasync(file->fd) ? ht_error_system(error, file->path, "cannot sync") : 0;
}

void fork_file_passed(struct fork_file *file, uint64_t stamp) {
    // Nothing is lost by a failure: the waiting process gives up after a while.
    ht_write_at(file->fd, &stamp, sizeof stamp, offsetof(struct head, passed_stamp));
}

bool fork_file_finish(struct fork_file *file) {
    fork_file_passed(file, UINT64_MAX);
    bool has_entries = file->bytes > sizeof(struct head);
    if (!has_entries) unlink(file->path);
    return has_entries;
}

void fork_file_close(struct fork_file *file) {
    if (!file) return;
    if (file->fd >= 0) close(file->fd);
    free(file->path);
    free(file);
}

static bool is_parents(const struct head *head, const struct ht_raw_log *child) {
    const struct ht_raw_header *wanted = &child->header;
    const char *run = ht_raw_context(child, "run");
    return !memcmp(head->magic, FORK_FILE_MAGIC, sizeof head->magic) && head->version == VERSION &&
           head->pid == wanted->parent_pid && head->sequence == wanted->parent_sequence &&
           head->clock_kind == wanted->clock_kind && head->clock_shift == wanted->clock_shift &&
           head->first_stamp <= wanted->fork_stamp && memchr(head->run, 0, sizeof head->run) &&
           (!run || !*head->run || !strcmp(run, head->run));
}

// The file has to belong to the user who reads it, or to the log's: in folders like /tmp others may have put something by that
// name.
static bool is_trusted(const struct stat *file, const struct ht_raw_log *child) {
    struct stat log;
    return S_ISREG(file->st_mode) &&
           (file->st_uid == geteuid() || (!fstat(child->fd, &log) && log.st_uid == file->st_uid));
}

enum fork_file_answer fork_file_find(const char *parent_raw, const struct ht_raw_log *child,
                                     struct live_blocks *blocks, uint64_t *passed_stamp) {
    enum fork_file_answer answer = FORK_FILE_NONE;
    char path[4096];
    struct head head;
    struct stat status;
    *blocks = (struct live_blocks){0};
    int fd = fork_file_path(parent_raw, path, sizeof path)
                 ? open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
                 : -1;
    if (fd < 0) return answer;
    // The head is read first: what it says has been passed lies within the size that is asked then.
    if (!fstat(fd, &status) && is_trusted(&status, child) && ht_read_at(fd, &head, sizeof head, 0) &&
        !fstat(fd, &status) && is_parents(&head, child)) {
        *passed_stamp = head.passed_stamp;
        answer = head.passed_stamp >= child->header.fork_stamp ? FORK_FILE_LACKING : FORK_FILE_AHEAD;
        uint64_t at = sizeof head, end = (uint64_t)status.st_size;
        struct block_entry entry;
        while (at + sizeof entry <= end && ht_read_at(fd, &entry, sizeof entry, at) && entry.stored_bytes &&
               entry.stored_bytes <= end - at - sizeof entry) {
            if (entry.stamp == child->header.fork_stamp && entry.blocks < UINT64_C(1) << 40 &&
                entry.site_bytes < UINT64_C(1) << 40) {
                if (block_store_read(fd, &entry, at + sizeof entry, blocks)) answer = FORK_FILE_FOUND;
                break;
            }
            at += sizeof entry + entry.stored_bytes;
        }
    }
    close(fd);
    return answer;
}
