// SPDX-License-Identifier: Apache-2.0
// The bytes of a file of snapshots (docs/reference/group-format.md, "Snapshots"): a header, then a body, which is one zstd frame.
#ifndef HEAPTAPE_GROUP_SNAPSHOT_LAYOUT_H
#define HEAPTAPE_GROUP_SNAPSHOT_LAYOUT_H

#include <assert.h>
#include <stdint.h>

#define HT_SNAPSHOTS_MAGIC "HTAPEGRP"

enum { HT_SNAPSHOTS_VERSION = 1 };
// More is not written, and refused where it is read: a page takes a byte once it is.
enum {
    HT_SNAPSHOTS_MAX = 16,
    HT_SNAPSHOT_MEMBERS_MAX = 4096,
    HT_SNAPSHOTS_BODY_BYTES_MAX = 64 << 20,
    HT_SNAPSHOTS_PAGE_BYTES_MAX = 64 << 10
};
#define HT_SNAPSHOT_ADDRESS_END (UINT64_C(1) << 63)

struct ht_snapshots_header {
    char magic[8];
    uint16_t version, min_reader;
    uint32_t features;
    uint32_t page_bytes, root_pid;
    uint32_t snapshots, zero;
    char run[32];
    uint64_t body_bytes, stored_bytes;  // unpacked, and as it is in the file
    uint64_t checksum;
};
static_assert(sizeof(struct ht_snapshots_header) == 88, "header of snapshots");

struct ht_snapshot_record {
    uint64_t time_ns, took_ns;
    uint32_t reason, members;
};
static_assert(sizeof(struct ht_snapshot_record) == 24, "snapshot");

enum { HT_MEMBER_EXECUTED = 1, HT_MEMBER_FLAGS = HT_MEMBER_EXECUTED };

struct ht_member_record {
    uint32_t pid, parent_pid;
    uint64_t start_ticks;
    char name[16];
    uint64_t rss_anon_bytes, pss_anon_bytes, rss_bytes, pss_bytes;
    uint64_t swap_bytes, ksm_bytes, huge_bytes;
    uint32_t flags, mappings;
};
static_assert(sizeof(struct ht_member_record) == 96, "process");

struct ht_mapping_record {
    uint64_t start, end;
    uint32_t kind, zero;
};
static_assert(sizeof(struct ht_mapping_record) == 24, "mapping");

enum { HT_STATES_PER_BYTE = 4, HT_STATE_BITS = 2, HT_STATE_MASK = 3 };

// The bytes of a mapping's states, padded so that the next record lies on its boundary.
static inline uint64_t ht_state_bytes(uint64_t pages) {
    return (pages + 8 * HT_STATES_PER_BYTE - 1) / (8 * HT_STATES_PER_BYTE) * 8;
}

// Covers the header up to its checksum, and the stored bytes.
uint64_t ht_snapshots_checksum(const struct ht_snapshots_header *header, const uint8_t *stored);

#endif
