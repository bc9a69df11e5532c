// SPDX-License-Identifier: Apache-2.0
#include "packed_log.h"

#include <string.h>
#include <unistd.h>

#include "raw_layout.h"

enum { CHUNKS_MAX = 64, STREAMS = 8, CHUNK_PAGES_MAX = 4 };

static void right_header(struct ht_raw_header *header, uint64_t end, uint32_t context_bytes) {
    memcpy(header->magic, HT_RAW_MAGIC, sizeof header->magic);
    header->version = HT_RAW_VERSION;
    header->min_reader = HT_RAW_MIN_READER;
    header->features = 0;
    header->header_bytes = HT_RAW_HEADER_BYTES;
    header->clock_kind = 1 + header->clock_kind % 3;
    header->clock_shift %= 33;
    header->chunks_end = end;
    header->context_bytes = context_bytes;
}

static void right_chunk(struct ht_raw_chunk *chunk, uint32_t bytes, uint32_t used, uint8_t flags,
                        uint32_t index[STREAMS]) {
    chunk->magic = HT_CHUNK_MAGIC;
    chunk->bytes = bytes;
    if (chunk->used) chunk->used = used;
    if (!(flags & PACKED_FEW_STREAMS)) return;
    chunk->stream %= STREAMS;
    chunk->index = index[chunk->stream]++;
    // The odd streams are nested in the one before.
    chunk->outer = chunk->stream & 1 ? chunk->stream : 0;
}

void packed_log_unpack(struct fuzz_input *input, int fd) {
    struct ht_raw_header header;
    uint32_t index[STREAMS] = {0};
    uint8_t flags = fuzz_take_byte(input), context[255];
    uint64_t end = HT_RAW_HEADER_BYTES;
    fuzz_reset(fd, end);
    fuzz_take(input, &header, sizeof header);
    uint8_t context_bytes = fuzz_take_byte(input);
    fuzz_take(input, context, context_bytes);
    for (unsigned i = 0; i < CHUNKS_MAX && input->left; i++) {
        struct ht_raw_chunk chunk;
        uint8_t records[CHUNK_PAGES_MAX * HT_CHUNK_ALIGN - sizeof chunk];
        uint32_t pages = 1 + fuzz_take_byte(input) % CHUNK_PAGES_MAX, bytes = pages * HT_CHUNK_ALIGN;
        uint32_t count = fuzz_take_byte(input);
        count |= (uint32_t)fuzz_take_byte(input) << 8;
        count %= bytes - (uint32_t)sizeof chunk + 1;
        fuzz_take(input, &chunk, sizeof chunk);
        if (count > input->left) count = (uint32_t)input->left;
        fuzz_take(input, records, count);
        if (flags & PACKED_RIGHT_CHUNKS)
            right_chunk(&chunk, bytes, (uint32_t)sizeof chunk + count, flags, index);
        fuzz_write(fd, &chunk, sizeof chunk, end);
        fuzz_write(fd, records, count, end + sizeof chunk);
        end += bytes;
    }
    if (flags & PACKED_RIGHT_HEADER) right_header(&header, end, context_bytes);
    fuzz_write(fd, &header, sizeof header, 0);
    fuzz_write(fd, context, context_bytes, HT_RAW_CONTEXT_OFFSET);
    // The last chunk's room belongs to the file.
    FUZZ_EXPECT(!ftruncate(fd, (off_t)end), "cannot resize");
}
