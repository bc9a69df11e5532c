// SPDX-License-Identifier: Apache-2.0
// What heaptape stats reports: as JSON, and as text for people.
#ifndef HEAPTAPE_STATS_REPORT_H
#define HEAPTAPE_STATS_REPORT_H

#include <jansson.h>

#include "trace_stats.h"

// context: the trace's, or NULL.
json_t *stats_report_json(const struct trace_stats *stats, const json_t *context);
void stats_report_text(const struct trace_stats *stats, const json_t *context);

#endif
