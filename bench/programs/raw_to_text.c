// SPDX-License-Identifier: Apache-2.0
// A raw log as the text that malloc_wrap would have written for the same calls:
//
//     xADDRESS = malloc(SIZE);    xADDRESS = calloc(N, SIZE);    xNEW = realloc(xOLD, SIZE); free(xADDRESS);
//
// Programs of one thread only: the text has no threads, and malloc_wrap was made for such. Calls of other
// functions are left out, as it did not see them.
//
//     raw_to_text RAW > TEXT
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "raw_reader.h"
#include "read_at.h"
#include "talk.h"

struct counts {
    uint64_t calls, others;
};

static void print_free(const struct ht_raw_record *record, struct counts *counts) {
    // The C++ library's operator delete is free, which it saw; so is its operator new malloc.
    if (record->function && record->function != HT_FREE && record->function < HT_DELETE) {
        counts->others++;
        return;
    }
    printf("free(x%" PRIx64 ");\n", record->op == HT_RAW_FREE_NULL ? 0 : record->address);
    counts->calls++;
}

// `old` is the block and `size` the bytes of a realloc that has begun.
static void print_record(const struct ht_raw_record *record, struct ht_raw_record *begun,
                         struct counts *counts) {
    uint64_t result = record->failed ? 0 : record->address;
    counts->calls++;
    switch (record->op) {
    case HT_RAW_MALLOC: printf("x%" PRIx64 " = malloc(%" PRIu64 ");\n", result, record->size); return;
    case HT_RAW_CALLOC:
        printf("x%" PRIx64 " = calloc(%" PRIu64 ", %" PRIu64 ");\n", result, record->count, record->size);
        return;
    case HT_RAW_REALLOC_NULL:
        printf("x%" PRIx64 " = realloc(x0, %" PRIu64 ");\n", result, record->size);
        return;
    case HT_RAW_REALLOC_END:
        printf("x%" PRIx64 " = realloc(x%" PRIx64 ", %" PRIu64 ");\n", result, begun->address, begun->size);
        return;
    case HT_RAW_REALLOC_BEGIN:
        *begun = *record;
        counts->calls--;
        return;
    case HT_RAW_FREE:
    case HT_RAW_FREE_NULL:
        counts->calls--;
        print_free(record, counts);
        return;
    default:
        counts->calls--;
        counts->others += record->op == HT_RAW_ALIGNED;
        return;
    }
}

static int print_chunk(const struct ht_raw_log *log, const struct ht_raw_chunk *chunk, uint64_t at,
                       struct ht_raw_record *begun, struct counts *counts, struct ht_error *error) {
    uint64_t bytes = chunk->bytes < log->chunks_end - at ? chunk->bytes : log->chunks_end - at;
    uint8_t *content = calloc(1, (size_t)chunk->bytes + 64);  // the decoder reads a little ahead
    if (!content || !ht_read_at(log->fd, content, (size_t)bytes, at)) {
        free(content);
        return ht_error_system(error, log->path, "cannot read a chunk");
    }
    struct ht_raw_decoder decoder;
    struct ht_raw_record record;
    ht_raw_decode_chunk(&decoder, chunk, content);
    int status;
    while ((status = ht_raw_decode(&decoder, &record)) > 0) print_record(&record, begun, counts);
    free(content);
    return status < 0 ? ht_error_input(error, log->path, at, "expected a record") : 0;
}

static int print_log(const struct ht_raw_log *log, struct counts *counts, struct ht_error *error) {
    struct ht_raw_record begun = {0};
    struct ht_raw_chunk chunk;
    uint64_t offset = log->header.header_bytes, at;
    int status;
    while ((status = ht_raw_next_chunk(log, offset, &chunk, &at, error)) > 0) {
        if (chunk.stream != 0) return ht_error_input(error, log->path, at, "the log of one thread expected");
        if (print_chunk(log, &chunk, at, &begun, counts, error)) return -1;
        offset = at + chunk.bytes;
    }
    return status;
}

int main(int count, char **arguments) {
    struct ht_raw_log log;
    struct ht_error error;
    struct counts counts = {0};
    if (count != 2) {
        fprintf(stderr, "Usage: raw_to_text RAW > TEXT\n");
        return HT_EXIT_USAGE;
    }
    if (ht_raw_open(&log, arguments[1], &error)) return ht_complain("raw_to_text", &error);
    int status = print_log(&log, &counts, &error) ? ht_complain("raw_to_text", &error) : HT_EXIT_DONE;
    ht_raw_close(&log);
    fprintf(stderr, "%" PRIu64 " calls; %" PRIu64 " of functions that malloc_wrap did not see left out\n",
            counts.calls, counts.others);
    return ht_stdout_status("raw_to_text", status);
}
