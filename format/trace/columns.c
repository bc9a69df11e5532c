// SPDX-License-Identifier: Apache-2.0
#include "columns.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "error.h"
#include "grow.h"

// Columns shorter than this are stored: a zstd frame's own header would cost more than it saves.
enum { COMPRESS_BYTES_MIN = 24 };

struct ht_packer {
    ZSTD_CCtx *zstd;
    int level;
    uint64_t *wide;  // values widened or differenced
    uint64_t *difference;
    size_t wide_room;
    uint8_t *planes;
    size_t planes_room;
};

struct ht_unpacker {
    ZSTD_DCtx *zstd;
    uint8_t *planes;
    size_t planes_room;
};

struct ht_packer *ht_packer_new(int level) {
    struct ht_packer *packer = calloc(1, sizeof *packer);
    if (!packer) return NULL;
    packer->level = level;
    packer->zstd = ZSTD_createCCtx();
    if (!packer->zstd) {
        free(packer);
        return NULL;
    }
    return packer;
}

void ht_packer_free(struct ht_packer *packer) {
    if (!packer) return;
    ZSTD_freeCCtx(packer->zstd);
    free(packer->wide);
    free(packer->difference);
    free(packer->planes);
    free(packer);
}

void ht_payload_reset(struct ht_payload *payload) {
    payload->columns = 0;
    payload->used = 0;
}

void ht_payload_free(struct ht_payload *payload) {
    free(payload->bytes);
    *payload = (struct ht_payload){0};
}

static unsigned width_of(uint64_t all_bits) {
    return all_bits ? (71u - (unsigned)__builtin_clzll(all_bits)) / 8 : 0;
}

static uint64_t bits_of(const uint64_t *values, size_t count) {
    uint64_t all = 0;
    for (size_t i = 0; i < count; i++) all |= values[i];
    return all;
}

static void split_planes(const uint64_t *values, size_t count, unsigned width, uint8_t *planes) {
    for (unsigned plane = 0; plane < width; plane++)
        for (size_t i = 0; i < count; i++) planes[plane * count + i] = (uint8_t)(values[i] >> (8 * plane));
}

// Compresses `raw` onto the payload's end, or stores it where compression does not pay. Returns stored bytes
// or -1.
static long put_bytes(struct ht_packer *packer, struct ht_payload *payload, const uint8_t *raw, size_t bytes,
                      uint8_t *compression) {
    size_t bound = ZSTD_compressBound(bytes);
    if (!ht_grow(&payload->bytes, &payload->room, payload->used + bound, 1)) return -1;
    *compression = HT_STORED;
    if (bytes >= COMPRESS_BYTES_MIN) {
        size_t size =
            ZSTD_compressCCtx(packer->zstd, payload->bytes + payload->used, bound, raw, bytes, packer->level);
        if (!ZSTD_isError(size) && size < bytes) {
            *compression = HT_ZSTD;
            return (long)size;
        }
    }
    if (bytes) memcpy(payload->bytes + payload->used, raw, bytes);
    return (long)bytes;
}

static int put_column(struct ht_packer *packer, struct ht_payload *payload, uint8_t id, const uint8_t *raw,
                      unsigned width, uint8_t transform, size_t count) {
    assert(payload->columns < HT_COLUMNS_MAX);
    struct ht_column_entry *entry = &payload->entry[payload->columns];
    *entry = (struct ht_column_entry){
        .id = id, .width = (uint8_t)width, .transform = transform, .values = (uint32_t)count};
    size_t bytes = transform == HT_TRANSFORM_NIBBLES ? (count + 1) / 2 : width * count;
    long stored = put_bytes(packer, payload, raw, bytes, &entry->compression);
    if (stored < 0) return -1;
    entry->stored_bytes = (uint32_t)stored;
    payload->used += (size_t)stored;
    payload->columns++;
    return 0;
}

static int put_planes(struct ht_packer *packer, struct ht_payload *payload, uint8_t id,
                      const uint64_t *values, size_t count, uint8_t transform) {
    unsigned width = width_of(bits_of(values, count));
    if (!ht_grow(&packer->planes, &packer->planes_room, width * count, 1)) return -1;
    split_planes(values, count, width, packer->planes);
    return put_column(packer, payload, id, packer->planes, width, transform, count);
}

int ht_pack_u64(struct ht_packer *packer, struct ht_payload *payload, uint8_t id, const uint64_t *values,
                size_t count, int allow_difference) {
    size_t before = payload->used;
    if (put_planes(packer, payload, id, values, count, HT_TRANSFORM_PLAIN)) return -1;
    if (!allow_difference || count < 2) return 0;
    size_t room = packer->wide_room;
    if (!ht_grow(&packer->difference, &room, count, sizeof *values)) return -1;
    packer->wide_room = room;
    uint64_t last = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t step = values[i] - last;
        packer->difference[i] = step << 1 ^ (uint64_t)((int64_t)step >> 63);
        last = values[i];
    }
    // The second attempt is written behind the first; the smaller one is kept.
    size_t plain = payload->used - before;
    if (put_planes(packer, payload, id, packer->difference, count, HT_TRANSFORM_DIFFERENCE)) return -1;
    size_t differences = payload->used - before - plain;
    payload->columns--;
    if (differences < plain) {
        memmove(payload->bytes + before, payload->bytes + before + plain, differences);
        payload->entry[payload->columns - 1] = payload->entry[payload->columns];
        payload->used = before + differences;
    } else {
        payload->used = before + plain;
    }
    return 0;
}

int ht_pack_u32(struct ht_packer *packer, struct ht_payload *payload, uint8_t id, const uint32_t *values,
                size_t count, int allow_difference) {
    uint64_t *wide = malloc((count + 1) * sizeof *wide);
    if (!wide) return -1;
    for (size_t i = 0; i < count; i++) wide[i] = values[i];
    int result = ht_pack_u64(packer, payload, id, wide, count, allow_difference);
    free(wide);
    return result;
}

int ht_pack_nibbles(struct ht_packer *packer, struct ht_payload *payload, uint8_t id, const uint8_t *values,
                    size_t count) {
    size_t bytes = (count + 1) / 2;
    if (!ht_grow(&packer->planes, &packer->planes_room, bytes, 1)) return -1;
    for (size_t i = 0; i < count / 2; i++)
        packer->planes[i] = (uint8_t)(values[2 * i] | values[2 * i + 1] << 4);
    if (count % 2) packer->planes[bytes - 1] = values[count - 1];
    return put_column(packer, payload, id, packer->planes, 1, HT_TRANSFORM_NIBBLES, count);
}

int ht_pack_bytes(struct ht_packer *packer, struct ht_payload *payload, uint8_t id, const void *bytes,
                  size_t count) {
    return put_column(packer, payload, id, bytes, 1, HT_TRANSFORM_PLAIN, count);
}

struct ht_unpacker *ht_unpacker_new(void) {
    struct ht_unpacker *unpacker = calloc(1, sizeof *unpacker);
    if (!unpacker) return NULL;
    unpacker->zstd = ZSTD_createDCtx();
    if (!unpacker->zstd) {
        free(unpacker);
        return NULL;
    }
    return unpacker;
}

void ht_unpacker_free(struct ht_unpacker *unpacker) {
    if (!unpacker) return;
    ZSTD_freeDCtx(unpacker->zstd);
    free(unpacker->planes);
    free(unpacker);
}

// The library reads several frames one behind another, frames without content and frames of its first versions.
static bool is_one_frame(const uint8_t *stored, size_t stored_bytes, size_t bytes) {
    static const uint8_t magic[4] = {0x28, 0xb5, 0x2f, 0xfd};
    if (stored_bytes == 0) return bytes == 0;
    return stored_bytes > sizeof magic && !memcmp(stored, magic, sizeof magic) &&
           ZSTD_findFrameCompressedSize(stored, stored_bytes) == stored_bytes;
}

// The column's planes, uncompressed. NULL and *wrong otherwise.
static const uint8_t *planes_of(struct ht_unpacker *unpacker, const struct ht_column_entry *entry,
                                const uint8_t *stored, const char **wrong) {
    size_t bytes = entry->transform == HT_TRANSFORM_NIBBLES ? ((size_t)entry->values + 1) / 2
                                                            : (size_t)entry->width * entry->values;
    *wrong = NULL;
    if (entry->width > 8) *wrong = ht_found("expected a column of at most 8 bytes a value", entry->width);
    else if (entry->transform > HT_TRANSFORM_NIBBLES)
        *wrong = ht_found("expected a known column transform", entry->transform);
    else if (entry->compression > HT_ZSTD)
        *wrong = ht_found("expected a known column compression", entry->compression);
    else if (entry->compression == HT_STORED && entry->stored_bytes != bytes)
        *wrong = ht_found("expected a stored column of the length of its values", entry->stored_bytes);
    if (*wrong) return NULL;
    if (entry->compression == HT_STORED) return stored;
    if (!is_one_frame(stored, entry->stored_bytes, bytes)) {
        *wrong = "expected a column that is one zstd frame";
        return NULL;
    }
    if (!ht_grow(&unpacker->planes, &unpacker->planes_room, bytes + 1, 1)) {
        *wrong = "out of memory";
        return NULL;
    }
    size_t size = ZSTD_decompressDCtx(unpacker->zstd, unpacker->planes, bytes, stored, entry->stored_bytes);
    if (ZSTD_isError(size) || size != bytes) {
        *wrong = "expected a column that decompresses to its length";
        return NULL;
    }
    return unpacker->planes;
}

// The first plane sets the values and each further one is or-ed in: plain loops that vectorise.
#define JOIN_PLANES(type)                                                                                    \
    do {                                                                                                     \
        size_t n = entry->values;                                                                            \
        if (entry->width == 0) memset(values, 0, n * sizeof *values);                                        \
        for (unsigned plane = 0; plane < entry->width; plane++) {                                            \
            const uint8_t *from = planes + plane * n;                                                        \
            if (plane == 0)                                                                                  \
                for (size_t i = 0; i < n; i++) values[i] = from[i];                                          \
            else                                                                                             \
                for (size_t i = 0; i < n; i++) values[i] |= (type)from[i] << (8 * plane);                    \
        }                                                                                                    \
    } while (0)

static const char *unpack_u64(struct ht_unpacker *unpacker, const struct ht_column_entry *entry,
                              const uint8_t *stored, uint64_t *values) {
    const char *wrong;
    if (entry->transform == HT_TRANSFORM_NIBBLES) return "expected a column of whole values, found nibbles";
    const uint8_t *planes = planes_of(unpacker, entry, stored, &wrong);
    if (!planes) return wrong;
    JOIN_PLANES(uint64_t);
    if (entry->transform == HT_TRANSFORM_DIFFERENCE) {
        uint64_t sum = 0;
        for (size_t i = 0; i < entry->values; i++) {
            sum += values[i] >> 1 ^ -(values[i] & 1);
            values[i] = sum;
        }
    }
    return NULL;
}

const char *ht_unpack_u32(struct ht_unpacker *unpacker, const struct ht_column_entry *entry,
                          const uint8_t *stored, uint32_t *values) {
    const char *wrong;
    if (entry->transform == HT_TRANSFORM_NIBBLES) return "expected a column of whole values, found nibbles";
    // Differences of 32-bit values may need five bytes; they are summed in 64 bits.
    if (entry->width > 4) {
        uint64_t *wide = malloc(((size_t)entry->values + 1) * sizeof *wide);
        if (!wide) return "out of memory";
        wrong = unpack_u64(unpacker, entry, stored, wide);
        for (size_t i = 0; !wrong && i < entry->values; i++) {
            if (wide[i] > UINT32_MAX) wrong = ht_found("expected values below 2^32 in a column", wide[i]);
            values[i] = (uint32_t)wide[i];
        }
        free(wide);
        return wrong;
    }
    const uint8_t *planes = planes_of(unpacker, entry, stored, &wrong);
    if (!planes) return wrong;
    JOIN_PLANES(uint32_t);
    if (entry->transform == HT_TRANSFORM_DIFFERENCE) {
        uint64_t sum = 0, over = 0;
        for (size_t i = 0; i < entry->values; i++) {
            sum += values[i] >> 1 ^ -(uint64_t)(values[i] & 1);
            over |= sum >> 32;
            values[i] = (uint32_t)sum;
        }
        if (over) return "expected values below 2^32 in a column";
    }
    return NULL;
}

const char *ht_unpack_bytes(struct ht_unpacker *unpacker, const struct ht_column_entry *entry,
                            const uint8_t *stored, uint8_t *values) {
    const char *wrong;
    if (entry->width > 1 || entry->transform != HT_TRANSFORM_PLAIN)
        return "expected a column of bytes, found another layout";
    const uint8_t *planes = planes_of(unpacker, entry, stored, &wrong);
    if (!planes) return wrong;
    if (entry->width == 0) memset(values, 0, entry->values);
    else if (entry->values) memcpy(values, planes, entry->values);
    return NULL;
}

const char *ht_unpack_nibbles(struct ht_unpacker *unpacker, const struct ht_column_entry *entry,
                              const uint8_t *stored, uint8_t *values) {
    const char *wrong;
    if (entry->width != 1 || entry->transform != HT_TRANSFORM_NIBBLES)
        return "expected a column of nibbles, found another layout";
    const uint8_t *packed = planes_of(unpacker, entry, stored, &wrong);
    if (!packed) return wrong;
    size_t pairs = entry->values / 2;
    for (size_t i = 0; i < pairs; i++) {
        values[2 * i] = packed[i] & 15;
        values[2 * i + 1] = packed[i] >> 4;
    }
    if (entry->values % 2) {
        if (packed[pairs] > 15)
            return ht_found("expected nothing after a column's last nibble", packed[pairs] >> 4);
        values[2 * pairs] = packed[pairs];
    }
    return NULL;
}

const char *ht_check_directory(const struct ht_columns *columns) {
    struct ht_column_entry entry;
    bool seen[256] = {false};
    size_t at = columns->count * sizeof entry;
    for (unsigned i = 0; i < columns->count; i++) {
        memcpy(&entry, columns->payload + i * sizeof entry, sizeof entry);
        if (seen[entry.id]) return ht_found("expected each column once", entry.id);
        seen[entry.id] = true;
        if (entry.stored_bytes > columns->payload_bytes - at)
            return ht_found("expected columns within their section", entry.stored_bytes);
        at += entry.stored_bytes;
    }
    return at == columns->payload_bytes ? NULL : "expected a section that ends where its columns end";
}

const struct ht_column_entry *ht_find_column(const struct ht_columns *columns, uint8_t id,
                                             struct ht_column_entry *entry, const uint8_t **stored) {
    size_t at = columns->count * sizeof *entry;
    for (unsigned i = 0; i < columns->count; i++) {
        memcpy(entry, columns->payload + i * sizeof *entry, sizeof *entry);
        if (entry->id == id) {
            *stored = columns->payload + at;
            return entry;
        }
        at += entry->stored_bytes;
    }
    return NULL;
}

// A column of `count` values. *found: it is there; one without values may be left out.
static const char *expect_column(const struct ht_columns *columns, uint8_t id, size_t count,
                                 struct ht_column_entry *entry, const uint8_t **stored, bool *found) {
    *found = ht_find_column(columns, id, entry, stored) != NULL;
    if (!*found) return count ? "expected one more column" : NULL;
    return entry->values == count ? NULL
                                  : ht_found("expected another number of values in a column", entry->values);
}

const char *ht_column_u64(struct ht_unpacker *unpacker, const struct ht_columns *columns, uint8_t id,
                          uint64_t *values, size_t count) {
    struct ht_column_entry entry;
    const uint8_t *stored;
    bool found;
    const char *wrong = expect_column(columns, id, count, &entry, &stored, &found);
    return wrong || !found ? wrong : unpack_u64(unpacker, &entry, stored, values);
}

const char *ht_column_u32(struct ht_unpacker *unpacker, const struct ht_columns *columns, uint8_t id,
                          uint32_t *values, size_t count) {
    struct ht_column_entry entry;
    const uint8_t *stored;
    bool found;
    const char *wrong = expect_column(columns, id, count, &entry, &stored, &found);
    return wrong || !found ? wrong : ht_unpack_u32(unpacker, &entry, stored, values);
}
