// SPDX-License-Identifier: Apache-2.0
// The file system that a folder's files lie in: under an overlay, the one that it writes to.
#ifndef HEAPTAPE_FOLDER_STATUS_H
#define HEAPTAPE_FOLDER_STATUS_H

#include <sys/vfs.h>

// As statfs(): 0, or -1 with errno. What an overlay writes to may not be seen from here, as in a container: then the
// overlay's own.
int ht_folder_status(const char *folder, struct statfs *status);

#endif
