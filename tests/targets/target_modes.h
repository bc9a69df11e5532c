// SPDX-License-Identifier: Apache-2.0
// For targets that do one of several things, named by their second argument: TARGET COUNTS MODE [MORE...].
#ifndef HEAPTAPE_TARGET_MODES_H
#define HEAPTAPE_TARGET_MODES_H

#include <sys/wait.h>

#include "target_support.h"

// What a mode returns is the exit status. argument is NULL where the command line ends after the mode.
struct target_mode {
    const char *name;
    int (*run)(char *argument);
};

static inline int run_target_mode(const struct target_mode *modes, int argc, char **argv) {
    if (argc < 3) target_fail("usage: TARGET COUNTS MODE [ARGUMENT]");
    tally_open(argv[1]);
    for (; modes->name; modes++)
        if (!strcmp(modes->name, argv[2])) return modes->run(argc > 3 ? argv[3] : NULL);
    target_fail("there is no such mode");
}

// The exit status of a child that must end by itself.
static inline int child_status(pid_t pid) {
    int status;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) target_fail("a child is lost");
    return WEXITSTATUS(status);
}

#endif
