// SPDX-License-Identifier: Apache-2.0
// Sleeping on a 32-bit word and waking its sleepers: in this process, or (shared) in others, too.
#ifndef HEAPTAPE_FUTEX_WORD_H
#define HEAPTAPE_FUTEX_WORD_H

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static inline void ht_futex_wait(_Atomic uint32_t *word, uint32_t value) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}
// The same for at most so long, by the real clock.
static inline void ht_futex_wait_for(_Atomic uint32_t *word, uint32_t value, uint64_t ns) {
    struct timespec limit = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &limit, NULL, 0);
}
static inline void ht_futex_wake(_Atomic uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}
static inline void ht_futex_wait_shared(_Atomic uint32_t *word, uint32_t value, const struct timespec *most) {
    syscall(SYS_futex, word, FUTEX_WAIT, value, most, NULL, 0);
}
static inline void ht_futex_wake_shared(_Atomic uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

#endif
