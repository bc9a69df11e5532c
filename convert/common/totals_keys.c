// SPDX-License-Identifier: Apache-2.0
#include "totals_keys.h"

#include <stddef.h>

static const struct {
    const char *key;
    enum totals_kind kind;
} keys[] = {
    {"events", TOTALS_COUNTED},
    {"records", TOTALS_COUNTED},
    {"ops", TOTALS_COUNTED},
    {"control_calls", TOTALS_COUNTED},
    {"threads", TOTALS_COUNTED},
    {"slots", TOTALS_COUNTED},
    {"peak_live_bytes", TOTALS_COUNTED},
    {"peak_live_objects", TOTALS_COUNTED},
    {"end_live_bytes", TOTALS_COUNTED},
    {"end_live_objects", TOTALS_COUNTED},
    {"inherited_objects", TOTALS_COUNTED},
    {"inherited_bytes", TOTALS_COUNTED},
    {"foreign_frees", TOTALS_COUNTED},
    {"failed_calls", TOTALS_COUNTED},
    {"foreign_queries", TOTALS_DROPPED},
    {"recorded_rss_peak_bytes", TOTALS_RECORDED},
    {"recorded_own_peak_bytes", TOTALS_RECORDED},
    {"recorded_heap_rss_peak_bytes", TOTALS_RECORDED},
    {"recorded_heap_rss_low_bytes", TOTALS_RECORDED},
    {"recorded_heap_rss_high_bytes", TOTALS_RECORDED},
    {"recorded_explained_bytes", TOTALS_RECORDED},
    {"recorded_cpu_ns", TOTALS_RECORDED},
};
enum { KEYS = sizeof keys / sizeof *keys };

void totals_make_unknown(json_t *totals, unsigned kinds) {
    for (size_t i = 0; i < KEYS; i++)
        if ((keys[i].kind & kinds) && json_object_get(totals, keys[i].key))
            json_object_set_new(totals, keys[i].key, json_null());
}

void totals_put_counted(json_t *totals, const json_t *other) {
    for (size_t i = 0; i < KEYS; i++)
        if (keys[i].kind == TOTALS_COUNTED)
            json_object_set(totals, keys[i].key, json_object_get(other, keys[i].key));
}
