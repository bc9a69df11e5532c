// SPDX-License-Identifier: Apache-2.0
#include "gzip_check.h"

enum { GZIP_FORMAT = 16 };  // as zlib has it

static void begin(struct gzip_check *check, const uint8_t *data) {
    bool is_gzip = *data == 0x1f;
    check->state = is_gzip ? GZIP_WITHIN : GZIP_NONE;
    if (is_gzip && inflateInit2(&check->stream, GZIP_FORMAT + MAX_WBITS) != Z_OK) check->state = GZIP_DAMAGED;
}

// A member that follows; zeros that fill a block are none.
static void begin_member(struct gzip_check *check) {
    z_stream *stream = &check->stream;
    while (stream->avail_in && !*stream->next_in) stream->next_in++, stream->avail_in--;
    if (stream->avail_in) check->state = inflateReset(stream) == Z_OK ? GZIP_WITHIN : GZIP_DAMAGED;
}

static void inflate_some(struct gzip_check *check) {
    static uint8_t unpacked[1 << 16];
    check->stream.next_out = unpacked;
    check->stream.avail_out = sizeof unpacked;
    int code = inflate(&check->stream, Z_NO_FLUSH);
    if (code == Z_STREAM_END) check->state = GZIP_BETWEEN;
    else if (code != Z_OK && code != Z_BUF_ERROR) check->state = GZIP_DAMAGED;
}

bool gzip_check_next(struct gzip_check *check, const uint8_t *data, size_t bytes) {
    z_stream *stream = &check->stream;
    if (bytes && check->state == GZIP_UNSEEN) begin(check, data);
    if (check->state == GZIP_NONE) return true;
    stream->next_in = (uint8_t *)data;
    stream->avail_in = (uInt)bytes;
    stream->avail_out = 1;
    while (check->state != GZIP_DAMAGED &&
           (stream->avail_in || (check->state == GZIP_WITHIN && !stream->avail_out)))
        check->state == GZIP_BETWEEN ? begin_member(check) : inflate_some(check);
    return check->state != GZIP_DAMAGED;
}

bool gzip_check_end(struct gzip_check *check) {
    if (check->state != GZIP_UNSEEN && check->state != GZIP_NONE) inflateEnd(&check->stream);
    return check->state != GZIP_WITHIN && check->state != GZIP_DAMAGED;
}
