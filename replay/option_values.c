#include "option_values.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct unit {
    const char *name;
    double value;
};

// The number before the unit, which *rest is left at.
static bool number_before(const char *text, const char **rest, double *number) {
    char *end = NULL;
    if (strspn(text, "0123456789.") == 0) return false;  // no sign, no hexadecimal, no "inf"
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) return false;
    *number = strtod(text, &end);
    if (end == text) return false;
    *rest = end + strspn(end, " ");
    return true;
}

static bool with_unit(const char *text, const struct unit *units, size_t count, double plain,
                      uint64_t *value) {
    const char *rest;
    double number, unit = -1;
    if (!number_before(text, &rest, &number)) return false;
    if (!*rest) unit = plain;
    for (size_t i = 0; i < count; i++) {
        if (!strcasecmp(rest, units[i].name)) unit = units[i].value;
    }
    double product = number * unit;
    if (product < 0 || product >= 0x1p63) return false;
    *value = (uint64_t)product;
    return true;
}

bool ht_parse_bytes(const char *text, uint64_t plain_bytes, uint64_t *bytes) {
    static const struct unit units[] = {
        {"B", 1},        {"K", 0x1p10},   {"M", 0x1p20},   {"G", 0x1p30},   {"T", 0x1p40},
        {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}, {"kB", 1e3},
        {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12},
    };
    return with_unit(text, units, sizeof units / sizeof *units, (double)plain_bytes, bytes);
}

bool ht_parse_duration(const char *text, uint64_t *ns) {
    static const struct unit units[] = {{"ns", 1},   {"us", 1e3},   {"ms", 1e6},  {"s", 1e9},
                                        {"m", 60e9}, {"min", 60e9}, {"h", 3600e9}};
    return with_unit(text, units, sizeof units / sizeof *units, 1e9, ns);
}
