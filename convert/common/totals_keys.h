// SPDX-License-Identifier: Apache-2.0
// Which of a trace's totals come from what: the one list for those that copy, import or extend a trace.
#ifndef HEAPTAPE_TOTALS_KEYS_H
#define HEAPTAPE_TOTALS_KEYS_H

#include <jansson.h>

enum totals_kind {
    TOTALS_COUNTED = 1,   // from the trace's events
    TOTALS_DROPPED = 2,   // of calls that are no events
    TOTALS_RECORDED = 4,  // measured while the program ran
};

// kinds: of enum totals_kind, ORed. Of those that the totals have.
void totals_make_unknown(json_t *totals, unsigned kinds);

// Puts those of the other totals in place of these.
void totals_put_counted(json_t *totals, const json_t *other);

#endif
