// SPDX-License-Identifier: Apache-2.0
// On which processor a thread runs, where a child is shown another number of them than there are. These functions ask no
// kernel: the C library reads the answer from memory. The executable exports their names, so that every library in the
// process gets this answer; interposition has no argument to carry state in: hence the globals here.
#include "processor_number.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "processors_asked.h"

static struct {
    uint32_t count;  // 0: as many as there are
    _Atomic bool asked;
    const struct ht_chosen_processors *_Atomic chosen;
    int (*sched_getcpu)(void);
    int (*getcpu)(unsigned *, unsigned *);
} processors;

static void prepare(int argc, char **argv, char **environment) {
    static const char variable[] = HT_PROCESSORS_VARIABLE;
    (void)argc;
    (void)argv;
    for (char **at = environment; *at; at++) {
        if (!strncmp(*at, variable, sizeof variable - 1))
            processors.count = (uint32_t)strtoul(*at + sizeof variable - 1, NULL, 10);
    }
    // Last: glibc before 2.34 allocates when dlsym is called first, and the allocator may ask us then.
    processors.sched_getcpu = (int (*)(void))dlsym(RTLD_NEXT, "sched_getcpu");
    processors.getcpu = (int (*)(unsigned *, unsigned *))dlsym(RTLD_NEXT, "getcpu");
}
// An executable's alone can be so early.
__attribute__((section(".preinit_array"), used)) static void (*const before_all)(int, char **,
                                                                                 char **) = prepare;

bool ht_processors_asked(void) { return processors.asked; }

void ht_processors_chosen(const struct ht_chosen_processors *chosen) { processors.chosen = chosen; }

static int shown_number(void) {
    static __thread pid_t thread __attribute__((tls_model("initial-exec")));
    if (!thread) thread = (pid_t)syscall(SYS_gettid);
    if (!processors.asked) processors.asked = true;
    return (int)ht_processor_number(processors.chosen, thread, processors.count);
}

__attribute__((visibility("default"))) int sched_getcpu(void) {
    if (processors.count) return shown_number();
    if (processors.sched_getcpu) return processors.sched_getcpu();
    unsigned number;
    return syscall(SYS_getcpu, &number, NULL, NULL) ? -1 : (int)number;
}

__attribute__((visibility("default"))) int getcpu(unsigned *number, unsigned *node) {
    if (!processors.count)
        return processors.getcpu ? processors.getcpu(number, node)
                                 : (int)syscall(SYS_getcpu, number, node, NULL);
    if (number) *number = (unsigned)shown_number();
    if (node) *node = 0;
    return 0;
}
