// SPDX-License-Identifier: Apache-2.0
#include "group_snapshot.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "all_bytes.h"
#include "group_snapshot_layout.h"
#include "grow.h"
#include "output_file.h"

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
