// Which file systems a log may be mapped from.
#ifndef HEAPTAPE_FILE_SYSTEMS_H
#define HEAPTAPE_FILE_SYSTEMS_H

#include <stdbool.h>
#include <sys/vfs.h>

// A page that has been made real must stay so: where a later store may find the disk full, or the server gone,
// the kernel answers it with SIGBUS, which ends the program. NULL, or what kind of such a file system this is:
// "btrfs, which copies on write".
__attribute__((visibility("hidden"))) const char *file_system_unfit(const struct statfs *status);

// Are its files memory, which a limit of a control group counts?
__attribute__((visibility("hidden"))) bool file_system_in_memory(const struct statfs *status);

// Where logs go unless the user names a folder: in memory if they must not lie in the first.
#define LOG_FOLDER_FIRST  "/tmp"
#define LOG_FOLDER_SECOND "/dev/shm"

#endif
