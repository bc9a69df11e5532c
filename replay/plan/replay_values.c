// SPDX-License-Identifier: Apache-2.0
#include "replay_values.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "option_values.h"
#include "simulation.h"

const char *const ht_touch_names[HT_TOUCHES] = {"none", "first", "pages", "all", "recorded"};
const char *const ht_touch_free_names[HT_TOUCH_FREES] = {"none", "read", "write", "recorded"};

static const double FASTER_MIN = 1e-3, FASTER_MAX = 1e6;

static bool parse_times(const char *text, double *times) {
    char *end;
    // A plain decimal: strtod would also take hexadecimal, infinity and leading space.
    if (!*text || text[strspn(text, "0123456789.")]) return false;
    *times = strtod(text, &end);
    return end != text && !*end && *times >= FASTER_MIN && *times <= FASTER_MAX;
}

static bool parse_pace(const char *text, struct ht_pace *pace) {
    double times = 0;
    if (strlen(text) >= sizeof pace->name) return false;
    if (!strcmp(text, "none")) *pace = (struct ht_pace){.virtual_time = false};
    else if (!strcmp(text, "virtual")) *pace = (struct ht_pace){.virtual_time = true};
    else if (!strcmp(text, "real")) *pace = (struct ht_pace){.real_ns_per_trace_ns = 1};
    else if (*text == 'x' && parse_times(text + 1, &times))
        *pace = (struct ht_pace){.virtual_time = true, .real_ns_per_trace_ns = 1 / times};
    else return false;
    strcpy(pace->name, text);
    return true;
}

bool ht_paces_parse(const char *text, struct ht_paces *paces) {
    char copy[128], *rest = copy, *one;
    struct ht_paces parsed = *paces;
    if (strlen(text) >= sizeof copy) return false;
    strcpy(copy, text);
    if (!strchr(copy, '=')) {
        if (!parse_pace(copy, &parsed.time)) return false;
        parsed.memory = parsed.time;
    } else {
        while ((one = strsep(&rest, ","))) {
            bool of_time = !strncmp(one, "time=", 5), of_memory = !strncmp(one, "memory=", 7);
            if (of_time ? !parse_pace(one + 5, &parsed.time)
                        : !of_memory || !parse_pace(one + 7, &parsed.memory)) {
                return false;
            }
        }
    }
    *paces = parsed;
    return true;
}

static bool parse_moment(const char *text, struct ht_snapshot_times *times) {
    if (!strcmp(text, "peak")) return times->peak = true;
    if (!strcmp(text, "end")) return times->end = true;
    if (!strcmp(text, "jumps")) return times->jumps = true;
    return times->count < HT_SNAPSHOT_TIMES_MAX && ht_parse_duration(text, &times->at_ns[times->count++]);
}

bool ht_snapshot_times_parse(const char *text, struct ht_snapshot_times *times) {
    char copy[256], *rest = copy, *one;
    struct ht_snapshot_times parsed = {0};
    if (strlen(text) >= sizeof copy) return false;
    strcpy(copy, text);
    while ((one = strsep(&rest, ","))) {
        if (!parse_moment(one, &parsed)) return false;
    }
    *times = parsed;
    return true;
}

static const uint64_t bytes_max = UINT64_C(1) << 40, pages_max = UINT64_C(1) << 24;

// In the time of a program between its calls: a line of data that the first-level cache lacked, a line of code, and a page
// that the first TLB lacked. Medians of programs (docs/method/method.md).
static const double data_line_ns = 50, code_line_ns = 130, page_ns = 300;

static uint64_t entries(const struct ht_geometry *geometry, enum ht_level level) {
    return (uint64_t)geometry->size.level[level].sets * geometry->size.level[level].ways;
}

// Twice what there is of each, so that an approximate replacement leaves nothing.
static struct ht_pollution all_of_it(void) {
    struct ht_geometry geometry;
    ht_geometry_read(&geometry);
    return (struct ht_pollution){.data_bytes = 2 * entries(&geometry, HT_L2) * HT_POLLUTION_LINE_BYTES,
                                 .code_bytes = 2 * entries(&geometry, HT_L1I) * HT_POLLUTION_LINE_BYTES,
                                 .pages = 2 * entries(&geometry, HT_STLB)};
}

static bool parse_part(const char *text, struct ht_pollution *pollution) {
    const char *value = strchr(text, '=');
    if (!value++) return false;
    if (!strncmp(text, "data=", 5))
        return ht_parse_bytes(value, 1 << 10, &pollution->data_bytes) && pollution->data_bytes <= bytes_max;
    if (!strncmp(text, "code=", 5))
        return ht_parse_bytes(value, 1 << 10, &pollution->code_bytes) && pollution->code_bytes <= bytes_max;
    return !strncmp(text, "tlb=", 4) && ht_parse_bytes(value, 1, &pollution->pages) &&
           pollution->pages <= pages_max;
}

static bool parse_parts(const char *text, struct ht_pollution *pollution) {
    char *parts = strdup(text), *rest = NULL;
    bool good = parts != NULL;
    for (char *part = good ? strtok_r(parts, ",", &rest) : NULL; part && good;
         part = strtok_r(NULL, ",", &rest))
        good = parse_part(part, pollution);
    free(parts);
    return good;
}

const char *ht_pollution_parse(const char *text, struct ht_pollution *pollution, bool *by_trace) {
    *pollution = (struct ht_pollution){0};
    *by_trace = !strcmp(text, "trace");
    if (!strcmp(text, "all")) *pollution = all_of_it();
    else if (strchr(text, '=') && !parse_parts(text, pollution))
        return "expected data=SIZE, code=SIZE or tlb=PAGES, separated by commas";
    else if (!*by_trace && !strchr(text, '=') &&
             (!ht_parse_bytes(text, 1 << 10, &pollution->data_bytes) || pollution->data_bytes > bytes_max))
        return "expected a size of at most 1T, such as 2M; trace; all; or data=SIZE,code=SIZE,tlb=PAGES";
    return NULL;
}

static uint64_t at_most(double amount, uint64_t most) {
    return amount < (double)most ? (uint64_t)(amount + 0.5) : most;
}

struct ht_pollution ht_pollution_of_gap(double gap_ns) {
    const uint64_t line = HT_POLLUTION_LINE_BYTES;
    struct ht_pollution all = all_of_it();
    return (struct ht_pollution){.data_bytes = at_most(gap_ns / data_line_ns, all.data_bytes / line) * line,
                                 .code_bytes = at_most(gap_ns / code_line_ns, all.code_bytes / line) * line,
                                 .pages = at_most(gap_ns / page_ns, all.pages)};
}

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
