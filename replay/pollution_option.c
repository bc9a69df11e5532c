// SPDX-License-Identifier: Apache-2.0
#include "pollution_option.h"

#include <stdlib.h>
#include <string.h>

#include "geometry.h"
#include "option_values.h"

static const uint64_t bytes_max = UINT64_C(1) << 40, pages_max = UINT64_C(1) << 24;

// In the time of a program between its calls: a line of data that the first-level cache lacked, a line of code, and a page
// that the first TLB lacked. Medians of programs (docs/method/cost-model.md).
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
