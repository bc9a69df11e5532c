// SPDX-License-Identifier: Apache-2.0
// heaptape convert --to FORMAT: a trace becomes another tool's file.
#ifndef HEAPTAPE_EXPORT_H
#define HEAPTAPE_EXPORT_H

#include <stdbool.h>

#include "error.h"

struct export_format;

// NULL if there is no format of that name.
const struct export_format *export_find(const char *name);
// The names of all formats, as "a, b or c".
#define EXPORT_NAMES "malloc_wrap, android or rep"

// What the names of its files end in, unless given otherwise.
const char *export_suffix(const struct export_format *format);

// Makes an empty file for the trace that an input which is none becomes on the way: beside the output, or in
// $TMPDIR for standard output and devices. Its name is to be freed, the file removed by export_trace with
// `temporary`, or by export_drop_temporary; or by a signal that ends us. NULL and an error if it cannot be
// made.
char *export_temporary_trace(const char *output, struct ht_error *error);
void export_drop_temporary(const char *trace);

// Writes the trace to `output` ("-": standard output), which appears when it is complete, and says on stderr
// what the format could not hold. `temporary`: removes the trace as soon as it is open.
int export_trace(const struct export_format *format, const char *trace, bool temporary, const char *output,
                 bool quiet, struct ht_error *error);

#endif
