// SPDX-License-Identifier: Apache-2.0
// Starts, follows and ends the recording: phases, threads, forks, exits.
#include "recorder.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>

#include "apart.h"
#include "chunks.h"
#include "context.h"
#include "context_notes.h"
#include "freed_probe.h"
#include "large_blocks.h"
#include "loader.h"
#include "log_file.h"
#include "memory_sample.h"
#include "older_libc.h"
#include "own_memory.h"
#include "real.h"
#include "seal.h"
#include "settings.h"
#include "sites.h"
#include "sparse_stamps.h"
#include "sys.h"
#include "thread_states.h"

enum {
    // Room left in the file for calls made after our destructor.
    EXIT_TAIL_BYTES = 16 << 20,
    START_TRIES_MAX = 1 << 14
};

static _Atomic uint32_t epochs;  // how many recordings this process and those it was forked from have begun
static atomic_flag changing = ATOMIC_FLAG_INIT;
static pthread_key_t end_key;
static _Atomic bool end_key_made;
// The stamp of the fork under way in this thread: the child, which runs on a copy of it, learns its birth here.
static __thread uint64_t fork_stamp __attribute__((tls_model("initial-exec")));

// ---- logs ----

// What a log is made for: this process, and the one that it was forked from.
struct origin {
    uint32_t pid, parent_pid, parent_sequence;
    uint64_t fork_stamp;
};

static void write_header(struct recording *recording, const struct origin *origin) {
    struct ht_raw_header *header = recording->header;
    *header = (struct ht_raw_header){.version = HT_RAW_VERSION,
                                     .min_reader = HT_RAW_MIN_READER,
                                     .features = HT_RAW_FEATURE_QUERIES | HT_RAW_FEATURE_OPERATORS |
                                                 (settings.site_frames ? HT_RAW_FEATURE_SITES : 0),
                                     .header_bytes = HT_RAW_HEADER_BYTES,
                                     .page_bytes = settings.page_bytes,
                                     .pid = recording->pid,
                                     .sequence = recording->sequence,
                                     .parent_pid = origin->parent_pid,
                                     .parent_sequence = origin->parent_sequence,
                                     .fork_stamp = origin->fork_stamp,
                                     .clock_kind = CLOCK_KIND,
                                     .clock_shift = CLOCK_SHIFT,
                                     .chunks_end = HT_RAW_HEADER_BYTES,
                                     .reserve_bytes = recording->reserve_bytes,
                                     .state = HT_RAW_PAUSED};
    header->tick_ns = sparse_stamps_tick_ns();
    if (header->tick_ns) header->features |= HT_RAW_FEATURE_UNTIMED;
    header->start_realtime_ns = clock_realtime_ns();
    header->first_pair = clock_pair();
    // Written once: a forked child's loader lock may be held by a thread that exists no more.
    static char context[HT_RAW_HEADER_BYTES - HT_RAW_CONTEXT_OFFSET];
    static uint32_t context_bytes;
    if (!context_bytes) context_bytes = context_write(context, sizeof context);
    memcpy((char *)header + HT_RAW_CONTEXT_OFFSET, context, context_bytes);
    header->context_bytes = context_bytes;
    linked_allocator_note(header);
    memcpy(header->magic, HT_RAW_MAGIC, sizeof header->magic);
}

// Makes a log of this process, in which nothing is recorded yet.
static struct recording *open_log(const struct origin *origin) {
    const struct recording *before = recorder_current();
    uint32_t sequence = before && before->pid == origin->pid ? before->sequence + 1 : 0;
    struct recording *recording =
        log_create(settings.directory, origin->pid, sequence, settings.log_bytes_max, settings.any_folder);
    if (!recording) return NULL;
    write_header(recording, origin);
    if (recording->refused) {
        log_refuse(recording);
        return NULL;
    }
    recording->epoch = atomic_fetch_add(&epochs, 1) + 1;
    sites_new_log();
    recorder_set_current(recording);
    atomic_store(&epoch_page.maps_log, 1);
    return recording;
}

// What a start does apart from the program.
struct opening {
    struct origin origin;
    bool first, resumes;          // in this process image; after a pause
    struct recording *recording;  // to begin with; NULL: make one, if that can be
};

static void open_apart(void *argument) {
    struct opening *opening = argument;
    if (opening->first) {
        if (!settings_read()) return;
        recorder_disposition = RECORDS;
        recorder_paused = settings.starts_paused;
        own_start();
        sites_start();
        sparse_stamps_find();
        sparse_stamps_begin();
    }
    if (!opening->recording) opening->recording = open_log(&opening->origin);
    if (!opening->recording || (recorder_paused && !opening->resumes)) return;
    struct ht_raw_header *header = opening->recording->header;
    header->start_realtime_ns = clock_realtime_ns();
    header->first_pair = clock_pair();
    append_cost_measure(header);
    freed_probe_measure_floor(header);
}

// The log to record into, ready except for the beginning. NULL if there can be none.
static struct recording *open_ready(struct opening opening) {
    opening.origin.pid = sys_getpid();
    return run_apart(open_apart, &opening, sizeof opening) ? opening.recording : NULL;
}

static void begin(struct recording *recording) {
    struct ht_raw_header *header = recording->header;
    settings.start_mono_ns = 0;  // a delay is over once
    header->state = HT_RAW_RECORDING;
    atomic_store(&recorder_paused, false);
    set_epoch(recording->epoch);
    // The answer to the thread that asked for it.
    __atomic_store_n(&header->control, HT_CONTROL_NONE, __ATOMIC_RELEASE);
}

// Into the first log of this process image, or of a forked child.
static void begin_first(struct recording *recording) {
    if (!recording) set_epoch(EPOCH_OFF);
    else if (recorder_paused) set_epoch(EPOCH_PAUSED);
    else begin(recording);
}

// From paused to recording: in the same log if nothing is in it yet, else in one of the next number.
static void resume(void) {
    if (atomic_flag_test_and_set(&changing)) return;
    struct recording *before = recorder_current(), *recording;
    if (epoch_now() == EPOCH_PAUSED) {
        bool unused = before->header->state == HT_RAW_PAUSED;
        recording = open_ready((struct opening){.resumes = true, .recording = unused ? before : NULL});
        if (recording) begin(recording);
        __atomic_store_n(&before->header->control, HT_CONTROL_NONE, __ATOMIC_RELEASE);
    }
    atomic_flag_clear(&changing);
}

static uint32_t control_word(void) {
    return __atomic_load_n(&recorder_current()->header->control, __ATOMIC_RELAXED);
}

// A call while nothing is recorded: is it time to begin, or to give up?
static bool is_due_while_paused(void) {
    uint32_t wanted = control_word();
    if (recorder_sealed) return wanted == HT_CONTROL_STOP;  // all else needs system calls
    return wanted == HT_CONTROL_RUN || wanted == HT_CONTROL_STOP || settings_delay_is_over();
}

static void act_while_paused(void) {
    if (recorder_is_borrowed()) return;
    if (control_word() == HT_CONTROL_STOP) log_give_up(HT_STOP_CONTROL);
    else if (!apart_must_not_wait()) resume();  // else another thread does
}

// ---- the start, and forks ----

static bool forks_beside_threads;

void recorder_before_fork(void) {
    seal_rules_filter_out_at_once();
    // Before the first call that is not known, and the child has all functions to look up yet.
    forks_beside_threads = recorder_disposition != UNDECIDED && !apart_is_alone();
    struct thread_state *t = recorder_idle_thread();
    // The counter may be forbidden, or this is a child that has made no call yet: its own child then inherits what it got
    // itself when it was forked.
    if (epoch_now() == EPOCH_OFF || epoch_now() == EPOCH_NONE) return;
    sparse_stamps_next();
    if (t) close_gate(t, GATE_BUSY_OWN, stack_pointer());
    sites_begin_fork();
    // Room first: what begins a chunk after this stamp is behind the fork.
    bool room = t && room_for_record(t);
    fork_stamp = stamp_now();
    if (room) ht_append_long(&t->cursor, HT_LONG_FORK, &fork_stamp, 1);
    if (t) open_gate(t);
}

void recorder_after_fork(void) {
    sites_end_fork();
    if (epoch_now() != EPOCH_NONE) fork_stamp = 0;
}

// A handler that forks may have interrupted a hook. In the child that hook still ends, on memory of its own.
void recorder_in_forked_child(void) {
    sites_end_fork();
    if (forks_beside_threads) loader_may_be_locked();
    for (struct thread_state *t = &self; t; t = t->nested)
        if (is_busy(t->gate) && t->recording) log_replace_in_child(t->recording, t->chunk, t->chunk_end);
    // Kernels that cannot wipe a page on fork leave the parent's epoch in it. If another handler has allocated before this one,
    // the child has its log already.
    struct recording *recording = recorder_current();
    seal_after_fork();
    if (recorder_sealed) {
        atomic_store(&epoch_page.maps_log, 0);
        set_epoch(EPOCH_OFF);
    } else if (recording && recording->pid != sys_getpid()) {
        atomic_store(&epoch_page.starting, 0);
        atomic_store(&epoch_page.maps_log, 0);
        set_epoch(EPOCH_NONE);
        own_after_fork();  // it may map memory before its first call
    }
}

// At load already: handlers that the program registers before its first call run before ours when it is about to fork, and
// behind ours in the child. What they call is on the right side of the fork then.
__attribute__((constructor)) static void watch_forks(void) {
    static atomic_flag watched = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set(&watched)) return;
    // musl's allocates for it, which is no call of the program's.
    uint32_t gate = self.gate;
    if (!is_busy(gate)) close_gate(&self, GATE_BUSY_SETUP, UINTPTR_MAX);
    pthread_atfork(recorder_before_fork, recorder_after_fork, recorder_in_forked_child);
    set_gate(&self, gate);
}

static void thread_ends(void *state);

// A process may forbid itself the cycle counter, for its children too.
static bool counter_is_allowed(void) {
#ifdef __x86_64__
    int mode = 0;
    if (!sys_prctl(PR_GET_TSC, &mode)) return mode != PR_TSC_SIGSEGV;
#endif
    return true;
}

// A program without libc's threads has no threads that end.
static void make_end_key(void) {
    end_key_made = real.pthread_key_create && !real.pthread_key_create(&end_key, thread_ends);
}

// The first call of the process: everything is set up here, once.
static void start(void) {
    recorder_disposition = STARTING;
    real_resolve();
    sys_madvise(&epoch_page, sizeof epoch_page, MADV_WIPEONFORK);
    struct recording *recording = NULL;
    // Our own programs, run from a shell that has LD_PRELOAD set, are not what the user wants to record.
    if (!symbol_anywhere("heaptape_is_itself") && counter_is_allowed())
        recording = open_ready((struct opening){.first = true});
    recorder_ask_for_filters();
    context_notes_begin();
    if (recorder_disposition != RECORDS) {
        recorder_disposition = NEVER;
        set_epoch(EPOCH_OFF);
        return;
    }
    make_end_key();
    watch_forks();
    begin_first(recording);
}

// Another thread is at it. If it waits for a lock of the loader's that we hold, it will not end before us: then our calls pass
// through unrecorded.
static void await_start(void) {
    for (unsigned tries = 0; tries < START_TRIES_MAX && epoch_now() == EPOCH_NONE; tries++) sys_yield();
}

static void start_in_child(void) {
    struct recording *parent = recorder_current();
    // A start that was under way in another thread of the parent's is nobody's now.
    if (recorder_disposition != RECORDS || !parent || recorder_sealed) {
        set_epoch(EPOCH_OFF);
        return;
    }
    atomic_flag_clear(&changing);  // its holder is a thread of the parent's
    apart_after_fork();
    large_after_fork();
    own_after_fork();
    sites_after_fork();
    sparse_stamps_begin();
    begin_first(open_ready((struct opening){.origin = {.parent_pid = parent->pid,
                                                       .parent_sequence = parent->sequence,
                                                       .fork_stamp = fork_stamp}}));
    fork_stamp = 0;
}

// ---- threads ----

// libc's threads may have come with a library that the program opened later.
static void watch_thread_end(struct thread_state *t, bool is_first_thread) {
    static atomic_flag making = ATOMIC_FLAG_INIT;
    if (unlikely(!end_key_made && !is_first_thread && !recorder_sealed) &&
        !atomic_flag_test_and_set(&making)) {
        real_resolve_threads();
        make_end_key();
        if (!end_key_made) atomic_flag_clear(&making);
    }
    if (end_key_made) real.pthread_setspecific(end_key, t);
}

static bool open_stream(struct thread_state *t, struct recording *recording,
                        const struct thread_state *outer) {
    t->epoch = recording->epoch;
    t->recording = recording;
    t->chunk = NULL;
    t->calls = 0;
    t->has_ended = false;
    if (atomic_exchange(&recording->has_stream, true)) sparse_stamps_end();
    t->cursor = (struct ht_cursor){.last_stamp = stamp_now()};
    t->full_or_probe_at = t->call_full_at = NULL;
    t->sample_budget_bytes = outer ? INT64_MAX : 64 << 10;
    t->sample_due_stamp = outer ? UINT64_MAX : t->cursor.last_stamp + STAMPS_PER_S / 1000;
    if (!outer) sites_new_thread();
    if (!chunk_next(t)) return false;
    // An outer state of an earlier recording has no stream in this one.
    if (outer && outer->epoch == t->epoch && outer->chunk) t->chunk->outer = outer->chunk->stream + 1;
    if (outer) return true;
    watch_thread_end(t, t->chunk->tid == recording->pid);
    if (t->chunk->tid != recording->pid) {
        own_note_stack();
        return true;
    }
    // Calls from before libc has set up thread-local storage leave a stream that the main thread forgot.
    if (recording->main_stream) t->chunk->outer = recording->main_stream;
    recording->main_stream = t->chunk->stream + 1;
    return true;
}

// Brings the process to recording, if it is to, and the thread into the recording. True if it is in.
static bool join(struct thread_state *t, const struct thread_state *outer) {
    uint32_t epoch = epoch_now();
    uint64_t before = clock_counter();
    bool waited = false;
    if (epoch == EPOCH_NONE) {
        waited = atomic_exchange(&epoch_page.starting, 1);
        if (waited) await_start();
        else if (recorder_disposition == UNDECIDED) start();
        else start_in_child();
    } else if (epoch == EPOCH_PAUSED) {
        act_while_paused();
    }
    struct recording *recording = recorder_current();
    if (!recording || epoch_now() != recording->epoch) return false;
    if (!waited) upkeep_took(recording->header, before);
    return t->epoch == recording->epoch || open_stream(t, recording, outer);
}

struct thread_state *recorder_enter_slowly(uint32_t gate, const void *caller, uintptr_t stack) {
    uint32_t epoch = atomic_load_explicit(&epoch_page.epoch, memory_order_acquire);
    struct thread_state *outer;
    if (epoch == EPOCH_OFF) return NULL;
    struct thread_state *t = idle_state(caller, stack, &outer);
    if (!t) return NULL;
    if (t->gate == gate_of(epoch)) {  // a handler's second call
        close_gate(t, gate, stack);
        return t;
    }
    if (epoch == EPOCH_PAUSED && !is_due_while_paused()) return NULL;
    int saved = errno;
    // No handler runs meanwhile: its calls would go unrecorded.
    bool calls = recorder_may_call();
    uint64_t signals = calls ? sys_block_signals() : 0;
    close_gate(t, GATE_BUSY_SETUP, UINTPTR_MAX);
    bool in = join(t, outer);
    if (in) t->stack = stack;
    set_gate(t, in ? gate : GATE_FRESH);
    if (calls) {
        sys_restore_signals(signals);
        recorder_has_called();
    }
    errno = saved;
    return in ? t : NULL;
}

struct thread_state *recorder_idle_thread(void) {
    struct thread_state *t = &self;
    return t->recording && t->gate == gate_of(t->epoch) && t->epoch == epoch_now() ? t : NULL;
}

// A thread that has not allocated yet, or whose calls are not recorded just now, may map memory as well. In a
// call of the malloc family the gate is busy, unless it goes unrecorded: then its caller decides.
bool recorder_watches_maps(const void *caller) {
    uint32_t epoch = epoch_now();
    // A forked child knows all that its parent knew, before its own first call.
    bool knows = epoch != EPOCH_NONE || recorder_disposition == RECORDS;
    return knows && epoch != EPOCH_OFF && !recorder_sealed && !is_busy(self.gate) && !real_calls_from(caller);
}

bool recorder_watches_early_maps(void) {
    return recorder_disposition == UNDECIDED && !recorder_sealed && !is_busy(self.gate);
}

// So that a reader of the log knows of calls in a last chunk that is damaged. The thread may make a few more.
static void state_calls(struct thread_state *t) {
    if (t->has_ended) return;
    t->has_ended = true;
    __atomic_fetch_add(&t->recording->header->ended_calls, t->calls, __ATOMIC_RELAXED);
}

static void thread_ends(void *state) {
    struct thread_state *t = state;
    if (t != recorder_idle_thread()) return;
    close_gate(t, GATE_BUSY_OWN, stack_pointer());
    int saved = errno;
    uint64_t word[3] = {stamp_now(), 0, 0};
    if (recorder_may_call()) {
        sys_prctl(PR_GET_NAME, &word[1]);
        recorder_has_called();
    }
    if (room_for_record(t)) ht_append_long(&t->cursor, HT_LONG_THREAD_END, word, 3);
    state_calls(t);
    // The thread has some calls to make yet, so its last chunk waits until another's is the last.
    struct ht_raw_chunk *before = atomic_exchange(&t->recording->ended_chunk, t->chunk);
    if (before) log_release_pages(before);
    struct thread_state *nested = t->nested;
    t->nested = NULL;
    spare_states_take(nested);
    own_thread_ends(t);
    errno = saved;
    open_gate(t);
}

// ---- the exit ----

// Once: quick_exit's handlers may call _exit, as a thread may while another one ends the process. If a signal handler that
// interrupted a hook makes the call, the thread is not idle, and nothing is noted.
void recorder_before_sudden_exit(void) {
    struct thread_state *t = recorder_idle_thread();
    if (!t || recorder_is_borrowed() || atomic_flag_test_and_set(&t->recording->exit_noted)) return;
    close_gate(t, GATE_BUSY_OWN, stack_pointer());
    int saved = errno;
    if (t->recording->header->state == HT_RAW_RECORDING) {
        memory_sample(t, stamp_now(), true);
        residency_at_exit(t);
    }
    errno = saved;
    open_gate(t);
}

__attribute__((destructor)) static void at_exit(void) {
    struct thread_state *t = recorder_idle_thread();
    if (!t || recorder_is_borrowed()) return;
    close_gate(t, GATE_BUSY_OWN, stack_pointer());
    int saved = errno;
    uint64_t stamp = stamp_now();
    struct ht_raw_header *header = t->recording->header;
    memory_sample(t, stamp, true);
    residency_at_exit(t);
    uint64_t before = clock_counter();
    stamp = before >> CLOCK_SHIFT;
    if (room_for_record(t)) ht_append_long(&t->cursor, HT_LONG_EXIT, &stamp, 1);
    state_calls(t);
    // A wait for the lock of the loader's list takes system calls.
    if (!recorder_sealed || apart_is_alone()) {
        context_note_objects(header);
        context_note_inner_allocators(header);
    }
    if (header->state == HT_RAW_RECORDING) header->state = HT_RAW_EXITED;
    if (recorder_may_call()) {
        log_shorten_at_exit(t->recording, EXIT_TAIL_BYTES);
        recorder_has_called();
    }
    upkeep_took(header, before);
    errno = saved;
    open_gate(t);
}
