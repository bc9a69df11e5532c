// SPDX-License-Identifier: Apache-2.0
// Bytes that a reader asks for, given out so many at once.
#ifndef HEAPTAPE_BYTES_SOURCE_H
#define HEAPTAPE_BYTES_SOURCE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bytes_source {
    const uint8_t *at;
    size_t left, at_once;
};

static inline size_t bytes_source_give(void *context, uint8_t *room, size_t count) {
    struct bytes_source *source = context;
    if (count > source->left) count = source->left;
    if (count > source->at_once) count = source->at_once;
    if (count) memcpy(room, source->at, count);
    source->at += count;
    source->left -= count;
    return count;
}

#endif
