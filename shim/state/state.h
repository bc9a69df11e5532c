// SPDX-License-Identifier: Apache-2.0
// The one unit of state that hooks, recording and sampling share: of the recording, and of each recorded
// thread. And whether the recorder may make system calls.
//
// Only the hooks are called by the program. Nothing in the shim calls a hooked function except through `real`.
#ifndef HEAPTAPE_STATE_H
#define HEAPTAPE_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attributes.h"
#include "clock.h"
#include "raw_append.h"

// Whether a call is recorded is decided by its thread's gate and the page's epoch. Hooks compare the two
// (enter_from in wrap.h), which is the fast path; recorder_enter_slowly() is the rest of this table:
//
//   gate \ page        EPOCH_NONE (d)   n, a recording     EPOCH_PAUSED          EPOCH_OFF
//   n + 1: idle in n   starts, joins    RECORDED           passes / resumes (a)  passes
//   m + 1: idle in m   starts, joins    joins              passes / resumes (a)  passes
//   GATE_FRESH         starts, joins    joins              passes / resumes (a)  passes
//   GATE_SHARED        the row of the task's state
//   GATE_BUSY_OWN      a signal handler's call: the row of the thread's nested state (b, c)
//   GATE_BUSY_REAL     from the allocator's own code: passes; else as GATE_BUSY_OWN
//   GATE_BUSY_LINKED   of a hook: passes, unless a jump has left the call; handed over: as GATE_BUSY_OWN
//   GATE_BUSY_SETUP    passes (c)
//
// passes: the real function is called, nothing is recorded. starts: one thread begins the recording of this
// process, and others wait. joins: the thread gets a stream in the recording, and the call is recorded.
// (a) if the header's control word or the clock asks for it; then as in the column of a recording.
// (b) nested states are in the same rows, down to a depth at which calls pass; with EPOCH_OFF all pass.
// (c) unless a jump out of a handler has left that hook: then its state is restored and is idle, or fresh.
// (d) before the first call of the process, and in a forked child, whose page the kernel has wiped.

// What a thread's gate holds. An idle, known thread's holds the epoch of the recording that it takes part in,
// plus one: so zero, which is also what the gate reads before the loader has set up thread-local storage,
// never matches a page.
enum gate {
    GATE_FRESH = 0,                  // not seen yet
    GATE_SHARED = 0xfffffffbu,       // for good: states are found by the task's number (thread_states.c)
    GATE_BUSY_LINKED = 0xfffffffcu,  // in a linked-in allocator, whose calls of hooks are its own
    GATE_BUSY_OWN = 0xfffffffdu,     // in a hook's own work, which calls nothing hooked
    GATE_BUSY_REAL = 0xfffffffeu,    // in the allocator, which may call public functions again
    GATE_BUSY_SETUP = 0xffffffffu    // in set-up, which does so too
};

// One page that the kernel wipes in a forked child: its epoch then reads 0 and matches no thread's gate.
struct epoch_page {
    _Atomic uint32_t epoch;
    _Atomic uint32_t starting;  // a thread has taken it on itself to begin
    _Atomic uint32_t maps_log;  // the current recording's log is mapped in this very process
    char rest[4096 - 3 * sizeof(uint32_t)];
};
enum epoch {
    EPOCH_NONE = 0,             // before the first call, or wiped by fork
    EPOCH_OFF = 0x80000000u,    // never again in this process
    EPOCH_PAUSED = 0x80000001u  // until the header's control word, or the clock, ends it
};
extern HIDDEN struct epoch_page epoch_page;

// The recording of this process or phase, and its log (log_file.h).
struct recording {
    struct ht_raw_header *header;     // start of the mapping
    _Atomic uint64_t reserve_bytes;   // chunks end before this; lowered at the end
    _Atomic uint64_t writable_bytes;  // the mapping may be written up to here
    _Atomic uint64_t real_bytes;      // sealed: chunks end before this too, because no more can be made real
    _Atomic uint64_t sample_last_stamp, peak_last_stamp;    // when memory was sampled, checked for a peak
    _Atomic uint64_t sample_step_bytes;                     // what was to be allocated until the last
    _Atomic uint64_t sample_last_bytes, sample_peak_bytes;  // RssAnon of the last sample, and of the highest
    _Atomic uint64_t sample_faults;                         // of the program until then
    _Atomic uint64_t sample_cost_stamps;                    // of the last samples
    _Atomic uint64_t asked_last_stamp;  // when the kernel was asked last whether memory has grown
    _Atomic uint64_t log_faults;        // that made pages of the log real
    _Atomic bool faults_are_huge;       // memory grows by more than a page a fault
    bool refused, in_memory;
    uint64_t grows_to_bytes;      // cut at the exit: how far it may grow again; 0: it was not cut
    uint64_t bytes_before_seal;   // what was reserved then
    _Atomic uint64_t memory_end;  // of a log in memory: how far it may grow before memory is asked for
    _Atomic bool pair_taken;      // a thread writes a clock pair into the header
    _Atomic bool reads_ahead;     // the kernel reads ahead in the log, because zeros cannot be written to it
    _Atomic bool has_stream;      // one has begun, or is about to
    atomic_flag exit_noted;       // what of live large blocks is resident at the end
    _Atomic uint64_t most_resident_bytes;  // when it was last checked for a peak
    uint64_t device, inode;
    uint32_t epoch, pid, sequence;
    struct ht_raw_chunk *_Atomic ended_chunk;  // of the thread that ended last
    uint32_t main_stream;                      // the main thread's, plus one
    char path[4096];
};

// Everything that a thread needs on the fast path, in initial-exec TLS: two cache lines at most.
struct thread_state {
    uint32_t gate;   // that of the page's epoch: record; anything else: recorder_enter_slowly() decides
    uint32_t epoch;  // the recording that the fields below belong to
    struct ht_cursor cursor;
    // Where the next record may not begin unchecked: the chunk is full there, or a freed block is to be
    // probed. One comparison asks for both; chunk_has_room() (chunks.h) distinguishes them, the address alone
    // does not.
    uint8_t *full_or_probe_at;
    uint8_t *call_full_at;  // the same for an allocation; NULL where call sites are recorded: each has one
    uint64_t calls;
    int64_t sample_budget_bytes;  // bytes to allocate until memory is sampled again
    uint64_t sample_due_stamp;
    struct ht_raw_chunk *chunk;
    uint8_t *chunk_end;  // not read from the chunk, which a forked child does not have
    struct recording *recording;
    struct thread_state *nested;  // for the calls of a signal handler that interrupts a hook
    void *passed_block;           // what the last allocation returned that passed through unrecorded
    uintptr_t stack;              // where the frame of the hook at work ends, or of the last: see close_gate
    uint32_t site;                // the call site that the chunk's last allocation was recorded with
    bool has_ended;               // the log's header has the stream's calls
};
_Static_assert(sizeof(struct thread_state) <= 128, "static TLS is scarce");
extern HIDDEN __thread struct thread_state self __attribute__((tls_model("initial-exec")));

static inline uint32_t epoch_now(void) {
    return atomic_load_explicit(&epoch_page.epoch, memory_order_relaxed);
}

// A signal handler must find the gate closed before the work behind it begins, and open only after it.
static inline void set_gate(struct thread_state *t, uint32_t gate) {
    atomic_signal_fence(memory_order_seq_cst);
    *(volatile uint32_t *)&t->gate = gate;
    atomic_signal_fence(memory_order_seq_cst);
}

static inline uint32_t gate_of(uint32_t epoch) { return epoch + 1; }

// From idle to work. A hook that a handler leaves by a jump is known by its stack pointer, which therefore is
// there before the gate closes, and stays until it is open.
static inline void close_gate(struct thread_state *t, uint32_t gate, uintptr_t stack) {
    t->stack = stack;
    set_gate(t, gate);
}

static inline void open_gate(struct thread_state *t) { set_gate(t, gate_of(t->epoch)); }

static inline bool is_busy(uint32_t gate) { return gate >= GATE_BUSY_LINKED; }

HIDDEN struct recording *recorder_current(void);  // NULL: there is none
HIDDEN void recorder_set_current(struct recording *recording);

// True once the program has forbidden itself system calls, which then would end it: no more of them.
extern HIDDEN _Atomic bool recorder_sealed;
HIDDEN void recorder_ask_for_filters(void);
// To be held around system calls: false if there must be none. The sealing thread waits for the others.
HIDDEN bool recorder_may_call(void);
HIDDEN void recorder_has_called(void);
// These are for seal.c: the threads within system calls of ours, and what holds the seal: a call under way that may
// forbid, a filter, which stays for ever, a thread whose system calls are dispatched, until it turns that off.
extern HIDDEN _Atomic uint32_t recorder_callers, recorder_holders;

// Does a child of vfork make this call? It runs on its parent's memory, in its parent's recording: what it
// limits, forbids or ends is itself.
HIDDEN bool recorder_is_borrowed(void);

#endif
