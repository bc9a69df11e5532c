// SPDX-License-Identifier: Apache-2.0
// The call sites that allocate most, as text and as JSON.
#ifndef HEAPTAPE_SITE_REPORT_H
#define HEAPTAPE_SITE_REPORT_H

#include "site_stats.h"

// Nothing for a trace without call sites.
void site_report_text(const struct site_stats *stats);
// The list of them: empty for a trace without.
json_t *site_report_json(const struct site_stats *stats);

#endif
