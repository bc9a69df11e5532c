// SPDX-License-Identifier: Apache-2.0
// One run as one line of results.jsonl, written the moment it ends.
#ifndef HEAPTAPE_RESULTS_LINE_H
#define HEAPTAPE_RESULTS_LINE_H

#include <jansson.h>

#include "error.h"
#include "run_result.h"

// Opens path for appending. Refuses what is not a file of results, such as the trace itself by a slip of the
// pen: appending would spoil it. Returns -1 with error.
int ht_results_open(const char *path, struct ht_error *error);

// How each line begins; trace is given away.
json_t *ht_results_head(const struct ht_plan *plan, const struct ht_choice *choice, json_t *trace,
                        const char *pass, uint32_t round, uint64_t seed, const char *pace);
// How each line ends.
void ht_results_machine(json_t *run, const struct ht_machine *machine, uint64_t started_realtime_ns);

// The line as JSON; without its curves "timeline" is null.
json_t *ht_results_line(const struct ht_run_result *line, bool with_curves);
// Appends it to fd with one write. Returns 0, or -1 with errno.
int ht_results_line_write(int fd, const json_t *line);

// What one pastes before a command to have the same knobs, what the recorded program had beside them, and what the allocator
// needs anyway.
json_t *ht_environment_json(const struct ht_choice *choice);
// The settings of the recorded program that are in force, by their names.
json_t *ht_settings_json(const struct ht_choice *choice);
// Those that no replay has, as a list of NAME=value.
json_t *ht_left_out_json(const struct ht_choice *choice);

#endif
