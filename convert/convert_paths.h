// SPDX-License-Identifier: Apache-2.0
// Where conversions write: the traces' names, and what they must not overwrite.
#ifndef HEAPTAPE_CONVERT_PATHS_H
#define HEAPTAPE_CONVERT_PATHS_H

#include <stdbool.h>

#include "convert_request.h"

#define CONVERT_TRACE_ENDING ".bin"

// Does the path name a folder, or does it end like one?
bool convert_is_folder(const char *path);

// Is it a regular file that begins like a raw log; like a trace? "-" is none.
bool convert_is_raw_log(const char *path);
bool convert_is_trace(const char *path);

// The output's path for one input: `wanted` itself, or a name in the folder `wanted`, or beside the input
// where that is NULL (then the name's known endings make room for `ending`, .bin for a trace). To be freed;
// NULL for want of memory.
char *convert_output_path(const char *input, const char *wanted, const char *ending);

// What is wrong with writing `output`, given all inputs; NULL if nothing. `own` is the input that it is made
// of.
const char *convert_overwrites(const char *output, const char *own, char *const *inputs, unsigned count);

#endif
