// SPDX-License-Identifier: Apache-2.0
// Wrappers of malloc in modules without names, as stripped ones are: known by their place in the stacks alone.
#ifndef HEAPTAPE_NAMELESS_WRAPPERS_H
#define HEAPTAPE_NAMELESS_WRAPPERS_H

#include "site_table.h"

// A nameless return address is a wrapper's if more than half of its module's stacks lead to it, outside other wrappers, from eight
// callers or more. So are those below it that hardly anybody else calls (one or two callers). skipped: by location, whether all of
// its frames are wrappers or runtime libraries; those that are found are added to it. False for want of memory. The same as
// nameless_wrappers of analysis/heaptape/sites/frames.py.
bool nameless_wrappers_add(const struct ht_site_table *table, bool *skipped);

#endif
