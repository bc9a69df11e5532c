// SPDX-License-Identifier: Apache-2.0
#include "python_program.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// In order: the virtual environment of the source tree that this was built in, what was named when it was built.
static void choose_interpreter(const char *folder, char python[PATH_MAX]) {
    int length = snprintf(python, PATH_MAX, "%s/../.venv/bin/python3", folder);
    if (length < PATH_MAX && !access(python, X_OK)) return;
    snprintf(python, PATH_MAX, "%s", HEAPTAPE_PYTHON);
}

// pip puts a script beside this program that runs the package by the interpreter for which both were installed.
static bool find_script_of_pip(const char *folder, char script[PATH_MAX]) {
    int length = snprintf(script, PATH_MAX, "%s/heaptape-analysis", folder);
    return length < PATH_MAX && !access(script, X_OK);
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

void ht_python_find(struct ht_python_program *python) {
    char **next = python->words;
    ssize_t length = readlink("/proc/self/exe", python->folder, sizeof python->folder - 1);
    python->folder[length < 0 ? 0 : length] = 0;
    char *slash = strrchr(python->folder, '/');
    if (slash) *slash = 0;
    const char *given = getenv("HEAPTAPE_PYTHON");
    if (given && *given) {
        snprintf(python->interpreter, PATH_MAX, "%s", given);
    } else if (find_script_of_pip(python->folder, python->interpreter)) {
        python->words[0] = python->interpreter;
        python->words[1] = NULL;
        return;
    } else {
        choose_interpreter(python->folder, python->interpreter);
    }
    *next++ = python->interpreter;
    if (find_package(python->folder, python->script)) {
        *next++ = python->script;
    } else {
        // No modules of the current folder, which -P leaves out from Python 3.11 on.
        *next++ = (char *)"-c";
        *next++ = (char *)"import sys; sys.path = [path for path in sys.path if path]; "
                          "from heaptape.__main__ import run; sys.exit(run())";
    }
    *next = NULL;
}
