// SPDX-License-Identifier: Apache-2.0
// As root, becomes another user, whom the kernel does not let read the process's page tables any more. Then maps 32 MiB bit by
// bit, with calls between. Usage: changes_user [in_child]
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOBODY = 65534, MAPPINGS = 32, MAPPING_BYTES = 1 << 20, CALLS = 300 };

static void *volatile sink;

int main(int argc, char **argv) {
    int status;
    sink = malloc(100);
    // As a daemon does it, whose parent's memory is the child's, too.
    if (argc > 1 && !strcmp(argv[1], "in_child") && fork()) return wait(&status) < 0 || status != 0;
    if (setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY)) return 1;
    for (unsigned i = 0; i < MAPPINGS; i++) {
        void *at = mmap(NULL, MAPPING_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) return 1;
        memset(at, 1, MAPPING_BYTES);
        usleep(5000);
        for (unsigned k = 0; k < CALLS; k++) sink = malloc(300);
    }
    return 0;
}
