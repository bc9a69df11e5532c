// SPDX-License-Identifier: Apache-2.0
// What the environment asks of the recorder, read once at the start.
#ifndef HEAPTAPE_SETTINGS_H
#define HEAPTAPE_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/vfs.h>

#include "attributes.h"

struct settings {
    char directory[3072];            // $MALLOC_WRAP_OUT, absolute, or the default
    uint64_t log_bytes_max;          // $MALLOC_WRAP_MAX_BYTES
    bool any_folder;                 // $MALLOC_WRAP_ANY_FOLDER is 1
    bool is_of_run;                  // $MALLOC_WRAP_RUN: heaptape record has started it, and may be there
    bool starts_paused;              // $MALLOC_WRAP_START is "paused" or a number of seconds
    _Atomic uint64_t start_mono_ns;  // then recording begins by itself; 0: not by itself
    uint32_t page_bytes;
    uint32_t site_frames;  // $MALLOC_WRAP_SITES: so many frames of each call site; 0: none
    bool lacks_sites;      // which cannot be had: libc has no _dl_find_object
    char ignored[96];      // names of those of the above whose values mean nothing, separated by spaces
};
extern HIDDEN struct settings settings;

// False if this process is not to be recorded: $MALLOC_WRAP_ONLY does not name it, the folder is unusable, or the program has
// other rights than who started it (set-user-id), who must not say where it writes.
HIDDEN bool settings_read(void);

// The environment is not read yet when the first memory is mapped.
HIDDEN void settings_find_page_bytes(void);

// True once the delay before the start has passed. Cheap enough for every call of a waiting process.
HIDDEN bool settings_delay_is_over(void);

// A variable of the environment. The program may have replaced getenv (bash does). NULL where the program has other rights than
// who started it: the variables are that one's.
HIDDEN const char *environment(const char *name);

// Does what statfs() does, for the file system that a folder's files lie in: under an overlay, the one that it writes to. That
// may not be seen from here, as in a container: then it is the overlay's own. Opens and closes a file; no two threads at once,
// the caller sees to that.
HIDDEN bool log_folder_status(const char *folder, struct statfs *status);

#endif
