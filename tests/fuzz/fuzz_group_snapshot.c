// SPDX-License-Identifier: Apache-2.0
// Snapshots of a group: the first byte says whether the rest is a file, whose checksum is corrected, or the body of one, which
// is packed. What is read is written, and read again as the same.
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "fuzz_input.h"
#include "group_snapshot.h"
#include "group_snapshot_layout.h"

enum { AS_FILE = 1, BODY_BYTES_MAX = 1 << 20 };

static void seal(const struct fuzz_input *input, bool as_file, char path[FUZZ_PATH_BYTES]) {
    static uint8_t stored[2 * BODY_BYTES_MAX];
    struct ht_snapshots_header header = {.magic = "", .version = 1, .min_reader = 1, .page_bytes = 4096};
    struct fuzz_input rest = *input;
    int fd = fuzz_memory_file(0, path);
    fuzz_reset(fd, 0);
    memcpy(header.magic, HT_SNAPSHOTS_MAGIC, sizeof header.magic);
    if (as_file) {
        fuzz_take(&rest, &header, sizeof header);
        fuzz_write(fd, rest.at, rest.left, sizeof header);
        if (header.stored_bytes == rest.left) header.checksum = ht_snapshots_checksum(&header, rest.at);
    } else {
        header.snapshots = fuzz_take_byte(&rest);
        header.root_pid = fuzz_take_byte(&rest);
        header.body_bytes = rest.left < BODY_BYTES_MAX ? rest.left : BODY_BYTES_MAX;
        header.stored_bytes = ZSTD_compress(stored, sizeof stored, rest.at, header.body_bytes, 1);
        FUZZ_EXPECT(!ZSTD_isError(header.stored_bytes), "cannot pack");
        header.checksum = ht_snapshots_checksum(&header, stored);
        fuzz_write(fd, stored, header.stored_bytes, sizeof header);
    }
    fuzz_write(fd, &header, sizeof header, 0);
}

static const char *again_path(void) {
    static char folder[FUZZ_PATH_BYTES], path[FUZZ_PATH_BYTES + 16];
    if (!*folder) {
        snprintf(folder, sizeof folder, "%s/heaptape-fuzz-XXXXXX",
                 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
        FUZZ_EXPECT(mkdtemp(folder), "no folder");
    }
    mkdir(folder, 0700);
    snprintf(path, sizeof path, "%s/again", folder);
    return path;
}

static void expect_same(const struct ht_group_snapshots *one, const struct ht_group_snapshots *other) {
    FUZZ_EXPECT(one->count == other->count && one->root_pid == other->root_pid, "other snapshots");
    for (size_t i = 0; i < one->count; i++) {
        const struct ht_group_snapshot *a = &one->snapshot[i], *b = &other->snapshot[i];
        FUZZ_EXPECT(a->members == b->members && a->time_ns == b->time_ns, "another snapshot");
        for (size_t j = 0; j < a->members; j++)
            FUZZ_EXPECT(a->member[j].pid == b->member[j].pid &&
                            a->member[j].mappings == b->member[j].mappings,
                        "another process");
    }
}

static void write_again(const struct ht_group_snapshots *snapshots) {
    struct ht_group_snapshots found;
    struct ht_error error;
    const char *path = again_path();
    FUZZ_EXPECT(!ht_group_snapshots_write(path, snapshots, &error), "not written: %s", error.message);
    FUZZ_EXPECT(!ht_group_snapshots_read(path, &found, &error), "not read again: %s", error.message);
    expect_same(snapshots, &found);
    ht_group_snapshots_free(&found);
    unlink(path);
    *strrchr((char *)path, '/') = 0;
    rmdir(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    struct fuzz_input input = {data, bytes};
    struct ht_group_snapshots snapshots;
    struct ht_error error = {0};
    char path[FUZZ_PATH_BYTES];
    bool as_file = fuzz_take_byte(&input) & AS_FILE;
    seal(&input, as_file, path);
    if (ht_group_snapshots_read(path, &snapshots, &error))
        FUZZ_EXPECT(error.status && *error.message && strlen(error.message) < 400, "refused without a word");
    else write_again(&snapshots);
    ht_group_snapshots_free(&snapshots);
    return 0;
}
