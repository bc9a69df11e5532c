// SPDX-License-Identifier: Apache-2.0
// The verbs that are written in Python: finds an interpreter and the package, and becomes them.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "python_program.h"
#include "verbs.h"

// The verbs that replay take the replayer beside us, unless given otherwise.
static void name_replay(const char *folder) {
    char replay[PATH_MAX];
    int length = snprintf(replay, sizeof replay, "%s/replay", folder);
    if (length < (int)sizeof replay && !access(replay, X_OK)) setenv("HEAPTAPE_REPLAY", replay, 0);
}

int ht_verb_python(int argc, char **argv) {
    static struct ht_python_program python;
    ht_python_find(&python);
    name_replay(python.folder);
    char **arguments = calloc((size_t)argc + HT_PYTHON_WORDS_MAX + 1, sizeof *arguments), **next = arguments;
    if (!arguments) return HT_EXIT_FAILED;
    for (size_t i = 0; python.words[i]; i++) *next++ = python.words[i];
    for (int i = 0; i < argc; i++) *next++ = argv[i];
    execvp(python.interpreter, arguments);
    fprintf(stderr, "heaptape %s: cannot run %s: %s\n", argv[0], python.interpreter, strerror(errno));
    free(arguments);
    return HT_EXIT_FAILED;
}
