// SPDX-License-Identifier: Apache-2.0
#include "log_folder.h"

#include <string.h>

#include "file_systems.h"
#include "sys.h"

// A mount's line has all its options, which are a page at most: not on the stack, which may be small.
enum { LINE_ROOM = 16 << 10 };
static char text[LINE_ROOM + 1];
static char upper[4096];

// As the kernel packs a device's two numbers.
static unsigned major_of(uint64_t device) { return (unsigned)(device >> 8) & 0xfff; }
static unsigned minor_of(uint64_t device) {
    return (unsigned)(device & 0xff) | ((unsigned)(device >> 12) & 0xfff00);
}

// Looks for the overlay of that device in all whole lines of the text. Returns how much of the text they are.
static size_t look_in_lines(uint64_t device, bool *found) {
    char *line = text, *end;
    while (!*found && (end = strchr(line, '\n'))) {
        *end = 0;
        *found = overlay_upper_folder(line, major_of(device), minor_of(device), upper, sizeof upper);
        line = end + 1;
    }
    return (size_t)(line - text);
}

static bool find_upper_folder(uint64_t device) {
    int fd = sys_open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC, 0);
    size_t used = 0;
    long got = 0;
    bool found = false;
    while (fd >= 0 && !found && (got = sys_read(fd, text + used, LINE_ROOM - used)) > 0) {
        used += (size_t)got;
        text[used] = 0;
        size_t done = look_in_lines(device, &found);
        // A line that has no room is no overlay's that could be read.
        if (!done && used == LINE_ROOM) done = used;
        used -= done;
        memmove(text, text + done, used);
    }
    if (fd >= 0) sys_close(fd);
    return found;
}

bool log_folder_status(const char *folder, struct statfs *status) {
    struct stat place;
    struct statfs under;
    if (sys_statfs(folder, status)) return false;
    if ((int)status->f_type != HT_OVERLAY || sys_stat(folder, &place)) return true;
    if (find_upper_folder((uint64_t)place.st_dev) && !sys_statfs(upper, &under)) *status = under;
    return true;
}
