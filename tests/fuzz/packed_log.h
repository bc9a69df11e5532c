// SPDX-License-Identifier: Apache-2.0
// A raw log in few bytes: header, context and the used part of each chunk, without the room between them, in
// which a fuzzer would lose itself. Unpacked, it is a file.
#ifndef HEAPTAPE_PACKED_LOG_H
#define HEAPTAPE_PACKED_LOG_H

#include "fuzz_input.h"

// Bits of a packed log's first byte: fields that would be wrong in almost every mutated input are set right.
enum { PACKED_RIGHT_HEADER = 1, PACKED_RIGHT_CHUNKS = 2, PACKED_FEW_STREAMS = 4 };

// Packed: that byte; struct ht_raw_header; a byte for the number of context bytes, and these; then chunks,
// each a byte for its pages less one, two for the number of record bytes, struct ht_raw_chunk, the records.
void packed_log_unpack(struct fuzz_input *input, int fd);

#endif
