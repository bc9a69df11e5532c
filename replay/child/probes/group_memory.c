// SPDX-License-Identifier: Apache-2.0
#include "group_memory.h"

#include <string.h>
#include <unistd.h>

#include "allocator.h"

// In lines of NAME BYTES.
static uint64_t bytes_after(const char *text, const char *name) {
    size_t length = strlen(name);
    for (const char *at = text; at; at = (at = strchr(at, '\n')) ? at + 1 : NULL) {
        uint64_t bytes = 0;
        if (strncmp(at, name, length) != 0 || at[length] != ' ') continue;
        for (at += length + 1; *at >= '0' && *at <= '9'; at++) bytes = bytes * 10 + (uint64_t)(*at - '0');
        return bytes;
    }
    return HT_FIGURE_UNKNOWN;
}

uint64_t ht_group_held_bytes(int stat_fd) {
    char text[8192];
    ssize_t got = pread(stat_fd, text, sizeof text - 1, 0);
    text[got > 0 ? got : 0] = 0;
    // Version 2, then version 1, which has that name for anonymous memory.
    uint64_t anon = bytes_after(text, "anon"), shared = bytes_after(text, "shmem");
    if (anon == HT_FIGURE_UNKNOWN) anon = bytes_after(text, "rss");
    return anon == HT_FIGURE_UNKNOWN || shared == HT_FIGURE_UNKNOWN ? HT_FIGURE_UNKNOWN : anon + shared;
}
