// SPDX-License-Identifier: Apache-2.0
#include "option_passes.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
    OF_TIME = 1,
    OF_MEMORY = 2,
    OF_VERIFY = 4,
    OF_LIMIT = 8,
    OF_COUNT = 16,
    OF_SNAPSHOTS = 32,
    OF_LIST = 64,
    OF_GROUP = 128,  // the trace of a group of processes, whose pass is its own
    OF_ROUNDS = OF_TIME | OF_MEMORY,
    OF_FIGURES = OF_ROUNDS | OF_COUNT,
    // All that replay by the clock or by trace time; a simulation has an order, an address space and caches of its own.
    OF_REPLAYS = OF_ROUNDS | OF_VERIFY | OF_LIMIT | OF_SNAPSHOTS,
    OF_ALL = OF_REPLAYS | OF_COUNT
};

// By the names in the table of options.
static const struct rule {
    const char *option;
    unsigned passes;
} rules[] = {
    {"alloc", OF_ALL | OF_LIST | OF_GROUP},
    {"output", (OF_ALL & ~OF_SNAPSHOTS) | OF_GROUP},
    {"rounds", OF_ROUNDS | OF_GROUP},
    {"budget", OF_ROUNDS},
    {"repeats", OF_TIME},
    {"seed", OF_ALL | OF_GROUP},  // that of the lines of results, too
    {"layout", OF_ROUNDS | OF_VERIFY | OF_SNAPSHOTS},
    {"pass", OF_ALL | OF_GROUP},
    {"splice", OF_COUNT},
    {"snapshots", OF_SNAPSHOTS},
    {"at", OF_SNAPSHOTS},
    {"verify", OF_ALL},
    {"threads", OF_ALL | OF_GROUP},
    {"scale", OF_ALL & ~OF_SNAPSHOTS},
    {"cpus", OF_ALL | OF_GROUP},
    {"memory-max", OF_LIMIT},
    {"extend", OF_ALL},
    {"touch", (OF_ALL & ~OF_VERIFY) | OF_GROUP},
    {"touch-free", (OF_ALL & ~OF_VERIFY) | OF_GROUP},
    {"pollute", OF_TIME | OF_SNAPSHOTS},
    {"pace", OF_ALL | OF_GROUP},
    {"age", OF_ROUNDS},
    {"thp", OF_REPLAYS | OF_GROUP},
    {"purge", OF_MEMORY | OF_LIMIT | OF_SNAPSHOTS | OF_GROUP},
    {"window-ns", OF_REPLAYS},
    {"max-live", OF_ALL},
    {"timeout", OF_ALL | OF_GROUP},
    {"wrap", OF_ALL & ~OF_COUNT & ~OF_LIMIT},
    {"decoded-memory", OF_ALL | OF_GROUP},
    {"points", OF_MEMORY},
    {"baseline", OF_FIGURES},
    {"fail-if", OF_FIGURES},
    {"baseline-file", OF_FIGURES},
    {"write-baseline", OF_FIGURES},
    {"instructions", OF_FIGURES},
    {"profile", OF_FIGURES},
    {"json", OF_FIGURES | OF_LIMIT | OF_LIST | OF_GROUP},
    {"list", OF_LIST},
    {"quiet", OF_ALL | OF_LIST | OF_GROUP},
    {"verbose", OF_ROUNDS | OF_VERIFY | OF_LIST | OF_GROUP},
};
enum { RULES = sizeof rules / sizeof *rules };

static size_t rule_of(const char *name) {
    size_t i = 0;
    while (i < RULES && strcmp(rules[i].option, name) != 0) i++;
    assert(i < RULES);  // an option has a rule
    return i;
}

void ht_option_note(struct ht_given_options *given, const char *name) {
    static_assert(RULES <= 64, "a bit for each");
    given->options |= UINT64_C(1) << rule_of(name);
}

bool ht_option_given(const struct ht_given_options *given, const char *name) {
    return given->options >> rule_of(name) & 1;
}

const char *ht_option_unfit_for_group(const struct ht_given_options *given) {
    for (size_t i = 0; i < RULES; i++)
        if (given->options >> i & 1 && !(rules[i].passes & OF_GROUP)) return rules[i].option;
    return NULL;
}

static unsigned passes_of(const struct ht_given_options *given, const struct ht_plan *plan) {
    if (ht_option_given(given, "list")) return OF_LIST;
    unsigned verify = plan->verify ? OF_VERIFY : 0;
    if (plan->snapshots_folder) return OF_SNAPSHOTS | verify;
    return (plan->time_pass ? OF_TIME : 0) | (plan->memory_pass ? OF_MEMORY : 0) | verify |
           (plan->limit_pass ? OF_LIMIT : 0) | (plan->count_pass ? OF_COUNT : 0);
}

// "--pass memory, both or limit, or --snapshots".
static void name_passes(unsigned passes, char *text, size_t room) {
    static const struct {
        unsigned passes;
        const char *name;
    } names[] = {{OF_TIME, "time"},     {OF_MEMORY, "memory"}, {OF_ROUNDS, "both"},
                 {OF_VERIFY, "verify"}, {OF_LIMIT, "limit"},   {OF_COUNT, "count"}};
    const char *found[sizeof names / sizeof *names];
    size_t count = 0, used = (size_t)snprintf(text, room, "--pass ");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].passes & passes) found[count++] = names[i].name;
    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, room - used, "%s%s",
                                 i == 0          ? ""
                                 : i + 1 < count ? ", "
                                                 : " or ",
                                 found[i]);
    if (passes & OF_SNAPSHOTS) snprintf(text + used, room - used, ", or --snapshots");
}

static bool is_without(const char *option, unsigned passes, unsigned run, char *problem, size_t room) {
    char expected[128];
    if (passes & run) return false;
    name_passes(passes, expected, sizeof expected);
    if (run == OF_LIST) snprintf(problem, room, "--%s: expected no --list", option);
    else snprintf(problem, room, "--%s: expected %s", option, expected);
    return true;
}

bool ht_option_without_pass(const struct ht_given_options *given, const struct ht_plan *plan, char *problem,
                            size_t room) {
    unsigned run = passes_of(given, plan);
    const char *pace = given->pace ? given->pace : "";
    for (size_t i = 0; i < RULES; i++)
        if (given->options >> i & 1 && is_without(rules[i].option, rules[i].passes, run, problem, room))
            return true;
    return (strstr(pace, "time=") &&
            is_without("pace time=", OF_TIME | OF_COUNT | OF_SNAPSHOTS, run, problem, room)) ||
           (strstr(pace, "memory=") && is_without("pace memory=", OF_REPLAYS & ~OF_TIME, run, problem, room));
}
