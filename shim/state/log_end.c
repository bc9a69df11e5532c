// SPDX-License-Identifier: Apache-2.0
#include "log_end.h"

#include <errno.h>

#include "clock.h"
#include "log_file.h"

enum disposition _Atomic recorder_disposition;
_Atomic bool recorder_paused;

void set_epoch(uint32_t epoch) { atomic_store_explicit(&epoch_page.epoch, epoch, memory_order_release); }

// Gives up address space after the end: the program may limit it, or lock all that it has.
static void give_up_reserve(struct recording *recording) {
    if (!recorder_may_call()) return;
    // Another thread may be about to make the rest of its chunk's last step writable.
    log_shrink_mapping(recording, LOG_WRITABLE_STEP_BYTES);
    recorder_has_called();
}

void log_end(struct recording *recording, enum ht_stop_reason reason, int error_number, enum epoch next) {
    struct ht_raw_header *header = recording->header;
    uint32_t expected = recording->epoch;
    if (!atomic_compare_exchange_strong(&epoch_page.epoch, &expected, next)) return;
    atomic_store(&recorder_paused, next == EPOCH_PAUSED);
    header->stop_reason = reason;
    header->stop_errno = (uint32_t)error_number;
    header->stop_stamp = stamp_now();
    header->state = HT_RAW_STOPPED;
    if (next == EPOCH_OFF) give_up_reserve(recording);
}

void log_give_up(enum ht_stop_reason reason) {
    struct recording *recording = recorder_current();
    if (recorder_is_borrowed()) return;
    recorder_disposition = NEVER;
    if (!recording) return;
    log_end(recording, reason, 0, EPOCH_OFF);
    if (epoch_now() != EPOCH_PAUSED) return;
    recording->header->stop_reason = reason;
    recording->header->state = HT_RAW_STOPPED;
    set_epoch(EPOCH_OFF);
    give_up_reserve(recording);
}

void log_heed_control(struct recording *recording) {
    uint32_t wanted = __atomic_load_n(&recording->header->control, __ATOMIC_RELAXED);
    if (likely(wanted != HT_CONTROL_PAUSE && wanted != HT_CONTROL_STOP) || recorder_is_borrowed()) return;
    int saved = errno;
    if (wanted == HT_CONTROL_STOP) log_give_up(HT_STOP_CONTROL);
    else log_end(recording, HT_STOP_CONTROL, 0, EPOCH_PAUSED);
    if (recorder_may_call()) {
        log_shorten(recording, LOG_PHASE_TAIL_BYTES);
        recorder_has_called();
    }
    errno = saved;
}
