// SPDX-License-Identifier: Apache-2.0
#include "sealed_trace.h"

#include <stdlib.h>
#include <string.h>

#include "checksum.h"
#include "trace_layout.h"

enum { INDEX_COLUMNS = 5, LISTED_MAX = 256 };

struct listed {
    uint64_t row[INDEX_COLUMNS][LISTED_MAX];
    uint32_t count;
};

static void seal_section(struct ht_section_header *header, const uint8_t *payload) {
    XXH64_state_t hash;
    XXH64_reset(&hash, 0);
    XXH64_update(&hash, header, offsetof(struct ht_section_header, checksum));
    XXH64_update(&hash, payload, header->payload_bytes);
    header->checksum = XXH64_digest(&hash);
}

static void list(struct listed *listed, uint64_t offset, const struct ht_section_header *header) {
    if (listed->count == LISTED_MAX) return;
    const uint64_t row[INDEX_COLUMNS] = {offset, header->kind, header->rows, header->first_event,
                                         header->first_time};
    for (unsigned i = 0; i < INDEX_COLUMNS; i++) listed->row[i][listed->count] = row[i];
    listed->count++;
}

// Seals one section after the other, as far as there are any.
static void seal(uint8_t *file, size_t bytes, struct listed *listed) {
    struct ht_trace_header header;
    if (bytes < sizeof header) return;
    memcpy(&header, file, sizeof header);
    header.checksum = XXH64(&header, offsetof(struct ht_trace_header, checksum), 0);
    memcpy(file, &header, sizeof header);
    size_t at = sizeof header;
    struct ht_section_header section;
    while (bytes - at >= sizeof section) {
        memcpy(&section, file + at, sizeof section);
        if (section.magic != HT_SECTION_MAGIC || section.payload_bytes > bytes - at - sizeof section) break;
        seal_section(&section, file + at + sizeof section);
        memcpy(file + at, &section, sizeof section);
        list(listed, at, &section);
        at += sizeof section + section.payload_bytes;
    }
}

static struct ht_trace_footer footer_of(uint64_t index_offset, uint64_t file_bytes) {
    struct ht_trace_footer footer = {.index_offset = index_offset, .file_bytes = file_bytes};
    memcpy(footer.magic, HT_TRACE_END_MAGIC, sizeof footer.magic);
    footer.checksum = XXH64(&footer, offsetof(struct ht_trace_footer, checksum), 0);
    return footer;
}

static void add_index(int fd, uint64_t offset, const struct listed *listed) {
    struct {
        struct ht_column_entry entry[INDEX_COLUMNS];
        uint8_t planes[INDEX_COLUMNS * LISTED_MAX * 8];
    } payload = {0};
    uint32_t used = 0;
    for (unsigned column = 0; column < INDEX_COLUMNS; column++) {
        payload.entry[column] = (struct ht_column_entry){.id = (uint8_t)(column + 1),
                                                         .width = 8,
                                                         .values = listed->count,
                                                         .stored_bytes = 8 * listed->count};
        for (unsigned plane = 0; plane < 8; plane++)
            for (uint32_t i = 0; i < listed->count; i++)
                payload.planes[used++] = (uint8_t)(listed->row[column][i] >> 8 * plane);
    }
    struct ht_section_header header = {.magic = HT_SECTION_MAGIC,
                                       .kind = HT_SECTION_INDEX,
                                       .columns = INDEX_COLUMNS,
                                       .payload_bytes = (uint32_t)sizeof payload.entry + used};
    seal_section(&header, (const uint8_t *)&payload);
    fuzz_write(fd, &header, sizeof header, offset);
    fuzz_write(fd, &payload, header.payload_bytes, offset + sizeof header);
    uint64_t end = offset + sizeof header + header.payload_bytes;
    struct ht_trace_footer footer = footer_of(offset, end + sizeof footer);
    fuzz_write(fd, &footer, sizeof footer, end);
}

void sealed_trace_write(struct fuzz_input *input, int fd) {
    struct listed listed = {0};
    uint8_t flags = fuzz_take_byte(input);
    size_t bytes = input->left;
    uint8_t *file = malloc(bytes ? bytes : 1);
    FUZZ_EXPECT(file, "no memory");
    fuzz_take(input, file, bytes);
    if (flags & (SEALED_CHECKSUMS | SEALED_LISTED)) seal(file, bytes, &listed);
    struct ht_trace_footer footer;
    if (flags & SEALED_CHECKSUMS && bytes >= sizeof footer &&
        !memcmp(file + bytes - sizeof footer, HT_TRACE_END_MAGIC, sizeof footer.magic)) {
        memcpy(&footer, file + bytes - sizeof footer, sizeof footer);
        footer = footer_of(footer.index_offset, bytes);
        memcpy(file + bytes - sizeof footer, &footer, sizeof footer);
    }
    fuzz_reset(fd, 0);
    fuzz_write(fd, file, bytes, 0);
    if (flags & SEALED_LISTED) add_index(fd, bytes, &listed);
    free(file);
}
