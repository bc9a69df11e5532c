// SPDX-License-Identifier: Apache-2.0
// What the children of a process inherited, written by its log's follower, because the log itself will
// be gone: beside malloc-footprint.PID.mraw lies malloc-footprint.PID.forks (docs/reference/convert.md).
#ifndef HEAPTAPE_FORK_FILE_H
#define HEAPTAPE_FORK_FILE_H

#include "live_blocks.h"
#include "raw_reader.h"

struct fork_file;

// Opens the file of the followed log; what lies behind `keep_bytes` is dropped. NULL with error.
struct fork_file *fork_file_open(const struct ht_raw_log *log, uint64_t keep_bytes, struct ht_error *error);
uint64_t fork_file_bytes(const struct fork_file *file);
// The blocks that were live at the fork record of that stamp. Returns 0 or -1 with error.
int fork_file_put(struct fork_file *file, uint64_t stamp, const struct live_blocks *blocks,
                  struct ht_error *error);
// What has been noted is on the disk then. Returns 0 or -1 with error.
int fork_file_sync(const struct fork_file *file, struct ht_error *error);
// All fork records up to that stamp are in the file.
void fork_file_passed(struct fork_file *file, uint64_t stamp);
// No fork record will come any more. A file without any is removed; false then.
bool fork_file_finish(struct fork_file *file);
void fork_file_close(struct fork_file *file);

// The file that belongs to a log: its path with .forks for .mraw. False if it is too long.
bool fork_file_path(const char *raw, char *path, size_t room);

enum fork_file_answer {
    FORK_FILE_NONE,    // no such file, or it is of another run
    FORK_FILE_AHEAD,   // the follower has not come to the fork yet
    FORK_FILE_FOUND,   // blocks, to be freed by the caller
    FORK_FILE_LACKING  // it has passed the fork, and found no record of it
};
// What the child got from the parent whose log was at `parent_raw`. *passed_stamp: how far its follower is.
enum fork_file_answer fork_file_find(const char *parent_raw, const struct ht_raw_log *child,
                                     struct live_blocks *blocks, uint64_t *passed_stamp);

#endif
