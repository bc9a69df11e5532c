// SPDX-License-Identifier: Apache-2.0
#include "scudo.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

// No function returns it: it is the folder below clang/ that the library lies in, such as 14.0.6.
void ht_scudo_version(const struct ht_server *server, char *text, size_t room) {
    static const char above[] = "/clang/";
    Dl_info found = {0};
    if (!dladdr(server->known, &found)) return;
    const char *folder = strstr(found.dli_fname, above);
    if (!folder) return;
    folder += sizeof above - 1;
    snprintf(text, room, "%.*s", (int)strcspn(folder, "/"), folder);
}

const struct ht_statistic ht_scudo_statistics[] = {
    {"allocated_bytes", "in the program's blocks, with their headers"},
    {"free_bytes", "in free blocks"},
    {"mapped_bytes", "got from the kernel and mapped"},
    {0}};

const struct ht_fault ht_scudo_faults[] = {
    {.unsimulated = true,
     .help =
         "It aborts under valgrind: it reserves 180 GB of addresses at once, and valgrind has 64 GB for a program."},
    {0}};

// Its mallinfo2 is not the C library's, and has something of its own in some of the fields.
void ht_scudo_read(const struct ht_server *server, uint64_t *values) {
    struct info {
        size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
    };
    struct info (*get)(void) = (struct info(*)(void))dlsym(RTLD_DEFAULT, "mallinfo2");
    (void)server;
    struct info info = get();
    values[0] = info.uordblks;
    values[1] = info.fordblks;
    values[2] = info.hblkhd;
}

void ht_scudo_purge(const struct ht_server *server) {
    enum { PURGE = -101 };  // M_PURGE, as Android's C library has it
    int (*set)(int, int) = (int (*)(int, int))dlsym(RTLD_DEFAULT, "mallopt");
    (void)server;
    set(PURGE, 0);
}
