// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target over kept inputs, as an ordinary test: files, and folders of files. No fuzzer is needed.
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_input.h"

static void run_file(const char *path) {
    FILE *file = fopen(path, "rb");
    FUZZ_EXPECT(file, "%s: %s", path, strerror(errno));
    uint8_t *data = NULL;
    size_t bytes = 0, room = 0, got = 0;
    do {
        bytes += got;
        if (bytes == room) {
            room = room ? 2 * room : 4096;
            data = realloc(data, room);
            FUZZ_EXPECT(data, "%s: no memory", path);
        }
    } while ((got = fread(data + bytes, 1, room - bytes, file)) > 0);
    fclose(file);
    fprintf(stderr, "%s\n", path);  // the last one named is the one that broke something
    // A block of exactly the input's size, so that a sanitizer sees what is read beyond it.
    uint8_t *exact = malloc(bytes ? bytes : 1);
    FUZZ_EXPECT(exact, "%s: no memory", path);
    memcpy(exact, data, bytes);
    free(data);
    LLVMFuzzerTestOneInput(exact, bytes);
    free(exact);
}

// Returns how many inputs the folder holds; a file counts as one.
static unsigned run_folder(const char *folder) {
    struct dirent **entry;
    int count = scandir(folder, &entry, NULL, alphasort);
    unsigned files = 0;
    for (int i = 0; i < count; i++) {
        char path[PATH_MAX];
        if (entry[i]->d_name[0] != '.') {
            snprintf(path, sizeof path, "%s/%s", folder, entry[i]->d_name);
            run_file(path);
            files++;
        }
        free(entry[i]);
    }
    if (count >= 0) {
        free(entry);
    } else {
        FUZZ_EXPECT(errno == ENOTDIR, "%s: %s", folder, strerror(errno));
        run_file(folder);
        files++;
    }
    return files;
}

int main(int argc, char **argv) {
    unsigned files = 0;
    for (int i = 1; i < argc; i++) files += run_folder(argv[i]);
    FUZZ_EXPECT(files, "no input: name folders of inputs, or inputs");
    fprintf(stderr, "%u inputs, nothing broken\n", files);
    return 0;
}
