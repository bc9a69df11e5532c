// SPDX-License-Identifier: Apache-2.0
#include "segment_pool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "form_segments.h"
#include "machine_memory.h"
#include "talk.h"

enum { POOL_BYTES_MAX = 64 << 20, SEGMENTS_PER_STREAM = 4, SEGMENTS_SPARE = 16 };

static uint64_t round_up(uint64_t bytes) {
    return (bytes + HT_SEGMENT_UNIT_BYTES - 1) / HT_SEGMENT_UNIT_BYTES * HT_SEGMENT_UNIT_BYTES;
}

uint64_t ht_pool_segment_bytes(const struct ht_form_state *form) {
    return round_up(sizeof(struct ht_segment) +
                    (form->segment_words_max + HT_WORDS_PADDING) * sizeof(uint64_t));
}

uint64_t ht_pool_header_bytes(const struct ht_form_state *form) {
    return round_up(sizeof(struct ht_form) + (form->streams_count + 1) * sizeof(struct ht_stream));
}

static uint64_t segments_least(const struct ht_form_state *form) {
    return (uint64_t)SEGMENTS_PER_STREAM * (form->streams_count + 1) + SEGMENTS_SPARE;
}

// Half of what a held form may have: the launcher's own tables need some, too. And a quarter of what there is
// now, because the child is to have some.
static uint64_t bytes_wanted(const struct ht_form_state *form) {
    if (form->options->pool_bytes) return form->options->pool_bytes;
    uint64_t bytes = form->options->held_bytes_max / 2, left = ht_memory_available_bytes() / 4;
    if (left < bytes) bytes = left;
    return bytes < POOL_BYTES_MAX ? bytes : POOL_BYTES_MAX;
}

// Segments are smaller than those of a held form, so that every stream can have some. Returns what header and
// pool take where the pool is to have so many bytes, which is more than asked for where that is too little.
static uint64_t lay_out(struct ht_form_state *form, uint32_t words_max, uint64_t pool_bytes) {
    uint64_t words = pool_bytes / segments_least(form) / sizeof(uint64_t);
    words -= words < 64 ? words : sizeof(struct ht_segment) / sizeof(uint64_t) + HT_WORDS_PADDING;
    form->segment_words_max = words < words_max ? (uint32_t)words : words_max;
    if (form->segment_words_max < HT_SEGMENT_WORDS_MIN) form->segment_words_max = HT_SEGMENT_WORDS_MIN;
    uint64_t segments = pool_bytes / ht_pool_segment_bytes(form);
    if (segments < segments_least(form)) segments = segments_least(form);
    return ht_pool_header_bytes(form) + segments * ht_pool_segment_bytes(form);
}

static void *map(int fd, uint64_t bytes) {
    if (ftruncate(fd, (off_t)bytes)) return MAP_FAILED;
    return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

// The largest pool that can be had. *bytes: what it takes, or would.
static void *map_what_fits(struct ht_form_state *form, int fd, uint64_t *bytes) {
    uint32_t words_max = form->segment_words_max;
    uint64_t least = lay_out(form, words_max, 0), pool_bytes = bytes_wanted(form);
    *bytes = least;
    errno = ENOMEM;
    if (least > ht_memory_available_bytes()) return MAP_FAILED;
    for (;; pool_bytes /= 2) {
        *bytes = lay_out(form, words_max, pool_bytes);
        void *mapped = map(fd, *bytes);
        if (mapped != MAP_FAILED || errno != ENOMEM || *bytes == least) return mapped;
    }
}

static int failed(struct ht_form_state *form, int fd, uint64_t bytes) {
    char text[32], threads[HT_NUMBER_OF_BYTES];
    ht_error_system(form->error, form->path, "%s of shared memory for the decoded trace, with %s",
                    ht_bytes(text, (double)bytes), ht_number_of(threads, form->streams_count, "thread"));
    if (fd >= 0) close(fd);
    return -1;
}

// The child writes into the pool, but its size is for nobody to change.
int ht_pool_prepare(struct ht_form_state *form) {
    struct ht_built_form *built = form->built;
    uint64_t bytes = 0;
    int fd = memfd_create("heaptape-pool", MFD_ALLOW_SEALING);
    void *mapped = fd < 0 ? MAP_FAILED : map_what_fits(form, fd, &bytes);
    if (mapped == MAP_FAILED) return failed(form, fd, bytes);
    uint64_t header_bytes = ht_pool_header_bytes(form);
    struct ht_form *header = calloc(1, header_bytes);
    if (!header || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
        free(header);
        munmap(mapped, bytes);
        return failed(form, fd, bytes);
    }
    memcpy(header, built->form, built->mapped_bytes);
    free(built->form);
    header->streamed = 1;
    header->bytes = bytes;
    built->form = header;
    built->pool = mapped;
    built->mapped_bytes = bytes;
    built->fd = fd;
    return 0;
}
