// SPDX-License-Identifier: Apache-2.0
// ELF files, as `record` reads the programs that it is given.
#include <string.h>
#include <unistd.h>

#include "elf_file.h"
#include "fuzz_input.h"

struct seen {
    uint64_t names, bytes;
};

static void see(void *context, const char *name) {
    struct seen *seen = context;
    seen->names++;
    seen->bytes += strlen(name);
}

static void see_import(void *context, const char *name, bool weak) {
    (void)weak;
    see(context, name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    char path[FUZZ_PATH_BYTES], text[256];
    int fd = fuzz_memory_file(0, path);
    struct elf_file elf;
    struct seen seen = {0};
    fuzz_reset(fd, 0);
    fuzz_write(fd, data, bytes, 0);
    if (elf_file_open(&elf, fd)) {
        const char *interpreter = elf_file_interpreter(&elf, text, sizeof text);
        FUZZ_EXPECT(!interpreter || strlen(interpreter) < sizeof text, "an interpreter without an end");
        for (unsigned i = 0; i < 64; i++) {
            const char *needed = elf_file_dynamic_string(&elf, DT_NEEDED, i);
            if (needed) see(&seen, needed);
        }
        elf_file_dynamic_string(&elf, DT_SONAME, 0);
        elf_file_has_section(&elf, ".dynsym");
        elf_file_each_symbol(&elf, SHT_DYNSYM, see, &seen);
        elf_file_each_symbol(&elf, SHT_SYMTAB, see, &seen);
        elf_file_each_import(&elf, see_import, &seen);
        elf_file_data_holds(&elf, "jemalloc");
    }
    elf_file_close(&elf);
    return 0;
}
