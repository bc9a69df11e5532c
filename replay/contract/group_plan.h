// SPDX-License-Identifier: Apache-2.0
// A group of processes that is replayed by real forks: what each process does, and where all of them meet so that the launcher
// can look at the whole group at one moment. One memfd, mapped by launcher and processes.
#ifndef HEAPTAPE_GROUP_PLAN_H
#define HEAPTAPE_GROUP_PLAN_H

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "replay_job.h"

#define HT_GROUP_MAGIC 0x3170757267706174ull  // "tapgrup1"

// Between two calls of its trace a process stops. Where its form has a mark of a sample, the mark's number is that of the stop;
// what follows the last mark comes once all calls have been made.
enum ht_group_stop_kind {
    HT_GROUP_FORK,  // a child of that number begins
    HT_GROUP_MEET   // the meeting of that number: the process waits until the launcher has looked
};
struct ht_group_stop {
    uint32_t kind, number;
    uint64_t time_ns;  // in the process's own trace time
};

// One byte of a block is written when the process comes to that meeting.
struct ht_group_write {
    uint32_t slot, meeting;
    uint64_t offset;
};

enum ht_group_state {
    HT_GROUP_UNBORN,
    HT_GROUP_RUNS,
    HT_GROUP_ENDED  // as the recorded one had
};

struct ht_group_part {
    int32_t form_fd;                       // -1: it makes no call
    uint32_t slots;                        // of its trace
    uint64_t base_ns;                      // where time 0 of its trace is in the group's time
    uint64_t end_ns;                       // of it, in its own time
    uint64_t stops_offset, writes_offset;  // in this file; writes by meeting
    uint32_t stops, writes;
    // In the file of slots: of each slot the parent's that holds the same block at the fork, 0: none.
    uint64_t parents_offset;
    uint64_t exchange_offset;  // in this file: where it says why it cannot go on, unless it is the root
    uint32_t lives;            // 1: it lived when the recording ended
    uint32_t zero;
    _Atomic int32_t pid;
    _Atomic uint32_t state;
    uint64_t failures;
    char message[128];  // its first failure
};

struct ht_group_plan {
    uint64_t magic, bytes;
    uint32_t parts, meetings;
    uint32_t root;  // the part that the launcher starts: the others are its descendants
    uint32_t zero;
    int32_t slots_fd;     // the file of slots
    int32_t launcher_fd;  // a pipe whose other end the launcher alone has: hung up once it is gone
    // Futexes. Meetings below `released` may be left; alive: processes that have been forked and have not ended; met: those
    // of them that wait at the meeting that is due; changes: of these two, for the launcher to wait for.
    _Atomic uint32_t released, alive, met, changes, broken, zero32;
};

static inline struct ht_group_part *ht_group_parts(const struct ht_group_plan *plan) {
    return (struct ht_group_part *)(plan + 1);
}
static inline const struct ht_group_stop *ht_group_stops(const struct ht_group_plan *plan,
                                                         const struct ht_group_part *part) {
    return (const struct ht_group_stop *)((const char *)plan + part->stops_offset);
}
static inline const struct ht_group_write *ht_group_writes(const struct ht_group_plan *plan,
                                                           const struct ht_group_part *part) {
    return (const struct ht_group_write *)((const char *)plan + part->writes_offset);
}
static inline struct ht_exchange *ht_group_exchange(struct ht_group_plan *plan,
                                                    const struct ht_group_part *part) {
    return (struct ht_exchange *)((char *)plan + part->exchange_offset);
}

#endif
