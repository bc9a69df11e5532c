// SPDX-License-Identifier: Apache-2.0
// Decodes a trace, once, into the replay form (replay_form.h), and finds what else the launcher must know.
#ifndef HEAPTAPE_FORM_BUILDER_H
#define HEAPTAPE_FORM_BUILDER_H

#include "built_form.h"
#include "error.h"
#include "trace_reader.h"

// path: for messages. Returns 0, or -1 with error. reader and options must last until ht_form_free, because a
// streamed form is decoded again for each child.
int ht_form_build(struct ht_trace_reader *reader, const char *path, const struct ht_form_options *options,
                  struct ht_built_form *built, struct ht_error *error);
void ht_form_free(struct ht_built_form *built);

#endif
