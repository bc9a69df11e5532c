// SPDX-License-Identifier: Apache-2.0
// heaptape info of a group's trace.
#ifndef HEAPTAPE_GROUP_INFO_H
#define HEAPTAPE_GROUP_INFO_H

#include <jansson.h>

#include "group_trace.h"

// What `info --json` prints. NULL with error.
json_t *group_info_json(struct ht_group_trace *group, struct ht_error *error);
// The same for people.
void group_info_print(const json_t *info);

#endif
