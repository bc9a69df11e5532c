// SPDX-License-Identifier: Apache-2.0
// Where a foreign trace's bytes come from: a file, a pipe or standard input, as it is, compressed, or a
// member of a zip. Read in one pass through one buffer, so that memory stays bounded whatever the file
// unpacks to.
#ifndef HEAPTAPE_IMPORT_INPUT_H
#define HEAPTAPE_IMPORT_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "import_text.h"

enum { IMPORT_LINE_BYTES_MAX = 65536, IMPORT_HEAD_BYTES = 65536 };

struct archive;

struct import_input {
    const char *path;    // as messages name it
    const char *member;  // the zip's member wanted; NULL: its only one
    struct archive *archive;
    int fd;
    char *buffer;
    size_t begin, end;                  // what of the buffer is not used up
    bool at_end;                        // nothing more will come into the buffer
    uint64_t offset;                    // of buffer[begin], in unpacked bytes
    uint64_t line_number, line_offset;  // of the line given last; lines are numbered from 1
    bool line_too_long;                 // it was, and was passed over
    char line_first;                    // its first byte, of one that was passed over, too
    uint64_t file_bytes;                // of the file as it lies there; 0: unknown
    bool failed;
    struct ht_error error;  // valid once failed
};

// path "-" is standard input. Returns 0 or -1 with error; closed in both cases by import_input_close.
int import_input_open(struct import_input *input, const char *path, const char *member,
                      struct ht_error *error);
void import_input_close(struct import_input *input);

// How messages and traces name the input.
const char *import_input_name(const char *path);

// Brings at least `wanted` bytes (no more than IMPORT_HEAD_BYTES) to input->buffer + input->begin, or as many
// as there are left. Returns how many lie there. Less than wanted: the end, or input->failed.
size_t import_input_peek(struct import_input *input, size_t wanted);
void import_input_consume(struct import_input *input, size_t bytes);

// The next line, without its end. False at the input's end, and where input->failed.
bool import_input_line(struct import_input *input, struct import_text *line);

// Everything that is left, as one read-only mapping of a nameless temporary file: for the format that is not
// read from front to back. Returns 0 or -1 with error.
int import_input_map(struct import_input *input, const uint8_t **bytes, size_t *count,
                     struct ht_error *error);

// Bytes of the file read so far, of file_bytes.
uint64_t import_input_done(const struct import_input *input);

#endif
