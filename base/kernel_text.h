// SPDX-License-Identifier: Apache-2.0
// What the files of /proc say of a process. Nothing here allocates, or calls what does: the measured child has it, too.
#ifndef HEAPTAPE_KERNEL_TEXT_H
#define HEAPTAPE_KERNEL_TEXT_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

// The bytes behind a key that ends with a colon, which the text has in KiB; "\nSwap:" is the key of a whole line. UINT64_MAX: there
// is no such key.
static inline uint64_t ht_kernel_bytes(const char *text, const char *key) {
    const char *at = strstr(text, key);
    uint64_t kib = 0;
    if (!at) return UINT64_MAX;
    at += strlen(key);
    while (*at == ' ') at++;
    while (*at >= '0' && *at <= '9') kib = kib * 10 + (uint64_t)(*at++ - '0');
    return kib * 1024;
}

// Reads the beginning of a file, and ends it as a text. Its length; -1 with errno.
static inline ssize_t ht_kernel_read(const char *path, char *text, size_t room) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, room - 1);
    int why = errno;
    if (fd >= 0) close(fd);
    text[got > 0 ? got : 0] = 0;
    errno = why;
    return got;
}

// The letter of the state in /proc/PID/stat, behind the name, which may have any characters, parentheses too. 0: there is none.
static inline char ht_kernel_state(const char *stat) {
    const char *name_end = strrchr(stat, ')');
    return name_end && name_end[1] == ' ' ? name_end[2] : 0;
}

// A mapping in /proc/PID/maps and smaps: "7f12…-7f13… rw-p 00000000 00:00 0    [heap]".
struct ht_kernel_mapping {
    uint64_t start, end, inode;
    char permissions[4];
    const char *name;  // the rest of the line
};

// What is mapped; the files of snapshots have these numbers.
enum ht_mapping_kind {
    HT_MAPPING_ANONYMOUS,
    HT_MAPPING_HEAP,   // of brk
    HT_MAPPING_STACK,  // of the initial thread
    HT_MAPPING_FILE,   // private, of a file
    HT_MAPPING_KINDS
};

static inline uint64_t ht_kernel_number(const char **at, unsigned base) {
    uint64_t value = 0;
    for (;; ++*at) {
        unsigned digit = **at >= '0' && **at <= '9'   ? (unsigned)(**at - '0')
                         : **at >= 'a' && **at <= 'f' ? (unsigned)(**at - 'a' + 10)
                                                      : base;
        if (digit >= base) return value;
        value = value * base + digit;
    }
}

// False: the line is another one.
static inline bool ht_kernel_mapping(const char *line, struct ht_kernel_mapping *mapping) {
    const char *at = line;
    mapping->start = ht_kernel_number(&at, 16);
    if (at == line || *at++ != '-') return false;
    mapping->end = ht_kernel_number(&at, 16);
    if (*at++ != ' ' || strnlen(at, sizeof mapping->permissions) < sizeof mapping->permissions) return false;
    memcpy(mapping->permissions, at, sizeof mapping->permissions);
    at += sizeof mapping->permissions;
    for (int field = 0; field < 2; field++) {  // the offset and the device
        at += strspn(at, " ");
        at += strcspn(at, " ");
    }
    at += strspn(at, " ");
    mapping->inode = ht_kernel_number(&at, 10);
    mapping->name = at + strspn(at, " ");
    return true;
}

#endif
