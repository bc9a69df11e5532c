// SPDX-License-Identifier: Apache-2.0
#include "accesses_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "access_reader.h"
#include "talk.h"

enum { BURSTS_MIN = 8 };  // fewer show nothing of how far the sample is off

static size_t read_bytes(void *source, uint8_t *room, size_t count) {
    ssize_t got;
    while ((got = read(*(int *)source, room, count)) < 0 && errno == EINTR);
    return got > 0 ? (size_t)got : 0;
}

// Behind the header, or -1.
static int skip_header(int fd, const char *path, struct ht_access_reader *reader, struct ht_error *error) {
    uint8_t head[HT_ACCESS_HEADER_BYTES];
    uint32_t numbers[4];  // version, least version of a reader, process, bytes of the command
    uint64_t offset;
    size_t bytes = 0, got;
    while (bytes < sizeof head && (got = read_bytes(&fd, head + bytes, sizeof head - bytes))) bytes += got;
    const char *wrong = ht_access_header_wrong(head, bytes, &offset);
    if (wrong) return ht_error_input(error, path, offset, "%s", wrong);
    memcpy(numbers, head + HT_ACCESS_MAGIC_BYTES, sizeof numbers);
    if (numbers[1] > HT_ACCESS_VERSION_SAMPLED)
        return ht_error_input(error, path, HT_ACCESS_MAGIC_BYTES + 4, "%s",
                              ht_found("expected accesses of version 1 or 2", numbers[1]));
    reader->sampled = numbers[1] == HT_ACCESS_VERSION_SAMPLED;
    reader->offset = HT_ACCESS_HEADER_BYTES + (uint64_t)numbers[3];
    lseek(fd, (off_t)reader->offset, SEEK_SET);
    return 0;
}

static int check_tokens(struct ht_access_reader *reader, const char *path, uint64_t allocations,
                        struct ht_error *error) {
    struct ht_access access = {0};
    char text[HT_NUMBER_OF_BYTES];
    for (uint64_t found = 0, bursts = 0;;) {
        switch (ht_read_access(reader, &access)) {
        case HT_ACCESS_CALL:
            found += access.call.call != HT_ACCESS_FREE && access.call.call != HT_ACCESS_FREE_NULL;
            break;
        case HT_ACCESS_BURST: bursts++; break;
        case HT_ACCESS_CUT:
            return ht_error_input(error, path, access.offset,
                                  "expected the end of the accesses, found the file cut short");
        case HT_ACCESS_DAMAGED:
            return ht_error_input(error, path, access.offset, "expected %s",
                                  ht_found(access.expected, access.found));
        case HT_ACCESS_END:
            if (reader->sampled && bursts < BURSTS_MIN)
                return ht_error_input(error, path, access.offset,
                                      "expected %d bursts or more, found %" PRIu64
                                      ": so short a program is recorded whole (heaptape record --accesses)",
                                      BURSTS_MIN, bursts);
            if (found == allocations) return 0;
            return ht_error_input(error, path, access.offset, "expected the trace's %s, found %" PRIu64,
                                  ht_number_of(text, allocations, "allocation"), found);
        default: break;
        }
    }
}

int ht_accesses_check(const char *path, uint64_t allocations, struct ht_error *error) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct ht_access_reader *reader = calloc(1, sizeof *reader);
    int failed = -1;
    if (fd < 0) {
        ht_error_system(error, path, "cannot open");
        error->status = HT_EXIT_INPUT;
    } else if (!reader) {
        ht_error_memory(error, path, "accesses");
    } else {
        reader->read = read_bytes;
        reader->source = &fd;
        failed = skip_header(fd, path, reader, error) || check_tokens(reader, path, allocations, error);
    }
    free(reader);
    if (fd >= 0) close(fd);
    return failed ? -1 : 0;
}
