// SPDX-License-Identifier: Apache-2.0
// Which file systems a log may be mapped from. A header alone: the shim, which links no library, needs it too.
#ifndef HEAPTAPE_FILE_SYSTEMS_H
#define HEAPTAPE_FILE_SYSTEMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
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

// Are its files memory, which a limit of a control group counts?
static inline bool file_system_in_memory(const struct statfs *status) {
    return (int)status->f_type == HT_TMPFS || (int)status->f_type == HT_RAMFS;
}

#endif
