// SPDX-License-Identifier: Apache-2.0
// Whether system calls of the recorder's may be made. The program forbids itself system calls by functions that the hooks
// see (wrap_syscalls.c): then the recording goes on in room that was prepared before. Or by a bare system call, which nobody
// sees: two signs of that are heeded.
//
// - The kernel says that the thread has a filter. It is asked before calls of ours, by one that most filters allow.
// - The program has given up privileges for good, by a call that is seen: mostly a filter is next. The recorder then makes no
//   call any more until heaptape record, which sees from outside whether a filter has come, has ruled that out.
#include "seal.h"

#include "apart.h"
#include "log_file.h"
#include "settings.h"
#include "sys.h"
#include "text.h"

enum {
    // Under a seal the recording goes on in room that was made real before: this many times what the process has logged until
    // then, so that a short process takes little of the disk; at most ten million calls.
    SEALED_AHEAD_TIMES = 16,
    SEALED_AHEAD_BYTES_MAX = 64 << 20
};

// From the sign to the question: filter and sign are mostly in one function.
static const uint64_t QUESTION_STAMPS = STAMPS_PER_S / 100;
// How long an answer can take: of one who is there, and until it is clear that nobody is.
static const uint64_t ANSWER_STAMPS = STAMPS_PER_S, NOBODY_STAMPS = STAMPS_PER_S / 4;

static _Atomic uint64_t sign_stamp;  // 0: there was none, or it has been answered
static _Atomic bool keeps_space;     // the seal may come off, in a process that cannot open its log any more
static _Atomic uint32_t placers;     // threads that take a place in the prepared room
static _Atomic uint32_t unsealers;   // threads that may be taking the seal off

// They were the parent's threads.
void seal_after_fork(void) {
    atomic_store(&recorder_callers, 0);
    atomic_store(&placers, 0);
    atomic_store(&unsealers, 0);
}

static uint64_t room_under_seal(const struct recording *recording, uint64_t bytes_min) {
    uint64_t logged = __atomic_load_n(&recording->header->chunks_end, __ATOMIC_RELAXED);
    if (logged > SEALED_AHEAD_BYTES_MAX / SEALED_AHEAD_TIMES) return SEALED_AHEAD_BYTES_MAX;
    return logged * SEALED_AHEAD_TIMES > bytes_min ? logged * SEALED_AHEAD_TIMES : bytes_min;
}

// Nothing more can be given up once system calls are forbidden. While nothing is recorded, nothing will be any more.
static void give_up_space(struct recording *recording) {
    if (epoch_now() == recording->epoch) log_shrink_to_real(recording);
    else log_shrink_mapping(recording, 0);
}

static void seal(uint64_t bytes_min, bool gives_up_space) {
    struct recording *recording = recorder_current();
    uint32_t gate = self.gate;
    close_gate(&self, GATE_BUSY_SETUP, stack_pointer());
    if (recording && epoch_page.maps_log) {
        if (epoch_now() == recording->epoch)
            log_prepare_ahead(recording, room_under_seal(recording, bytes_min));
        recording->bytes_before_seal = recording->reserve_bytes;
        if (gives_up_space) give_up_space(recording);
    }
    // Also where nothing is recorded any more: a forked child must not begin.
    atomic_store(&recorder_sealed, true);
    // The filter may fall on other threads as well, and kills for what they are about to call. A call of ours
    // that a handler of this thread interrupted does not end before the wait does.
    for (unsigned step = 0; step < SYS_WAIT_STEPS && recorder_callers; step++) sys_wait_step(step);
    set_gate(&self, gate);
}

void seal_hold(uint64_t bytes_min) {
    atomic_fetch_add(&recorder_holders, 1);
    if (recorder_sealed) {
        // One was foreseen, and here it is.
        if (atomic_exchange(&keeps_space, false)) give_up_space(recorder_current());
        return;
    }
    if (!recorder_is_borrowed()) seal(bytes_min, true);
}

// The room stays as it is meanwhile. False: the seal comes off, or has come off.
bool seal_begins_in_prepared_room(void) {
    atomic_fetch_add(&placers, 1);
    if (recorder_sealed && !unsealers) return true;
    atomic_fetch_sub(&placers, 1);
    return false;
}

void seal_has_placed(void) { atomic_fetch_sub(&placers, 1); }

static void take_seal_off(void) {
    struct recording *recording = recorder_current();
    for (unsigned step = 0; step < SYS_WAIT_STEPS && placers; step++) sys_wait_step(step);
    // It is a hook that a handler of this thread interrupted: the room stays as it is, and so does the seal.
    if (placers) return;
    if (recording && epoch_page.maps_log && epoch_now() != EPOCH_OFF)
        log_end_preparation(recording, recording->bytes_before_seal, LOG_PHASE_TAIL_BYTES);
    atomic_store(&recorder_sealed, false);
    // Another thread has sealed meanwhile.
    if (recorder_holders) atomic_store(&recorder_sealed, true);
}

void seal_release(void) {
    if (atomic_fetch_sub(&recorder_holders, 1) != 1 || !recorder_sealed) return;
    atomic_fetch_add(&unsealers, 1);
    take_seal_off();
    atomic_fetch_sub(&unsealers, 1);
}

// ---- the sign ----

static uint32_t *answer_word(void) { return &recorder_current()->header->filter_answer; }

// How many filters the thread has, as far as the kernel says so.
static void count_filters_apart(void *argument) {
    uint32_t *count = argument;
    char text[4096];
    int fd = sys_open("/proc/thread-self/status", O_RDONLY | O_CLOEXEC, 0);
    long got = fd < 0 ? 0 : sys_read(fd, text, sizeof text - 1);
    if (fd >= 0) sys_close(fd);
    text[got > 0 ? got : 0] = 0;
    uint64_t found = text_number_behind(text, "\nSeccomp_filters:");
    *count = found != UINT64_MAX ? (uint32_t)found : 0;
}

// The seal's preparation opens the log once more, by which heaptape record wakes.
void seal_foresees_filter(void) {
    struct recording *recording = recorder_current();
    uint32_t filters = 0;
    uint64_t none = 0;
    if (!settings.is_of_run || !recording || epoch_now() != recording->epoch || recorder_is_borrowed() ||
        recorder_sealed || !atomic_compare_exchange_strong(&sign_stamp, &none, stamp_now()))
        return;
    run_apart(count_filters_apart, &filters, sizeof filters);
    recording->header->filters_before = filters;
    __atomic_store_n(&recording->header->filter_answer, HT_FILTER_FORESEEN, __ATOMIC_RELEASE);
    atomic_store(&keeps_space, true);
    atomic_fetch_add(&recorder_holders, 1);
    seal(0, false);
}

// One of the threads that learn it does this. A handler of this one's would wait for it.
static bool end_foreseen(uint64_t stamp) {
    uint64_t signals = sys_block_signals();
    atomic_fetch_add(&unsealers, 1);
    if (atomic_compare_exchange_strong(&sign_stamp, &stamp, 0)) {
        atomic_store(&keeps_space, false);
        seal_release();
    }
    atomic_fetch_sub(&unsealers, 1);
    sys_restore_signals(signals);
    return !recorder_sealed;
}

static bool rules_out(uint64_t age_min) {
    uint64_t stamp = sign_stamp, age = stamp_now() - stamp;
    if (!stamp) return false;
    uint32_t *word = answer_word(), answer = __atomic_load_n(word, __ATOMIC_ACQUIRE),
             watched = HT_FILTER_WATCHED;
    if (answer == HT_FILTER_NONE) return end_foreseen(stamp);
    if (answer == HT_FILTER_FORESEEN && age > NOBODY_STAMPS) return end_foreseen(stamp);
    // The answer comes after this, and so after all that this thread has done.
    if (answer == HT_FILTER_WATCHED && age >= age_min)
        __atomic_compare_exchange_n(word, &watched, HT_FILTER_ASKED, false, __ATOMIC_RELEASE,
                                    __ATOMIC_RELAXED);
    return false;
}

bool seal_rules_filter_out(void) { return rules_out(QUESTION_STAMPS); }

bool seal_rules_filter_out_at_once(void) {
    const struct recording *recording = recorder_current();
    uint64_t begin = stamp_now();
    // A forked child has its parent's question, but not its log.
    if (!recording || epoch_now() != recording->epoch) return false;
    while (sign_stamp || unsealers) {
        uint32_t answer = __atomic_load_n(answer_word(), __ATOMIC_ACQUIRE);
        uint64_t most = answer == HT_FILTER_FORESEEN ? NOBODY_STAMPS : ANSWER_STAMPS;
        if (rules_out(0)) return true;
        if (answer == HT_FILTER_CAME || stamp_now() - begin > most) break;
    }
    return !recorder_sealed;  // another thread may have learned it
}
