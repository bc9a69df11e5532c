// SPDX-License-Identifier: Apache-2.0
#include "cut_log.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "raw_state.h"

void log_cut(const struct ht_raw_log *log) {
    struct ht_raw_header now;
    // The header is read again: the process may have written on until it went.
    if (ht_raw_in_use(log) || pread(log->fd, &now, sizeof now, 0) != sizeof now ||
        now.chunks_end >= log->file_bytes)
        return;
    int fd = ht_raw_open_for_writing(log);
    if (fd < 0) return;
    if (ftruncate(fd, (off_t)now.chunks_end)) { /* it stays sparse */
    }
    close(fd);
}

bool log_is_of_run(const struct ht_raw_log *log, const char *id) {
    const char *log_id = ht_raw_context(log, "run");
    return log_id && !strcmp(log_id, id);
}

bool log_has_name(const char *name) {
    static const char start[] = "malloc-footprint.", end[] = ".mraw";
    size_t length = strlen(name);
    return length >= sizeof start + sizeof end - 2 && !strncmp(name, start, sizeof start - 1) &&
           !strcmp(name + length - (sizeof end - 1), end);
}

void log_cut_if_ended(const struct ht_raw_log *log) {
    enum { WORTH_IT_BYTES = 64 << 10 };
    struct stat status;
    if (!fstat(log->fd, &status) &&
        (uint64_t)status.st_blocks * 512 > log->header.chunks_end + WORTH_IT_BYTES)
        log_cut(log);
}
