// SPDX-License-Identifier: Apache-2.0
#include "child_environment.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "processor_number.h"

enum { OWN_VARIABLES = 8 + HT_KNOB_CHOICES_MAX };

static bool starts(const char *text, const char *with) { return !strncmp(text, with, strlen(with)); }

// Whether one of the choice's knobs sets this variable.
static bool is_chosen(const struct ht_choice *choice, const char *variable) {
    size_t length = strcspn(variable, "=") + 1;
    for (size_t i = 0; i < choice->knobs.variables_count; i++) {
        if (!strncmp(choice->knobs.variables[i], variable, length)) return true;
    }
    return false;
}

// What the allocator needs to be what it is comes after what is there, because the last word counts.
static bool add_needed(struct ht_child_environment *made, const struct ht_choice *choice) {
    const char *word = choice->kind ? choice->kind->environment : NULL;
    if (!word) return false;
    size_t name_bytes = strcspn(word, "=");
    const char *there = NULL;
    for (char **at = environ; *at; at++) {
        if (!strncmp(*at, word, name_bytes + 1)) there = *at + name_bytes + 1;
    }
    snprintf(made->needed, sizeof made->needed, "%.*s=%s%s%s", (int)name_bytes, word, there ? there : "",
             there && *there ? ":" : "", word + name_bytes + 1);
    return true;
}

static const char *pass_name(enum ht_pass pass) {
    switch (pass) {
    case HT_PASS_FLAT: return "time";
    case HT_PASS_TIMED: return "timed";
    case HT_PASS_MEMORY: return "memory";
    case HT_PASS_SNAPSHOT: return "snapshot";
    case HT_PASS_VERIFY: return "verify";
    case HT_PASS_LIMIT: return "limit";
    default: return "describe";
    }
}

void ht_child_environment_make(struct ht_child_environment *made, const struct ht_choice *choice,
                               const struct ht_job *job, uint64_t run, struct ht_random *random) {
    size_t count = 0;
    bool needs = add_needed(made, choice);
    size_t needed_bytes = needs ? strcspn(made->needed, "=") + 1 : 0;
    for (char **at = environ; *at && count < HT_ENVIRONMENT_MAX - OWN_VARIABLES - 1; at++) {
        if (starts(*at, "LD_PRELOAD=") || starts(*at, "MALLOC_WRAP_") || is_chosen(choice, *at)) continue;
        if (needs && !strncmp(*at, made->needed, needed_bytes)) continue;
        made->variables[count++] = *at;
    }
    for (size_t i = 0; i < choice->knobs.variables_count; i++) {
        made->variables[count++] = (char *)choice->knobs.variables[i];
    }
    if (needs) made->variables[count++] = made->needed;
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
