// SPDX-License-Identifier: Apache-2.0
// The file system that a folder's files lie in: under an overlay, the one that it writes to.
#ifndef HEAPTAPE_LOG_FOLDER_H
#define HEAPTAPE_LOG_FOLDER_H

#include <stdbool.h>
#include <sys/vfs.h>

#include "attributes.h"

// As statfs(). What an overlay writes to may not be seen from here, as in a container: then the overlay's own. Opens and
// closes a file; no two threads at once, the caller sees to that.
HIDDEN bool log_folder_status(const char *folder, struct statfs *status);

#endif
