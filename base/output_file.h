// SPDX-License-Identifier: Apache-2.0
// A file that appears under its name only when it is complete.
#ifndef HEAPTAPE_OUTPUT_FILE_H
#define HEAPTAPE_OUTPUT_FILE_H

#include <signal.h>
#include <stdbool.h>

struct output_file {
    int fd;              // -1: none
    char *partial_path;  // where it is written; NULL for what is written as it is
    char *final_path;    // where it goes; behind a symbolic link, the file that the link names
};

// Opens a file beside the final one, which a signal that ends us removes. "-" is standard output; it, devices
// and pipes are written as they are. 0 or -1 with errno.
int output_file_open(struct output_file *file, const char *path);
// The same for what shows a program's heap, command and file names: only its owner may read it, whatever the umask.
enum { HT_PRIVATE_MODE = 0600 };
int output_file_open_private(struct output_file *file, const char *path);
// The same in a process whose own handlers of signals are to stay: a signal that ends it leaves what was begun.
int output_file_open_beside_handlers(struct output_file *file, const char *path);
// Whether that would succeed, to be asked before any work: changes nothing, and waits for no reader of a pipe. 0 or -1
// with errno.
int output_file_check(const char *path);
// Syncs, renames and closes. NULL, or what failed, with errno.
const char *output_file_finish(struct output_file *file);
// Closes what is open, removes what has not been finished, and forgets the names.
void output_file_abandon(struct output_file *file);

// A file without a name, where the user's temporary files go; in memory, where that folder has none. -1 with errno.
int temporary_file_open(void);

// Is that regular file, under any name, what would be replaced?
bool output_file_replaces(const char *output, const char *path);

// Is a file that was there before a regular one of ours that has no other name? In a folder where others may write
// too, a file to go on with may be theirs, or a second name of another file of ours.
bool output_file_is_own(int fd);

// ---- half an output is of no use to anybody: an interrupted process removes what it has begun ----

// SIGINT, SIGTERM and SIGHUP wait meanwhile: for a file that has its name only when it is there. The mask as
// it was is for let_signals: signals that were blocked before stay blocked.
sigset_t hold_signals(void);
void let_signals(sigset_t as_before);
// From now on they remove the file, which need not be there yet, and then end the process as they would have.
void remove_on_signal(const char *path);
// The file is complete or gone.
void keep_on_signal(const char *path);

#endif
