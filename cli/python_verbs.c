// SPDX-License-Identifier: Apache-2.0
// The verbs that are written in Python: finds an interpreter and the package, and becomes them.
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "verbs.h"

// In order: $HEAPTAPE_PYTHON, the virtual environment of the source tree that this was built in, what was named when it
// was built.
static void choose_interpreter(const char *folder, char python[PATH_MAX]) {
    const char *given = getenv("HEAPTAPE_PYTHON");
    if (given && *given) {
        snprintf(python, PATH_MAX, "%s", given);
        return;
    }
    int length = snprintf(python, PATH_MAX, "%s/../.venv/bin/python3", folder);
    if (length < PATH_MAX && !access(python, X_OK)) return;
    snprintf(python, PATH_MAX, "%s", HEAPTAPE_PYTHON);
}

// The package that was installed with this program, or that of the source tree. False: it is one of the interpreter's.
static bool find_package(const char *folder, char script[PATH_MAX]) {
    static const char *const places[] = {"../share/heaptape/python", "../analysis"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        int length = snprintf(script, PATH_MAX, "%s/%s/run_verb.py", folder, places[i]);
        if (length < PATH_MAX && !access(script, R_OK)) return true;
    }
    return false;
}

// The verbs that replay take the replayer beside us, unless given otherwise.
static void name_replay(const char *folder) {
    char replay[PATH_MAX];
    int length = snprintf(replay, sizeof replay, "%s/replay", folder);
    if (length < (int)sizeof replay && !access(replay, X_OK)) setenv("HEAPTAPE_REPLAY", replay, 0);
}

int ht_verb_python(int argc, char **argv) {
    char self[PATH_MAX], python[PATH_MAX], script[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0) length = 0;
    self[length] = 0;
    char *slash = strrchr(self, '/');
    if (slash) *slash = 0;
    choose_interpreter(self, python);
    name_replay(self);
    char **arguments = calloc((size_t)argc + 5, sizeof *arguments), **next = arguments;
    if (!arguments) return HT_EXIT_FAILED;
    *next++ = python;
    if (find_package(self, script)) {
        *next++ = script;
    } else {
        *next++ = (char *)"-P";  // no modules of the current folder
        *next++ = (char *)"-m";
        *next++ = (char *)"heaptape";
    }
    for (int i = 0; i < argc; i++) *next++ = argv[i];
    execvp(python, arguments);
    fprintf(stderr, "heaptape %s: cannot run %s: %s\n", argv[0], python, strerror(errno));
    free(arguments);
    return HT_EXIT_FAILED;
}
