// SPDX-License-Identifier: Apache-2.0
// Packages and libraries, as `allocators add` reads them: archives in all formats, and the libraries in them.
#include <string.h>

#include "fuzz_input.h"
#include "package_library.h"

static void check_file(const struct package_library *package, size_t number) {
    const struct proved_library *proved = &package->file[number].proved;
    if (!package_library_takes(package, number)) return;
    FUZZ_EXPECT(proved->sort == LIBRARY_HERE, "a file is taken that cannot be loaded");
    FUZZ_EXPECT(library_is_file_name(package_library_name(package, number)), "a name that leads elsewhere");
    FUZZ_EXPECT(memchr(proved->version, 0, sizeof proved->version), "a version without an end");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    char path[FUZZ_PATH_BYTES];
    int fd = fuzz_memory_file(0, path);
    struct package_library package;
    struct ht_error error = {0};
    fuzz_reset(fd, 0);
    fuzz_write(fd, data, bytes, 0);
    if (package_library_open(&package, fd, "package", &error)) {
        FUZZ_EXPECT(error.status && *error.message, "refused without a word");
    } else {
        FUZZ_EXPECT(package.chosen < package.count && package.file[package.chosen].proved.kind,
                    "nothing chosen");
        FUZZ_EXPECT(package_library_takes(&package, package.chosen), "the chosen one is not taken");
        for (size_t i = 0; i < package.count; i++) check_file(&package, i);
    }
    package_library_close(&package);
    return 0;
}
