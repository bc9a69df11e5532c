// SPDX-License-Identifier: Apache-2.0
#include "unhooked_programs.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "print.h"
#include "reachable.h"

static bool is_judged(const struct unhooked_programs *programs, const char *executable) {
    for (size_t i = 0; i < programs->judged_count; i++)
        if (!strcmp(programs->judged[i], executable)) return true;
    return false;
}

void unhooked_programs_begin(struct unhooked_programs *programs, const char *started, const char *shim) {
    *programs = (struct unhooked_programs){.shim = shim};
    char *path = realpath(started, NULL);  // as logs have it
    if (path) programs->judged[programs->judged_count++] = path;
}

void unhooked_programs_take(struct unhooked_programs *programs, const char *executable, const char *hooks) {
    struct reach reach;
    char *copy;
    if (!executable || (hooks && !strcmp(hooks, "set")) || is_judged(programs, executable) ||
        programs->judged_count == HT_PROGRAMS_JUDGED_MAX || !(copy = strdup(executable)))
        return;
    programs->judged[programs->judged_count++] = copy;
    reach_of(&reach, executable, programs->shim);
    if (!reach.linked) return;
    if (programs->first) programs->likewise++;
    else if (asprintf(&programs->first, "%s %s", reach.program, reach.why) < 0) programs->first = NULL;
}

void unhooked_programs_say(struct unhooked_programs *programs) {
    if (programs->first) {
        ht_print(stderr,
                 "heaptape record: warning: %s; only the program that record itself starts can be hooked",
                 programs->first);
        if (programs->likewise) ht_print(stderr, " (likewise %zu more)", programs->likewise);
        fputc('\n', stderr);
    }
    for (size_t i = 0; i < programs->judged_count; i++) free(programs->judged[i]);
    free(programs->first);
}
