// SPDX-License-Identifier: Apache-2.0
// The logs of a group of processes become one trace.
#ifndef HEAPTAPE_GROUP_CONVERT_H
#define HEAPTAPE_GROUP_CONVERT_H

#include "convert_request.h"
#include "error.h"

// The request's input: the folder of the logs, or their file of snapshots. Returns 0, or -1 with error.
int group_convert(const struct convert_request *request, struct ht_error *error);

#endif
