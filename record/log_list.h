// SPDX-License-Identifier: Apache-2.0
// heaptape record --list: the processes of a run whose logs are in a folder.
#ifndef HEAPTAPE_LOG_LIST_H
#define HEAPTAPE_LOG_LIST_H

#include <stdbool.h>

// Prints a table, or JSON: the program that matters comes first. Returns an exit status.
int log_list_print(const char *folder, bool as_json);

#endif
