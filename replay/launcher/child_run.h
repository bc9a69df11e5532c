// SPDX-License-Identifier: Apache-2.0
// Runs one measured child and brings back what it reported.
#ifndef HEAPTAPE_CHILD_RUN_H
#define HEAPTAPE_CHILD_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "allocator_choice.h"
#include "form_builder.h"
#include "huge_pages.h"
#include "kernel_listener.h"
#include "memory_group.h"
#include "random_numbers.h"
#include "replay_job.h"
#include "simulation.h"

// Waits for a measured child, and ends it where nothing else would.
struct ht_child_watch {
    uint64_t timeout_ns;    // a child that runs longer is killed; 0: none is
    uint64_t deadline_ns;   // likewise one that runs then, by the monotonic clock
    uint32_t idle_seconds;  // a child that takes no CPU time for so long hangs; 0: a minute
    bool may_idle;          // it is all right
    // Called several times a second; NULL if nobody wants to know.
    void (*waiting)(void *context, double seconds);
    void *context;
    bool *hung, *cut_short;  // become true if the child is killed because it hangs, or by the deadline
};

// The memory that launcher and children talk through, and the launcher's copy of what the last child left
// there.
struct ht_child_channel {
    const struct ht_built_form *built;  // NULL while only describing
    int exchange_fd;
    uint64_t exchange_bytes, answer_bytes;  // the answer comes first; what follows is the launcher's
    struct ht_exchange *shared;             // children write it as they please: only ht_child_run reads them
    struct ht_exchange *exchange;
    const uint64_t *rss_bytes;          // the samples of the last memory pass
    const uint64_t *high_bytes;         // the highest since the sample before, of the last memory pass
    const uint64_t *untouched_bytes;    // of the last accounting pass, by sample
    const uint64_t *own_bytes;          // the recorded program's own memory by sample; NULL: not known
    struct ht_memory_group *group;      // that children of the limit pass join, or NULL
    const struct ht_reading *readings;  // of the last timed pass
    const struct ht_simulation_words *simulation;  // children run under it; NULL: on the processor
    // Set once it is open, for all children to come.
    struct ht_child_watch watch;
    const char *wrap;  // the command that children are run under, as a shell reads it; NULL: none
    uint64_t runs;     // under it, so far
    enum ht_thp_disable thp_disable;
    // Told which system calls a child makes, where it is shown other processors; NULL: nobody counts.
    struct ht_syscall_counter *counter;
    bool processors_asked;  // by the last child: their number, or on which it runs
    pid_t spared;           // no child that measures, 0: there is none
    bool adopts;            // what children leave behind
    bool hung, cut_short;   // the last child was killed for that
    uint32_t left;          // processes, by the last child
};

// built: what the children are to replay, with room for its samples and readings; NULL: only to describe. spared: a child of ours
// that is none of these.
int ht_child_channel_open(struct ht_child_channel *channel, const struct ht_built_form *built, pid_t spared,
                          struct ht_error *error);
void ht_child_channel_close(struct ht_child_channel *channel);

// Runs choice's executable on the job, on one processor where cpu is not -1, with a random amount of padding
// in its environment. Returns true if the child replayed everything; the outcome is in the channel's
// exchange. Otherwise problem is one line with the reason.
bool ht_child_run(struct ht_child_channel *channel, const struct ht_choice *choice, const struct ht_job *job,
                  int cpu, struct ht_random *random, char *problem, size_t problem_room);

// True once the user asked to stop (SIGINT, SIGTERM, SIGHUP); the child running then has been killed.
bool ht_child_interrupted(void);
// From now on these signals are noticed, not obeyed.
void ht_child_catch_signals(void);
// Ends this process by the signal that was noticed, so that its parent sees that. Returns if none
// was.
void ht_child_end_as_interrupted(void);

#endif
