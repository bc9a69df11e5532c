// SPDX-License-Identifier: Apache-2.0
// The list of modules of a table of call sites, where it is longer than a trace may have it.
#ifndef HEAPTAPE_SITE_MODULES_H
#define HEAPTAPE_SITE_MODULES_H

#include "site_table.h"

// Makes *fitted the same table with its own list of modules and locations, both to be freed by the caller: of modules only
// those with code in the table. One without a path, the last, stands for all that do not fit even so. Its other
// members are the table's. False for want of memory.
bool ht_site_modules_fit(const struct ht_site_table *table, size_t text_bytes_max,
                         struct ht_site_table *fitted);

#endif
