// SPDX-License-Identifier: Apache-2.0
// A prelude's trace under the slice's names: its threads that go on in the slice have the slice's numbers, and the last object
// of a slot with which the slice begins has the slot that it has there. So the slice can go on where the prelude ends.
#ifndef HEAPTAPE_PRELUDE_NAMES_H
#define HEAPTAPE_PRELUDE_NAMES_H

#include "error.h"
#include "trace_reader.h"

// The prelude of a slice, to be closed; *named is NULL where it has none. Returns 0, or -1 with error.
int ht_prelude_named(struct ht_trace_reader *slice, struct ht_trace_reader **named, struct ht_error *error);

#endif
