// SPDX-License-Identifier: Apache-2.0
// The raw trace of glibc's malloc-trace-utils: an array of 64-byte records, in the order of their slots.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "import_formats.h"

enum { RECORDS_AT_ONCE = 1024 };
static const uint64_t MAGIC_POINTER = 0x1234;

enum record_type {
    TYPE_UNUSED = 0,
    TYPE_MALLOC,
    TYPE_CALLOC,
    TYPE_FREE,
    TYPE_REALLOC,
    TYPE_MEMALIGN,
    TYPE_VALLOC,
    TYPE_PVALLOC,
    TYPE_POSIX_MEMALIGN,
    TYPE_MAGIC = 255
};

struct record {
    uint32_t thread;
    uint8_t type, path[3];
    uint64_t ptr1, ptr2, size, size2, size3, padding[2];
};
static_assert(sizeof(struct record) == 64, "trace-utils record");

static const char *take_record(struct import *import, const struct record *record) {
    struct import_call call = {.thread = record->thread, .address = record->ptr2, .size = record->size};
    switch (record->type) {
    case TYPE_UNUSED:
    case TYPE_MAGIC: return NULL;
    case TYPE_MALLOC: call.function = HT_MALLOC; break;
    case TYPE_CALLOC:
        call.function = HT_CALLOC;
        call.extra = 1;  // the size is the product
        break;
    case TYPE_FREE:
        call.function = HT_FREE;
        call.address = record->ptr1;
        call.size = 0;
        break;
    case TYPE_REALLOC:
        call.function = HT_REALLOC;
        call.old_address = record->ptr1;
        break;
    case TYPE_MEMALIGN:
        call.function = HT_MEMALIGN;
        call.extra = record->size2;
        break;
    case TYPE_VALLOC: call.function = HT_VALLOC; break;
    case TYPE_PVALLOC: call.function = HT_PVALLOC; break;
    case TYPE_POSIX_MEMALIGN:
        call.function = HT_POSIX_MEMALIGN;
        call.extra = record->size2;
        call.failed = record->ptr1 != 0;  // the error
        break;
    default: return ht_found("a type from 0 to 8 or 255", record->type);
    }
    return import_sink_call(&import->sink, &call);
}

static int reject(struct import *import, uint64_t number, const char *expected, struct ht_error *error) {
    char what[40];
    snprintf(what, sizeof what, "record %" PRIu64, number);
    return import_reject(import, import->input.offset, what, expected, error);
}

static int take_records(struct import *import, struct ht_error *error) {
    struct import_input *input = &import->input;
    for (uint64_t number = 1;;) {
        size_t bytes = import_input_peek(input, RECORDS_AT_ONCE * sizeof(struct record));
        if (bytes < sizeof(struct record)) {
            if (!bytes || input->failed) return 0;
            return reject(import, number, "64 bytes, found the end of the file", error);
        }
        for (size_t i = 0; i < bytes / sizeof(struct record); i++, number++) {
            struct record record;
            memcpy(&record, input->buffer + input->begin, sizeof record);
            const char *expected = take_record(import, &record);
            if (expected && reject(import, number, expected, error)) return -1;
            import_input_consume(input, sizeof record);
        }
        if (!import_goes_on(import)) return 0;
    }
}

static bool sniff(const char *head, size_t bytes) {
    struct record record;
    if (bytes < sizeof record) return false;
    memcpy(&record, head, sizeof record);
    return record.type == TYPE_MAGIC && record.ptr1 == MAGIC_POINTER && record.size <= sizeof(uint64_t);
}

const struct import_format import_trace_utils = {
    .name = "trace_utils", .title = "glibc malloc-trace-utils", .sniff = sniff, .whole = take_records};
