// SPDX-License-Identifier: Apache-2.0
// Reads what the numbers of call sites mean, and checks that every number in the tables names something.
#ifndef HEAPTAPE_SITE_READER_H
#define HEAPTAPE_SITE_READER_H

#include "site_table.h"
#include "trace_reader.h"

// Empty in a trace without call sites. Free with ht_site_table_free. Returns 0, or -1 with error.
int ht_trace_site_table(struct ht_trace_reader *reader, struct ht_site_table *table, struct ht_error *error);

#endif
