// SPDX-License-Identifier: Apache-2.0
// The logs that `record` finds when a run is over: any file under a log's name may lie there.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "found_logs.h"
#include "packed_log.h"

static const char *folder(void) {
    static char path[FUZZ_PATH_BYTES];
    if (!*path) {
        snprintf(path, sizeof path, "%s/heaptape-fuzz-XXXXXX",
                 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
        FUZZ_EXPECT(mkdtemp(path), "no folder");
    }
    return path;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    struct fuzz_input input = {data, bytes};
    char path[FUZZ_PATH_BYTES + 32];
    snprintf(path, sizeof path, "%s/malloc-footprint.7.mraw", folder());
    FILE *file = fopen(path, "w+");
    FUZZ_EXPECT(file, "no file");
    struct ending ending = {.pid = 7};
    ending.wait_status = fuzz_take_byte(&input) & 1 ? 0 : 9;
    fuzz_take(&input, ending.name, 8);
    packed_log_unpack(&input, fileno(file));
    fclose(file);
    const struct recorded_run run = {.directory = folder(), .id = "id"};
    struct found_logs found;
    found_logs_of_run(&found, &run, &ending);
    FUZZ_EXPECT(found.count <= 1, "one file, %zu logs", found.count);
    found_logs_free(&found);
    unlink(path);
    rmdir(folder());
    FUZZ_EXPECT(!mkdir(folder(), 0700), "no folder");
    return 0;
}
