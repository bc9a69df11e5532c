// SPDX-License-Identifier: Apache-2.0
// Which file systems a log may be mapped from. The shim, which links no library, has it from this header alone.
#ifndef HEAPTAPE_FILE_SYSTEMS_H
#define HEAPTAPE_FILE_SYSTEMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/vfs.h>

// Where logs go unless the user names a folder: in memory if they must not lie in the first.
#define LOG_FOLDER_FIRST  "/tmp"
#define LOG_FOLDER_SECOND "/dev/shm"

enum { HT_OVERLAY = 0x794c7630, HT_TMPFS = 0x01021994, HT_RAMFS = (int)0x858458f6 };

// As linux/magic.h and the file systems' own sources have them.
static const struct {
    uint32_t magic;
    const char *kind;
} ht_unfit_file_systems[] = {
    {0x9123683e, "btrfs, which copies on write"},
    {0xca451a4e, "bcachefs, which copies on write"},
    {0x2fc12fc1, "ZFS, which copies on write"},
    {0x00003434, "NILFS, which copies on write"},
    {0x00006969, "NFS, whose server may disappear"},
    {0xff534d42, "CIFS, whose server may disappear"},
    {0xfe534d42, "SMB, whose server may disappear"},
    {0x0000517b, "SMB, whose server may disappear"},
    {0x00c36400, "Ceph, whose servers may disappear"},
    {0x0bd00bd0, "Lustre, whose servers may disappear"},
    {0x47504653, "GPFS, whose servers may disappear"},
    {0x5346414f, "AFS, whose server may disappear"},
    {0x6b414653, "AFS, whose server may disappear"},
    {0x73757245, "Coda, whose server may disappear"},
    {0x01021997, "9P, whose server may disappear"},
    {0x786f4256, "a folder of VirtualBox's host, which may disappear"},
    {0x0000f15f, "eCryptfs, which has no sparse files"},
    {0x00004d44, "FAT, which has no sparse files"},
    {0x2011bab0, "exFAT, which has no sparse files"},
    {0x0000482b, "HFS+, which has no sparse files"},
    {0x65735546, "FUSE, whose process may end"},
};

// A page that has been made real must stay so: where a later store may find the disk full, or the server gone,
// the kernel answers it with SIGBUS, which ends the program. NULL, or what kind of such a file system this is:
// "btrfs, which copies on write".
static inline const char *file_system_unfit(const struct statfs *status) {
    uint32_t magic = (uint32_t)status->f_type;
    for (size_t i = 0; i < sizeof ht_unfit_file_systems / sizeof *ht_unfit_file_systems; i++)
        if (ht_unfit_file_systems[i].magic == magic) return ht_unfit_file_systems[i].kind;
    // statfs gives the figures of the file system that it writes to, but not its type. One without a number of
    // files is btrfs.
    if (magic == HT_OVERLAY && !status->f_files) return "an overlay over btrfs, which copies on write";
    return NULL;
}

// ---- what lies under an overlay ----

// What an overlay writes to is another folder's file system, which statfs does not name. A line of /proc/self/mountinfo has
// the overlay's device, as stat() of a folder on it gives it, and among its options that folder: `36 35 0:52 / /mnt rw -
// overlay overlay rw,lowerdir=...,upperdir=/a\040b,workdir=...`.

// A character of mountinfo, and how long it is there: blanks, backslashes and the like are octal numbers.
static inline unsigned mountinfo_char(const char *at, char *decoded) {
    *decoded = *at;
    for (unsigned i = 1; i <= 3; i++)
        if (*at != '\\' || at[i] < '0' || at[i] > '7') return 1;
    *decoded = (char)((at[1] - '0') << 6 | (at[2] - '0') << 3 | (at[3] - '0'));
    return 4;
}

// Puts the folder that is written to into `folder`, if the line is the overlay's of that device. False if it is not, or the
// folder's name is too long.
static inline bool overlay_upper_folder(const char *line, unsigned major_number, unsigned minor_number,
                                        char *folder, size_t room) {
    static const char key[] = ",upperdir=";
    unsigned numbers[4] = {0};  // mount, its parent, major, minor
    for (unsigned i = 0; i < 4; i++, line++) {
        for (; *line >= '0' && *line <= '9'; line++) numbers[i] = numbers[i] * 10 + (unsigned)(*line - '0');
        if (*line != (i == 2 ? ':' : ' ')) return false;
    }
    const char *at = strstr(line, " - overlay ");
    at = at ? strstr(at, key) : NULL;
    if (!at || numbers[2] != major_number || numbers[3] != minor_number) return false;
    at += sizeof key - 1;
    for (size_t length = 0; length < room; length++) {
        char decoded = 0;
        if (*at && *at != ',' && *at != ' ' && *at != '\n') at += mountinfo_char(at, &decoded);
        // In the options, too, a backslash precedes what would end the name.
        if (decoded == '\\') at += mountinfo_char(at, &decoded);
        folder[length] = decoded;
        if (!decoded) return true;
    }
    return false;
}

// Are its files memory, which a limit of a control group counts?
static inline bool file_system_in_memory(const struct statfs *status) {
    return (int)status->f_type == HT_TMPFS || (int)status->f_type == HT_RAMFS;
}

// The file system that a folder's files lie in: under an overlay, the one that it writes to. For all but the shim.
// As statfs(): 0, or -1 with errno. What an overlay writes to may not be seen from here, as in a container: then the
// overlay's own.
int ht_folder_status(const char *folder, struct statfs *status);

#endif
