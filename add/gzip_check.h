// SPDX-License-Identifier: Apache-2.0
// Whether gzip's bytes are whole: by the check sum and the length at the end of each member, which libarchive passes over. Bytes
// of another format are taken as they are.
#ifndef HEAPTAPE_GZIP_CHECK_H
#define HEAPTAPE_GZIP_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

struct gzip_check {
    z_stream stream;
    enum { GZIP_UNSEEN, GZIP_NONE, GZIP_WITHIN, GZIP_BETWEEN, GZIP_DAMAGED } state;
};

// The next bytes. False once they are damaged. A check of zeros begins.
bool gzip_check_next(struct gzip_check *check, const uint8_t *data, size_t bytes);
// Whether all that came was whole. Frees what the check holds.
bool gzip_check_end(struct gzip_check *check);

#endif
