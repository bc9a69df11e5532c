// The verbs that are written in Python: finds an interpreter that has the package, and becomes it.
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "verbs.h"

// In order: $HEAPTAPE_PYTHON, the virtual environment of the source tree that this was built in, python3 from
// PATH with the installed package.
static void choose(const char *folder, char python[PATH_MAX]) {
    const char *given = getenv("HEAPTAPE_PYTHON");
    if (given && *given) {
        snprintf(python, PATH_MAX, "%s", given);
        return;
    }
    int length = snprintf(python, PATH_MAX, "%s/../.venv/bin/python3", folder);
    if (length < PATH_MAX && !access(python, X_OK)) return;
    char package[PATH_MAX];
    snprintf(package, sizeof package, "%.3900s/../share/heaptape/python", folder);
    if (!access(package, R_OK)) {
        const char *others = getenv("PYTHONPATH");
        char *path = NULL;
        if (others && *others && asprintf(&path, "%s:%s", package, others) < 0) path = NULL;
        setenv("PYTHONPATH", path ? path : package, 1);
        free(path);
    }
    snprintf(python, PATH_MAX, "python3");
}

// The verbs that replay take the replayer beside us, unless given otherwise.
static void name_replay(const char *folder) {
    char replay[PATH_MAX];
    int length = snprintf(replay, sizeof replay, "%s/replay", folder);
    if (length < (int)sizeof replay && !access(replay, X_OK)) setenv("HEAPTAPE_REPLAY", replay, 0);
}

int ht_verb_python(int argc, char **argv) {
    char self[PATH_MAX], python[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0) length = 0;
    self[length] = 0;
    char *slash = strrchr(self, '/');
    if (slash) *slash = 0;
    choose(self, python);
    name_replay(self);
    char **arguments = calloc((size_t)argc + 4, sizeof *arguments);
    if (!arguments) return HT_EXIT_FAILED;
    arguments[0] = python;
    arguments[1] = (char *)"-m";
    arguments[2] = (char *)"heaptape";
    for (int i = 0; i < argc; i++) arguments[3 + i] = argv[i];
    execvp(python, arguments);
    fprintf(stderr, "heaptape %s: cannot run %s: %s\n", argv[0], python, strerror(errno));
    free(arguments);
    return HT_EXIT_FAILED;
}
