// SPDX-License-Identifier: Apache-2.0
// Columns of integers as byte planes, optionally as differences, compressed by zstd (docs/reference/trace-format.md).
// The array operations here are the whole encoding: no state crosses a column.
#ifndef HEAPTAPE_COLUMNS_H
#define HEAPTAPE_COLUMNS_H

#include <stddef.h>
#include <stdint.h>

#include "trace_layout.h"

struct ht_packer;    // compression state and scratch space
struct ht_unpacker;  // decompression state and scratch space

// level: zstd's. NULL if memory is short.
struct ht_packer *ht_packer_new(int level);
void ht_packer_free(struct ht_packer *packer);

// A payload under construction: directory entries and column bytes.
struct ht_payload {
    struct ht_column_entry entry[HT_COLUMNS_MAX];
    unsigned columns;
    uint8_t *bytes;
    size_t used, room;
};

void ht_payload_reset(struct ht_payload *payload);
void ht_payload_free(struct ht_payload *payload);

// Appends a column. `allow_difference` lets the packer store differences where they are smaller.
// values: count integers. Returns 0, or -1 if memory is short.
int ht_pack_u64(struct ht_packer *packer, struct ht_payload *payload, uint8_t id, const uint64_t *values,
                size_t count, int allow_difference);
int ht_pack_u32(struct ht_packer *packer, struct ht_payload *payload, uint8_t id, const uint32_t *values,
                size_t count, int allow_difference);
int ht_pack_bytes(struct ht_packer *packer, struct ht_payload *payload, uint8_t id, const void *bytes,
                  size_t count);

// Values below 16, two in a byte.
int ht_pack_nibbles(struct ht_packer *packer, struct ht_payload *payload, uint8_t id, const uint8_t *values,
                    size_t count);

struct ht_unpacker *ht_unpacker_new(void);
void ht_unpacker_free(struct ht_unpacker *unpacker);

// Decode one column of `stored` bytes described by entry into entry->values integers, here below 2^32. Return
// NULL, or what is wrong with the column.
const char *ht_unpack_u32(struct ht_unpacker *unpacker, const struct ht_column_entry *entry,
                          const uint8_t *stored, uint32_t *values);
const char *ht_unpack_bytes(struct ht_unpacker *unpacker, const struct ht_column_entry *entry,
                            const uint8_t *stored, uint8_t *values);
const char *ht_unpack_nibbles(struct ht_unpacker *unpacker, const struct ht_column_entry *entry,
                              const uint8_t *stored, uint8_t *values);

// The columns of a section that was read: its directory and what follows it.
struct ht_columns {
    const uint8_t *payload;
    size_t payload_bytes;  // at least the directory's
    unsigned count;
};

// Are the columns within the payload and all of it, each of them once? Returns NULL, or what is wrong.
const char *ht_check_directory(const struct ht_columns *columns);
// Finds a column of a directory that has been checked. *stored points at its bytes. NULL if it is absent.
const struct ht_column_entry *ht_find_column(const struct ht_columns *columns, uint8_t id,
                                             struct ht_column_entry *entry, const uint8_t **stored);
// Decode a column that must hold `count` values; it may be absent where that is 0. Return NULL, or what is
// wrong.
const char *ht_column_u64(struct ht_unpacker *unpacker, const struct ht_columns *columns, uint8_t id,
                          uint64_t *values, size_t count);
const char *ht_column_u32(struct ht_unpacker *unpacker, const struct ht_columns *columns, uint8_t id,
                          uint32_t *values, size_t count);

#endif
