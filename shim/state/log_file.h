// SPDX-License-Identifier: Apache-2.0
// The log file of one process or phase: a sparse file mapped once, with no descriptor kept. Chunks are
// handed out by one atomic addition and made real before they are written, so that a full disk ends the
// recording instead of killing the program.
#ifndef HEAPTAPE_LOG_FILE_H
#define HEAPTAPE_LOG_FILE_H

#include "state.h"

enum {
    LOG_WRITABLE_STEP_BYTES = 4 << 20,
    // Room left in the file for the calls of threads that are about to notice a pause, or that a seal is off.
    LOG_PHASE_TAIL_BYTES = 256 << 10
};

// Creates and maps a new log of the process in the folder; NULL if that cannot be. Its header is not written
// yet. Nothing is ever overwritten: an exec in the same pid, or an old pid, gets the next free sequence
// number from the one given on.
// One on a file system that is unfit for mapping is refused, unless any folder will do: its header lies in
// memory, is to be filled in all the same, and then goes to log_refuse().
HIDDEN struct recording *log_create(const char *directory, uint32_t pid, uint32_t sequence,
                                    uint64_t bytes_max, bool any_folder);
// Leaves a log that is a header, which holds the reason why there is no more.
HIDDEN void log_refuse(struct recording *recording);

// Gives the file blocks (or pages) for [offset, offset + bytes), which is to be the caller's alone: what is there is
// lost. 0, or the errno of the reason why not.
HIDDEN int log_make_real(struct recording *recording, uint64_t offset, uint64_t bytes);

// May a log that lies in memory grow so far? What it takes, the program cannot have.
HIDDEN bool log_has_room_in_memory(struct recording *recording, uint64_t end);

// Makes up to `bytes` behind the last chunk real in advance, by as little work as the file system allows.
HIDDEN void log_prepare_ahead(struct recording *recording, uint64_t bytes);

// The written pages stay in the file and leave the program's resident set.
HIDDEN void log_release_pages(struct ht_raw_chunk *chunk);

// The log's file is not opened any more by its name, only by what is mapped of it: the program watches files, in its folder
// too perhaps, and would be told of it. Where it would even be asked, and waited for, no other log begins.
HIDDEN void log_stays_closed(bool is_asked);

// Says in the log's context, as `out_of_reach`, what has put its file out of the process's reach, if it is: then processes that
// it starts can have no logs.
HIDDEN void log_note_if_out_of_reach(struct recording *recording, const char *by);

// Cuts the sparse file, and its mapping, `room` bytes behind the last chunk. Only at an orderly end.
HIDDEN void log_shorten(struct recording *recording, uint64_t room);

// Cuts the file alone: destructors and other threads may have more calls to make than there is room for.
HIDDEN void log_shorten_at_exit(struct recording *recording, uint64_t room);
// For those the file grows again, by a chunk that ends there. 0, or the errno of the reason why not: EFBIG of a limit.
HIDDEN int log_grow_after_exit(struct recording *recording, uint64_t offset, uint64_t bytes);

// Gives up the address space beyond `room` bytes behind the last chunk, or beyond what is real.
HIDDEN void log_shrink_mapping(struct recording *recording, uint64_t room);
HIDDEN void log_shrink_to_real(struct recording *recording);
// Has it again, up to `bytes` where that can be, and gives the file system back what was prepared beyond `room` bytes behind
// the last chunk. Where the program has taken the address space meanwhile, or the file, what was prepared stays.
HIDDEN void log_end_preparation(struct recording *recording, uint64_t bytes, uint64_t room);

// For a forked child whose interrupted hooks are still to return: memory to scribble on where the parent's
// header and chunk were.
HIDDEN void log_replace_in_child(struct recording *recording, void *start, void *end);

// How a log ends before the process does: where it may not grow, by `heaptape ctl`, or for good.
// How far the process has come, and whether it waits to be recorded, which a forked child goes by.
extern HIDDEN enum disposition { UNDECIDED, STARTING, RECORDS, NEVER } _Atomic recorder_disposition;
extern HIDDEN _Atomic bool recorder_paused;

HIDDEN void set_epoch(uint32_t epoch);

// Ends this log; the reason goes into the header. EPOCH_PAUSED afterwards if another may follow, else
// EPOCH_OFF.
HIDDEN void log_end(struct recording *recording, enum ht_stop_reason reason, int error_number,
                    enum epoch next);
// Obeys the header's control word, if it asks for something.
HIDDEN void log_heed_control(struct recording *recording);
// No recording any more in this process and its children.
HIDDEN void log_give_up(enum ht_stop_reason reason);

#endif
