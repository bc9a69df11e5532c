// SPDX-License-Identifier: Apache-2.0
#include "file_systems.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

int ht_folder_status(const char *folder, struct statfs *status) {
    struct stat place;
    struct statfs under;
    char *line = NULL, upper[PATH_MAX];
    size_t room = 0;
    bool found = false;
    if (statfs(folder, status)) return -1;
    if ((int)status->f_type != HT_OVERLAY || stat(folder, &place)) return 0;
    FILE *mounts = fopen("/proc/self/mountinfo", "re");
    while (mounts && !found && getline(&line, &room, mounts) > 0)
        found = overlay_upper_folder(line, major(place.st_dev), minor(place.st_dev), upper, sizeof upper);
    free(line);
    if (mounts) fclose(mounts);
    if (found && !statfs(upper, &under)) *status = under;
    return 0;
}
