// SPDX-License-Identifier: Apache-2.0
#include "child_environment.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "processor_number.h"

enum { OWN_VARIABLES = 8 + HT_KNOB_VARIABLES_MAX };

static const char tunables_name[] = "GLIBC_TUNABLES=", of_malloc[] = "glibc.malloc.";

static bool starts(const char *text, const char *with) { return !strncmp(text, with, strlen(with)); }

static void add_tunable(struct ht_child_environment *made, const char *word, size_t length) {
    size_t used = strlen(made->tunables), room = sizeof made->tunables - used;
    if (length + 2 > room) return;
    const char *before = made->tunables[used - 1] == '=' ? "" : ":";
    snprintf(made->tunables + used, room, "%s%.*s", before, (int)length, word);
}

// The C library's: of ours all that are not malloc's, then the choice's and what the allocator needs to be what it is, because
// the last word counts. False: there are none.
static bool make_tunables(struct ht_child_environment *made, const struct ht_choice *choice) {
    const char *needed = choice->kind ? choice->kind->environment : NULL;
    const char *own = getenv("GLIBC_TUNABLES");
    strcpy(made->tunables, tunables_name);
    for (; own && *own; own += strcspn(own, ":"), own += *own == ':')
        if (!starts(own, of_malloc)) add_tunable(made, own, strcspn(own, ":"));
    for (size_t i = 0; i < made->knobs.count; i++) {
        const char *variable = made->knobs.list[i];
        if (!starts(variable, tunables_name)) continue;
        variable += sizeof tunables_name - 1;
        add_tunable(made, variable, strlen(variable));
    }
    if (needed && starts(needed, tunables_name)) {
        needed += sizeof tunables_name - 1;
        add_tunable(made, needed, strlen(needed));
    }
    return made->tunables[sizeof tunables_name - 1] != 0;
}

static const char *pass_name(enum ht_pass pass) {
    switch (pass) {
    case HT_PASS_FLAT: return "time";
    case HT_PASS_TIMED: return "timed";
    case HT_PASS_MEMORY: return "memory";
    case HT_PASS_SNAPSHOT: return "snapshot";
    case HT_PASS_VERIFY:
    case HT_PASS_TORTURE: return "verify";
    case HT_PASS_LIMIT: return "limit";
    case HT_PASS_GROUP: return "group";
    default: return "describe";
    }
}

void ht_child_environment_make(struct ht_child_environment *made, const struct ht_choice *choice,
                               const struct ht_job *job, uint64_t run, struct ht_random *random) {
    size_t count = 0;
    ht_knob_variables_make(&choice->knobs, false, &made->knobs);
    for (char **at = environ; *at && count < HT_ENVIRONMENT_MAX - OWN_VARIABLES - 1; at++) {
        if (starts(*at, "LD_PRELOAD=") || starts(*at, "MALLOC_WRAP_") || ht_sets_allocator(*at)) continue;
        made->variables[count++] = *at;
    }
    for (size_t i = 0; i < made->knobs.count; i++)
        if (!starts(made->knobs.list[i], tunables_name)) made->variables[count++] = made->knobs.list[i];
    if (make_tunables(made, choice)) made->variables[count++] = made->tunables;
    uint32_t length = 16 + ht_random_below(random, HT_PADDING_BYTES_MAX - 17);
    memset(made->padding, 'x', length);
    made->padding[length] = 0;
    memcpy(made->padding, "HEAPTAPE_PAD=", 13);
    made->variables[count++] = made->padding;
    if (job->virtual_time) made->variables[count++] = (char *)HT_CLOCK_HELD;
    if (job->processors) {
        snprintf(made->processors, sizeof made->processors, HT_PROCESSORS_VARIABLE "%" PRIu32,
                 job->processors);
        made->variables[count++] = made->processors;
    }
    if (choice->preload[0]) {
        snprintf(made->preload, sizeof made->preload, "LD_PRELOAD=%s", choice->preload);
        made->variables[count++] = made->preload;
    }
    if (run) {
        snprintf(made->allocator, sizeof made->allocator, "HEAPTAPE_ALLOCATOR=%s", choice->name);
        snprintf(made->pass, sizeof made->pass, "HEAPTAPE_PASS=%s", pass_name((enum ht_pass)job->pass));
        snprintf(made->run, sizeof made->run, "HEAPTAPE_RUN=%" PRIu64, run);
        made->variables[count++] = made->allocator;
        made->variables[count++] = made->pass;
        made->variables[count++] = made->run;
    }
    made->variables[count] = NULL;
}
