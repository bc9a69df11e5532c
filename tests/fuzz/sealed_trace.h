// SPDX-License-Identifier: Apache-2.0
// A trace with its checksums set right, so that a fuzzer gets past them.
#ifndef HEAPTAPE_SEALED_TRACE_H
#define HEAPTAPE_SEALED_TRACE_H

#include "fuzz_input.h"

// Bits of the first byte; the file follows. Sealed: checksums of header, sections and footer are right.
// Listed: an index and a footer that fit the sections are added behind the input.
enum { SEALED_CHECKSUMS = 1, SEALED_LISTED = 2 };

void sealed_trace_write(struct fuzz_input *input, int fd);

#endif
