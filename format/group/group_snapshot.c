// SPDX-License-Identifier: Apache-2.0
#include "group_snapshot.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "all_bytes.h"
#include "checksum.h"
#include "group_snapshot_layout.h"
#include "grow.h"
#include "output_file.h"

// ---- writing ----

enum { LEVEL = 1 };  // states are long runs: a higher level finds no more in them

struct body {
    uint8_t *bytes;
    size_t used, room;
};

// So many bytes of zeros at the end. NULL for want of memory, or of room in the file.
static void *extend(struct body *body, uint64_t bytes) {
    if (bytes > HT_SNAPSHOTS_BODY_BYTES_MAX - body->used) return NULL;
    if (!ht_grow(&body->bytes, &body->room, body->used + bytes, 1)) return NULL;
    void *at = body->bytes + body->used;
    memset(at, 0, bytes);
    body->used += bytes;
    return at;
}

static bool put(struct body *body, const void *record, size_t bytes) {
    void *at = extend(body, bytes);
    if (at) memcpy(at, record, bytes);
    return at;
}

static bool put_mapping(struct body *body, const struct ht_group_mapping *mapping, uint32_t page_bytes) {
    assert(mapping->start < mapping->end && mapping->end < HT_SNAPSHOT_ADDRESS_END);
    assert(mapping->start % page_bytes == 0 && mapping->end % page_bytes == 0);
    assert(mapping->kind < HT_MAPPING_KINDS);
    uint64_t pages = (mapping->end - mapping->start) / page_bytes;
    const struct ht_mapping_record record = {
        .start = mapping->start, .end = mapping->end, .kind = mapping->kind};
    if (!put(body, &record, sizeof record)) return false;
    uint8_t *states = extend(body, ht_state_bytes(pages));
    for (uint64_t i = 0; states && i < pages; i++) {
        assert(mapping->state[i] < HT_PAGE_STATES);
        states[i / HT_STATES_PER_BYTE] |=
            (uint8_t)(mapping->state[i] << (i % HT_STATES_PER_BYTE * HT_STATE_BITS));
    }
    return states;
}

static bool put_member(struct body *body, const struct ht_group_member *member, uint32_t page_bytes) {
    struct ht_member_record record = {.pid = member->pid,
                                      .parent_pid = member->parent_pid,
                                      .start_ticks = member->start_ticks,
                                      .rss_anon_bytes = member->rss_anon_bytes,
                                      .pss_anon_bytes = member->pss_anon_bytes,
                                      .rss_bytes = member->rss_bytes,
                                      .pss_bytes = member->pss_bytes,
                                      .swap_bytes = member->swap_bytes,
                                      .ksm_bytes = member->ksm_bytes,
                                      .huge_bytes = member->huge_bytes,
                                      .flags = member->executed ? HT_MEMBER_EXECUTED : 0,
                                      .mappings = (uint32_t)member->mappings};
    assert(member->pid && member->mappings <= UINT32_MAX);
    memcpy(record.name, member->name, strnlen(member->name, sizeof record.name));
    if (!put(body, &record, sizeof record)) return false;
    for (size_t i = 0; i < member->mappings; i++)
        if (!put_mapping(body, &member->mapping[i], page_bytes)) return false;
    return true;
}

static bool put_snapshot(struct body *body, const struct ht_group_snapshot *snapshot, uint32_t page_bytes) {
    const struct ht_snapshot_record record = {.time_ns = snapshot->time_ns,
                                              .took_ns = snapshot->took_ns,
                                              .reason = snapshot->reason,
                                              .members = (uint32_t)snapshot->members};
    assert(snapshot->reason < HT_SNAPSHOT_REASONS);
    assert(snapshot->members && snapshot->members <= HT_SNAPSHOT_MEMBERS_MAX);
    if (!put(body, &record, sizeof record)) return false;
    for (size_t i = 0; i < snapshot->members; i++)
        if (!put_member(body, &snapshot->member[i], page_bytes)) return false;
    return true;
}

static struct ht_snapshots_header header_of(const struct ht_group_snapshots *snapshots) {
    struct ht_snapshots_header header = {.version = HT_SNAPSHOTS_VERSION,
                                         .min_reader = HT_SNAPSHOTS_VERSION,
                                         .page_bytes = snapshots->page_bytes,
                                         .root_pid = snapshots->root_pid,
                                         .snapshots = (uint32_t)snapshots->count};
    memcpy(header.magic, HT_SNAPSHOTS_MAGIC, sizeof header.magic);
    memcpy(header.run, snapshots->run, strnlen(snapshots->run, sizeof header.run));
    return header;
}

// The whole file's bytes, behind room for a header. NULL with error.
static uint8_t *pack(const struct body *body, struct ht_snapshots_header *header, const char *path,
                     struct ht_error *error) {
    size_t room = ZSTD_compressBound(body->used);
    uint8_t *file = malloc(sizeof *header + room);
    size_t stored =
        file ? ZSTD_compress(file + sizeof *header, room, body->bytes, body->used, LEVEL) : (size_t)-1;
    if (ZSTD_isError(stored)) {
        free(file);
        ht_error_memory(error, path, "the snapshots");
        return NULL;
    }
    header->body_bytes = body->used;
    header->stored_bytes = stored;
    header->checksum = ht_snapshots_checksum(header, file + sizeof *header);
    memcpy(file, header, sizeof *header);
    return file;
}

static int write_file(const char *path, const uint8_t *bytes, size_t count, struct ht_error *error) {
    struct output_file output;
    const char *failed = NULL;
    if (output_file_open_beside_handlers(&output, path)) failed = "cannot create";
    else if (!ht_write_all(output.fd, bytes, count)) failed = "cannot write";
    else failed = output_file_finish(&output);
    int why = errno;
    output_file_abandon(&output);
    errno = why;
    return failed ? ht_error_system(error, path, "%s", failed) : 0;
}

int ht_group_snapshots_write(const char *path, const struct ht_group_snapshots *snapshots,
                             struct ht_error *error) {
    struct body body = {0};
    struct ht_snapshots_header header = header_of(snapshots);
    assert(snapshots->count <= HT_SNAPSHOTS_MAX);
    bool fits = true;
    for (size_t i = 0; fits && i < snapshots->count; i++)
        fits = put_snapshot(&body, &snapshots->snapshot[i], snapshots->page_bytes);
    if (!fits) {
        free(body.bytes);
        errno = 0;
        return ht_error_system(error, path, "the snapshots take more than %d MiB, or there is no memory",
                               HT_SNAPSHOTS_BODY_BYTES_MAX >> 20);
    }
    uint8_t *file = pack(&body, &header, path, error);
    free(body.bytes);
    int failed = file ? write_file(path, file, sizeof header + header.stored_bytes, error) : -1;
    free(file);
    return failed;
}

void ht_group_snapshot_free(struct ht_group_snapshot *snapshot) {
    for (size_t i = 0; i < snapshot->members; i++) {
        struct ht_group_member *member = &snapshot->member[i];
        for (size_t j = 0; j < member->mappings; j++) free(member->mapping[j].state);
        free(member->mapping);
    }
    free(snapshot->member);
    *snapshot = (struct ht_group_snapshot){0};
}

void ht_group_snapshots_free(struct ht_group_snapshots *snapshots) {
    for (size_t i = 0; i < snapshots->count; i++) ht_group_snapshot_free(&snapshots->snapshot[i]);
    free(snapshots->snapshot);
    *snapshots = (struct ht_group_snapshots){0};
}

bool ht_group_snapshots_path(char *path, size_t room, const char *folder, uint32_t root_pid) {
    int length = snprintf(path, room, "%s/malloc-footprint.%u.group", folder, root_pid);
    return length > 0 && (size_t)length < room;
}

// ---- reading: nothing in the file is believed ----

uint64_t ht_snapshots_checksum(const struct ht_snapshots_header *header, const uint8_t *stored) {
    XXH64_state_t hash;
    XXH64_reset(&hash, 0);
    XXH64_update(&hash, header, offsetof(struct ht_snapshots_header, checksum));
    if (header->stored_bytes) XXH64_update(&hash, stored, header->stored_bytes);
    return XXH64_digest(&hash);
}

// The unpacked body, and how far it has been read. Offsets in errors are of the file as if its body were not packed.
struct reading {
    const char *path;
    struct ht_error *error;
    uint32_t page_bytes, root_pid;
    uint8_t *body;
    uint64_t bytes, at;
};

static int bad(const struct reading *reading, uint64_t at, const char *expected, uint64_t found) {
    return ht_error_input(reading->error, reading->path, sizeof(struct ht_snapshots_header) + at,
                          "expected %s, found %" PRIu64 " (unpacked)", expected, found);
}

// The next record, or NULL with error.
static const void *take(struct reading *reading, uint64_t bytes, const char *what) {
    if (bytes > reading->bytes - reading->at) {
        ht_error_input(reading->error, reading->path, sizeof(struct ht_snapshots_header) + reading->at,
                       "expected %" PRIu64 " bytes of %s, found %" PRIu64 " (unpacked)", bytes, what,
                       reading->bytes - reading->at);
        return NULL;
    }
    const void *record = reading->body + reading->at;
    reading->at += bytes;
    return record;
}

// Padding is zero, and some page is there.
static int unpack_states(struct reading *reading, struct ht_group_mapping *mapping) {
    uint64_t pages = (mapping->end - mapping->start) / reading->page_bytes, bytes = ht_state_bytes(pages);
    uint64_t at = reading->at;
    unsigned any = 0, padding = 0;
    const uint8_t *states = take(reading, bytes, "page states");
    if (!states) return -1;
    mapping->state = malloc(pages);
    if (!mapping->state) return ht_error_memory(reading->error, reading->path, "the page states");
    for (uint64_t i = 0; i < bytes * HT_STATES_PER_BYTE; i++) {
        unsigned state =
            states[i / HT_STATES_PER_BYTE] >> (i % HT_STATES_PER_BYTE * HT_STATE_BITS) & HT_STATE_MASK;
        if (i < pages) mapping->state[i] = (uint8_t)state;
        if (i < pages) any |= state;
        else padding |= state;
    }
    if (padding) return bad(reading, at, "zeros behind the page states", padding);
    if (!any) return bad(reading, at, "a page that is there", 0);
    return 0;
}

static int read_mapping(struct reading *reading, uint64_t least, struct ht_group_mapping *mapping) {
    uint64_t at = reading->at;
    const struct ht_mapping_record *record = take(reading, sizeof *record, "a mapping");
    if (!record) return -1;
    if (record->start < least || record->start % reading->page_bytes)
        return bad(reading, at, "the address of a page behind the mapping before", record->start);
    if (record->end <= record->start || record->end % reading->page_bytes ||
        record->end >= HT_SNAPSHOT_ADDRESS_END)
        return bad(reading, at, "the end of a mapping behind its start", record->end);
    if (record->kind >= HT_MAPPING_KINDS || record->zero)
        return bad(reading, at, "a known kind of mapping", record->kind | (uint64_t)record->zero << 32);
    *mapping = (struct ht_group_mapping){.start = record->start, .end = record->end, .kind = record->kind};
    return unpack_states(reading, mapping);
}

static int read_mappings(struct reading *reading, struct ht_group_member *member, uint32_t count) {
    uint64_t least = 0, at = reading->at;
    // Before memory is asked for: each takes at least its record and the states of a page.
    if (count > (reading->bytes - at) / (sizeof(struct ht_mapping_record) + ht_state_bytes(1)))
        return bad(reading, at, "so many mappings as there are bytes for", count);
    member->mapping = calloc(count ? count : 1, sizeof *member->mapping);
    if (!member->mapping) return ht_error_memory(reading->error, reading->path, "the mappings");
    while (member->mappings < count) {
        struct ht_group_mapping *mapping = &member->mapping[member->mappings++];
        if (read_mapping(reading, least, mapping)) return -1;
        least = mapping->end;
    }
    return 0;
}

// A process comes once, and none before its parent.
static bool is_in_place(const struct ht_group_snapshot *snapshot, size_t number) {
    const struct ht_group_member *member = &snapshot->member[number];
    for (size_t i = 0; i < number; i++)
        if (snapshot->member[i].pid == member->pid || snapshot->member[i].parent_pid == member->pid)
            return false;
    return member->pid && member->pid != member->parent_pid;
}

static int read_member(struct reading *reading, struct ht_group_snapshot *snapshot) {
    uint64_t at = reading->at;
    const struct ht_member_record *record = take(reading, sizeof *record, "a process");
    if (!record) return -1;
    struct ht_group_member *member = &snapshot->member[snapshot->members++];
    *member = (struct ht_group_member){.pid = record->pid,
                                       .parent_pid = record->parent_pid,
                                       .start_ticks = record->start_ticks,
                                       .rss_anon_bytes = record->rss_anon_bytes,
                                       .pss_anon_bytes = record->pss_anon_bytes,
                                       .rss_bytes = record->rss_bytes,
                                       .pss_bytes = record->pss_bytes,
                                       .swap_bytes = record->swap_bytes,
                                       .ksm_bytes = record->ksm_bytes,
                                       .huge_bytes = record->huge_bytes,
                                       .executed = record->flags & HT_MEMBER_EXECUTED};
    memcpy(member->name, record->name, sizeof record->name);
    if (snapshot->members == 1 && record->pid != reading->root_pid)
        return bad(reading, at, "the root first", record->pid);
    if (!is_in_place(snapshot, snapshot->members - 1))
        return bad(reading, at, "each process once, behind its parent", record->pid);
    if (record->flags & ~(uint32_t)HT_MEMBER_FLAGS) return bad(reading, at, "known flags", record->flags);
    // Sums of all members stay below 2^64.
    if ((record->rss_anon_bytes | record->pss_anon_bytes | record->rss_bytes | record->pss_bytes |
         record->swap_bytes | record->ksm_bytes | record->huge_bytes) >>
        48)
        return bad(reading, at, "less than 2^48 bytes of memory", record->rss_bytes);
    return read_mappings(reading, member, record->mappings);
}

static int read_snapshot(struct reading *reading, uint64_t least_ns, struct ht_group_snapshot *snapshot) {
    uint64_t at = reading->at;
    const struct ht_snapshot_record *record = take(reading, sizeof *record, "a snapshot");
    if (!record) return -1;
    *snapshot = (struct ht_group_snapshot){
        .time_ns = record->time_ns, .took_ns = record->took_ns, .reason = record->reason};
    if (record->time_ns < least_ns) return bad(reading, at, "snapshots in order of time", record->time_ns);
    if (record->reason >= HT_SNAPSHOT_REASONS)
        return bad(reading, at, "a known reason of a snapshot", record->reason);
    if (!record->members || record->members > HT_SNAPSHOT_MEMBERS_MAX)
        return bad(reading, at, "1 to 4,096 processes", record->members);
    snapshot->member = calloc(record->members, sizeof *snapshot->member);
    if (!snapshot->member) return ht_error_memory(reading->error, reading->path, "the processes");
    for (uint32_t i = 0; i < record->members; i++)
        if (read_member(reading, snapshot)) return -1;
    return 0;
}

static int read_body(struct reading *reading, uint32_t count, struct ht_group_snapshots *snapshots) {
    uint64_t least_ns = 0;
    snapshots->snapshot = calloc(count ? count : 1, sizeof *snapshots->snapshot);
    if (!snapshots->snapshot) return ht_error_memory(reading->error, reading->path, "the snapshots");
    while (snapshots->count < count) {
        struct ht_group_snapshot *snapshot = &snapshots->snapshot[snapshots->count++];
        if (read_snapshot(reading, least_ns, snapshot)) return -1;
        least_ns = snapshot->time_ns;
    }
    if (reading->at < reading->bytes)
        return bad(reading, reading->at, "the end", reading->bytes - reading->at);
    return 0;
}

// ---- the header ----

static int check_header(const char *path, const struct ht_snapshots_header *header, uint64_t file_bytes,
                        struct ht_error *error) {
    if (memcmp(header->magic, HT_SNAPSHOTS_MAGIC, sizeof header->magic))
        return ht_error_input(error, path, 0,
                              "expected snapshots of a group (" HT_SNAPSHOTS_MAGIC "), found another file");
    if (header->min_reader > HT_SNAPSHOTS_VERSION)
        return ht_error_input(error, path, offsetof(struct ht_snapshots_header, min_reader),
                              "expected version %d, found %u", HT_SNAPSHOTS_VERSION, header->min_reader);
    if (header->features)
        return ht_error_input(error, path, offsetof(struct ht_snapshots_header, features),
                              "expected no features, found %#x", header->features);
    if (header->page_bytes < 4096 || header->page_bytes > HT_SNAPSHOTS_PAGE_BYTES_MAX ||
        header->page_bytes & (header->page_bytes - 1))
        return ht_error_input(error, path, offsetof(struct ht_snapshots_header, page_bytes),
                              "expected the bytes of a page, found %u", header->page_bytes);
    if (header->snapshots > HT_SNAPSHOTS_MAX)
        return ht_error_input(error, path, offsetof(struct ht_snapshots_header, snapshots),
                              "expected at most %d snapshots, found %u", HT_SNAPSHOTS_MAX, header->snapshots);
    if (header->body_bytes > HT_SNAPSHOTS_BODY_BYTES_MAX)
        return ht_error_input(error, path, offsetof(struct ht_snapshots_header, body_bytes),
                              "expected at most %d bytes, found %" PRIu64, HT_SNAPSHOTS_BODY_BYTES_MAX,
                              header->body_bytes);
    if (header->stored_bytes != file_bytes - sizeof *header)
        return ht_error_input(error, path, offsetof(struct ht_snapshots_header, stored_bytes),
                              "expected %" PRIu64 " bytes behind the header, found %" PRIu64,
                              header->stored_bytes, file_bytes - sizeof *header);
    return 0;
}

static int unpack(struct reading *reading, const struct ht_snapshots_header *header, const uint8_t *stored) {
    uint64_t checksum = ht_snapshots_checksum(header, stored);
    if (checksum != header->checksum)
        return ht_error_input(reading->error, reading->path, offsetof(struct ht_snapshots_header, checksum),
                              "expected checksum %#" PRIx64 ", found %#" PRIx64, header->checksum, checksum);
    reading->body = malloc(header->body_bytes + 1);
    if (!reading->body) return ht_error_memory(reading->error, reading->path, "the snapshots");
    size_t size = ZSTD_decompress(reading->body, header->body_bytes, stored, header->stored_bytes);
    if (ZSTD_isError(size) || size != header->body_bytes)
        return ht_error_input(reading->error, reading->path, sizeof *header,
                              "expected %" PRIu64 " packed bytes, found %s", header->body_bytes,
                              ZSTD_isError(size) ? ZSTD_getErrorName(size) : "fewer");
    reading->bytes = header->body_bytes;
    return 0;
}

static int read_open_file(int fd, const char *path, struct ht_group_snapshots *snapshots,
                          struct ht_error *error) {
    struct ht_snapshots_header header;
    struct stat status;
    if (fstat(fd, &status) || !S_ISREG(status.st_mode)) {
        errno = 0;
        return ht_error_system(error, path, "is no regular file");
    }
    uint64_t file_bytes = (uint64_t)status.st_size;
    if (file_bytes < sizeof header || !ht_read_at(fd, &header, sizeof header, 0))
        return ht_error_input(error, path, 0, "expected a header of %zu bytes, found %" PRIu64, sizeof header,
                              file_bytes);
    if (check_header(path, &header, file_bytes, error)) return -1;
    // What a body of that length takes at most: a longer file is none.
    if (header.stored_bytes > ZSTD_compressBound(header.body_bytes))
        return ht_error_input(error, path, offsetof(struct ht_snapshots_header, stored_bytes),
                              "expected at most %zu bytes, found %" PRIu64,
                              ZSTD_compressBound(header.body_bytes), header.stored_bytes);
    uint8_t *stored = malloc(header.stored_bytes + 1);
    struct reading reading = {
        .path = path, .error = error, .page_bytes = header.page_bytes, .root_pid = header.root_pid};
    *snapshots = (struct ht_group_snapshots){.root_pid = header.root_pid, .page_bytes = header.page_bytes};
    memcpy(snapshots->run, header.run, sizeof header.run);
    int failed = -1;
    if (!stored) ht_error_memory(error, path, "the snapshots");
    else if (!ht_read_at(fd, stored, header.stored_bytes, sizeof header))
        ht_error_system(error, path, "cannot read");
    else failed = unpack(&reading, &header, stored);
    free(stored);
    if (!failed) failed = read_body(&reading, header.snapshots, snapshots);
    free(reading.body);
    return failed;
}

int ht_group_snapshots_read(const char *path, struct ht_group_snapshots *snapshots, struct ht_error *error) {
    *snapshots = (struct ht_group_snapshots){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return ht_error_system(error, path, "cannot open");
    int failed = read_open_file(fd, path, snapshots, error);
    close(fd);
    return failed;
}
