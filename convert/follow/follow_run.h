// SPDX-License-Identifier: Apache-2.0
// A follower as a command: its signals, what it says, and its exit status.
#ifndef HEAPTAPE_FOLLOW_RUN_H
#define HEAPTAPE_FOLLOW_RUN_H

#include "convert_request.h"

// Follows to the end of the log, or until SIGINT, SIGTERM or SIGHUP. Returns the exit status.
int follow_run(const struct convert_request *request);

#endif
