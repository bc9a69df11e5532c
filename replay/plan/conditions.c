// SPDX-License-Identifier: Apache-2.0
#include "conditions.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "option_values.h"

const char *const ht_figure_names[HT_FIGURES] = {"time", "rss_peak", "rss_mean", "rss_end",
                                                 "process_rss_peak"};

const struct ht_counted ht_counted[HT_COUNTED] = {
    {"instructions", true, false}, {"mapping_calls", true, false}, {"faults", false, true},
    {"l1d_misses", false, true},   {"l2_misses", false, true},     {"l1i_misses", false, true},
    {"dtlb_misses", false, true},  {"stlb_misses", false, true},   {"branch_misses", false, true}};

// As the simulation calls them (simulate/tool/counts_file.c).
static const char *const functions[] = {"malloc", "calloc",        "realloc",     "reallocarray",
                                        "free",   "aligned_alloc", "aligned_new", "posix_memalign",
                                        "valloc", "other"};

static bool is_named(const char *known, const char *name, size_t length) {
    return strlen(known) == length && !strncmp(known, name, length);
}

static bool take_figure(struct ht_condition *condition, const char *name, size_t length) {
    for (condition->figure = 0; condition->figure < HT_FIGURES; condition->figure++)
        if (is_named(ht_figure_names[condition->figure], name, length)) return true;
    for (int i = 0; i < HT_COUNTED; i++)
        if (is_named(ht_counted[i].name, name, length)) condition->counted = &ht_counted[i];
    return condition->counted != NULL;
}

static bool take_function(struct ht_condition *condition, const char *name, size_t length) {
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (is_named(functions[i], name, length)) return strcpy(condition->function, functions[i]);
    }
    return length == 0;
}

// FUNCTION, FUNCTION:SIZE or :SIZE, and a bracket behind it. What follows that, or NULL with a problem.
static const char *take_part(struct ht_condition *condition, const char *at, const char **problem) {
    size_t length = strcspn(at, ":]");
    bool sized = at[length] == ':';
    char *end = NULL;
    *problem = NULL;
    if (!take_function(condition, at, length) || (!sized && length == 0)) {
        *problem =
            "expected malloc, calloc, realloc, reallocarray, free, aligned_alloc, aligned_new, posix_memalign, "
            "valloc or other in brackets, such as instructions[malloc]>1.05 or instructions[malloc:64]>1.05";
        return NULL;
    }
    at += length;
    if (sized) {
        condition->size_bytes = strtoull(at + 1, &end, 10);
        if (end == at + 1 || at[1] < '0' || at[1] > '9' || condition->size_bytes > INT64_MAX) end = NULL;
        at = end;
    }
    if (at && *at == ']') return at + 1;
    *problem =
        "expected a size in bytes after the colon and a closing bracket, such as instructions[malloc:64]>1.05";
    return NULL;
}

// All figures, and that which was meant. Valid until the next call.
static const char *no_such_figure(const char *name, size_t length) {
    static char problem[512];
    char word[32], words[HT_MEANT_BYTES];
    struct ht_meant meant = {.word = word};
    snprintf(word, sizeof word, "%.*s", length < sizeof word ? (int)length : 0, name);
    size_t used = (size_t)snprintf(problem, sizeof problem, "expected one of ");
    for (int i = 0; i < HT_FIGURES + HT_COUNTED; i++) {
        const char *known = i < HT_FIGURES ? ht_figure_names[i] : ht_counted[i - HT_FIGURES].name;
        used += (size_t)snprintf(problem + used, sizeof problem - used, "%s%s", i ? ", " : "", known);
        ht_meant_try(&meant, known);
    }
    snprintf(problem + used, sizeof problem - used, ", such as time>1.05%s", ht_meant_words(&meant, words));
    return problem;
}

static const char *take_limit(struct ht_condition *condition, const char *at) {
    at += strspn(at, " ");
    if (*at != '<' && *at != '>') return "expected one of > >= < <= after the figure, such as time>1.05";
    condition->above = *at++ == '>';
    condition->inclusive = *at == '=';
    at += condition->inclusive;
    char *end = NULL;
    condition->limit = strtod(at, &end);
    // strtod would also take hexadecimal, which compare does not.
    bool decimal = end > at && strspn(at, "+-.0123456789eE ") >= (size_t)(end - at);
    if (!decimal || end[strspn(end, " ")] || !isfinite(condition->limit) || condition->limit <= 0) {
        return "expected a ratio above 0 after the operator, such as time>1.05";
    }
    return NULL;
}

const char *ht_fail_if_add(struct ht_conditions *conditions, const char *text) {
    struct ht_condition condition = {.size_bytes = UINT64_MAX};
    const char *name = text + strspn(text, " "), *at = name + strcspn(name, " <>=["), *problem;
    if (conditions->count == HT_CONDITIONS_MAX) return "expected at most 32 conditions";
    if (strlen(text) >= sizeof condition.text) return "expected a shorter condition, such as time>1.05";
    strcpy(condition.text, text);
    if (!take_figure(&condition, name, (size_t)(at - name))) return no_such_figure(name, (size_t)(at - name));
    if (*at == '[') {
        if (condition.counted != &ht_counted[0]) return "expected brackets after instructions only";
        at = take_part(&condition, at + 1, &problem);
        if (problem) return problem;
    }
    problem = take_limit(&condition, at);
    if (problem) return problem;
    conditions->list[conditions->count++] = condition;
    return NULL;
}
