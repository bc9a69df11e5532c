// SPDX-License-Identifier: Apache-2.0
// heaptape record --convert: whose log is converted next, so that what is at work at once does not grow with the number of
// processes. A log that has ended is converted in one go, as many at once as there are processors. The log of a process that
// runs waits for its end; it is followed meanwhile only if it is long, or if a child needs what it handed on at the fork.
#ifndef HEAPTAPE_CONVERSION_TURNS_H
#define HEAPTAPE_CONVERSION_TURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "heap_share.h"
#include "map64.h"
#include "raw_reader.h"

// The result of one log.
struct converted {
    char *raw, *trace;
    char *executable;  // empty: unknown
    uint64_t events, file_bytes, cpu_ns;
    struct ht_heap_share share;
    uint32_t pid;
    double rank;     // process_rank
    char hooks[64];  // what the log says of the hooks of a linked-in allocator; empty: nothing
    bool shell;      // it is of one
    bool complete;   // else the log is still there
    bool empty;      // there was no call in it
    bool running;    // its process was, when the program ended
};

enum conversion_state { CONVERSION_WAITS, CONVERSION_IS_FOLLOWED, CONVERSION_IS_DONE };

struct conversion {
    enum conversion_state state;
    uint64_t start_realtime_ns;
    uint64_t own_name, parent_name;  // conversion_name() of its log and of its parent's; 0: it has none
    bool has_ended;                  // nobody writes the log any more
    bool is_needed;                  // children wait for what it handed on
    bool was_running;                // when its follower began
    bool yields;                     // its follower was asked to make room for another's
    bool asked_to_stop;
    bool has_reported;
    pid_t follower;
    uint64_t bytes;  // of the log on the disk, when it was last looked at
    double found_s, looked_s, followed_s;
    struct converted result;
};

struct conversion_turns {
    struct conversion **waiting,
        **followed;  // in the order in which they were found, and in which they began
    size_t waits, waiting_room, follows;
    size_t running;  // of the followed, those whose process ran when they began
    size_t ended_max, running_max;
    uint64_t backlog_bytes;  // of logs that have ended and wait
    bool run_has_ended;
    bool is_crowded;   // a log that should be followed found no place
    struct map64 log;  // by name, the newest conversion of one
};

// False for want of memory.
bool conversion_turns_begin(struct conversion_turns *turns);

// A log's name as a number. It is never 0, because no process has the number 0.
static inline uint64_t conversion_name(uint32_t pid, uint32_t sequence) {
    return (uint64_t)pid << 32 | sequence;
}

// The conversion's log, and not that of a later process of the same number. False if it is gone.
bool conversion_open_log(const struct conversion *one, struct ht_raw_log *log);
bool conversion_log_is_in_use(const struct conversion *one);

// Anew, or again after it has yielded. False for want of memory.
bool conversion_waits(struct conversion_turns *turns, struct conversion *one);

// The next one to be started, or NULL for now.
struct conversion *conversion_next(struct conversion_turns *turns, double now_s);
// It has been started, or never will be.
void conversion_is_followed(struct conversion_turns *turns, struct conversion *one, double now_s);
void conversion_is_given_up(struct conversion_turns *turns, struct conversion *one);
// Its follower has gone.
void conversion_left(struct conversion_turns *turns, struct conversion *one);

// Does its parent's follower still come to the fork?
bool conversion_waits_for_parent(const struct conversion_turns *turns, const struct conversion *one);

// A follower that is to make room for a log that waits, or NULL.
struct conversion *conversion_to_yield(const struct conversion_turns *turns, double now_s);

// Is it only to take time that nobody else wants? Not where what waits takes much of the disk.
bool conversion_is_patient(const struct conversion_turns *turns, const struct conversion *one);

#endif
