// The log file of one process or phase: a sparse file mapped once, with no descriptor kept. Windows are
// handed out by one atomic addition and made real before they are written, so that a full disk ends the
// recording instead of killing the program.
#ifndef HEAPTAPE_LOG_FILE_H
#define HEAPTAPE_LOG_FILE_H

#include "recorder.h"

struct recording {
    struct ht_raw_header *header;     // start of the mapping
    _Atomic uint64_t reserve_bytes;   // windows end before this; lowered at the end
    _Atomic uint64_t writable_bytes;  // the mapping may be written up to here
    _Atomic uint64_t real_bytes;      // sealed: windows end before this too, because no more can be made real
    _Atomic uint64_t sample_last_stamp, peak_last_stamp;    // when memory was sampled, looked at for a peak
    _Atomic uint64_t sample_step_bytes;                     // what was to be allocated until the last
    _Atomic uint64_t sample_last_bytes, sample_peak_bytes;  // RssAnon of the last sample, and of the highest
    bool refused, in_memory;
    _Atomic uint64_t memory_end;  // of a log in memory: how far it may grow before memory is asked for
    _Atomic bool pair_taken;  // a thread writes a clock pair into the header
    _Atomic uint64_t most_resident_bytes;                   // when it was last looked at for a peak
    uint64_t device, inode;
    uint32_t epoch, pid, sequence;
    struct ht_window *_Atomic ended_window;  // of the thread that ended last
    uint32_t main_stream;                    // the main thread's, plus one
    char path[4096];
};

// Creates and maps a new log of the process in the folder; NULL if that can't be. Its header is not written
// yet. Nothing is ever overwritten: an exec in the same pid, or an old pid, gets the next free sequence
// number from the one given on.
// One on a file system that is unfit for mapping is refused, unless any folder will do: its header lies in
// memory, is to be filled in all the same, and then goes to log_refuse().
HIDDEN struct recording *log_create(const char *directory, uint32_t pid, uint32_t sequence,
                                    uint64_t bytes_max, bool any_folder);
// Leaves a log that is a header, which says why there is no more.
HIDDEN void log_refuse(struct recording *recording);

// Gives the file blocks (or pages) for [offset, offset + bytes). 0, or the errno that says why not.
HIDDEN int log_make_real(struct recording *recording, uint64_t offset, uint64_t bytes);

// May a log that lies in memory grow so far? What it takes, the program can't have.
HIDDEN bool log_has_memory(struct recording *recording, uint64_t end);

// Makes up to `bytes` behind the last window real in advance, by as little work as the file system allows.
HIDDEN void log_prepare_ahead(struct recording *recording, uint64_t bytes);

// The written pages stay in the file and leave the program's resident set.
HIDDEN void log_release_pages(struct ht_window *window);

// Cuts the sparse file, and its mapping, `room` bytes behind the last window. Only at an orderly end.
HIDDEN void log_shorten(struct recording *recording, uint64_t room);

// Gives up the address space beyond `room` bytes behind the last window.
HIDDEN void log_shrink_mapping(struct recording *recording, uint64_t room);

// For a forked child whose interrupted hooks are still to return: memory to scribble on where the parent's
// header and window were.
HIDDEN void log_replace_in_child(struct recording *recording, void *start, void *end);

#endif
