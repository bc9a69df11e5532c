#include "file_systems.h"

#include <stddef.h>
#include <stdint.h>

enum { OVERLAY = 0x794c7630, TMPFS = 0x01021994, RAMFS = (int)0x858458f6 };

// As linux/magic.h and the file systems' own sources have them.
static const struct {
    uint32_t magic;
    const char *kind;
} unfit[] = {
    {0x9123683e, "btrfs, which copies on write"},
    {0xca451a4e, "bcachefs, which copies on write"},
    {0x2fc12fc1, "ZFS, which copies on write"},
    {0x00003434, "NILFS, which copies on write"},
    {0x00006969, "NFS, whose server may go"},
    {0xff534d42, "CIFS, whose server may go"},
    {0xfe534d42, "SMB, whose server may go"},
    {0x0000517b, "SMB, whose server may go"},
    {0x00c36400, "Ceph, whose servers may go"},
    {0x0bd00bd0, "Lustre, whose servers may go"},
    {0x47504653, "GPFS, whose servers may go"},
    {0x5346414f, "AFS, whose server may go"},
    {0x6b414653, "AFS, whose server may go"},
    {0x73757245, "Coda, whose server may go"},
    {0x01021997, "9P, whose server may go"},
    {0x786f4256, "a folder of VirtualBox's host, which may go"},
    {0x65735546, "FUSE, whose process may go"},
};

const char *file_system_unfit(const struct statfs *status) {
    uint32_t magic = (uint32_t)status->f_type;
    for (size_t i = 0; i < sizeof unfit / sizeof *unfit; i++)
        if (unfit[i].magic == magic) return unfit[i].kind;
    // statfs gives the figures of the file system that it writes to, but not its type. One without a number of
    // files is btrfs.
    if (magic == OVERLAY && !status->f_files) return "an overlay over btrfs, which copies on write";
    return NULL;
}

bool file_system_in_memory(const struct statfs *status) {
    return (int)status->f_type == TMPFS || (int)status->f_type == RAMFS;
}
