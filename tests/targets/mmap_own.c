// SPDX-License-Identifier: Apache-2.0
// Maps anonymous memory of its own beside the heap, and touches both: what a recorder says of the
// heap must not count the mapping. Usage: mmap_own [MAPPED_MIB [HEAP_MIB [bare]]]; bare: by the system call,
// which nobody sees.
#include <sys/syscall.h>

#include "target_support.h"

int main(int argc, char **argv) {
    size_t mapped = (size_t)(argc > 1 ? atoi(argv[1]) : 64) << 20;
    size_t heap = (size_t)(argc > 2 ? atoi(argv[2]) : 32) << 20;
    const int access = PROT_READ | PROT_WRITE, kind = MAP_PRIVATE | MAP_ANONYMOUS;
    int bare = argc > 3 && !strcmp(argv[3], "bare");
    char *volatile first = malloc(1);  // with which a recording begins
    char *own = bare ? (char *)syscall(SYS_mmap, NULL, mapped, access, kind, -1, 0)
                     : mmap(NULL, mapped, access, kind, -1, 0);
    free(first);
    if (own == MAP_FAILED) target_fail("cannot map");
    memset(own, 1, mapped);
    for (size_t got = 0; got < heap; got += 1024) {
        char *volatile block = malloc(1024);
        memset(block, 2, 1024);
    }
    return 17;
}
