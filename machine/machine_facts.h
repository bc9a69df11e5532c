// SPDX-License-Identifier: Apache-2.0
// The machine that a result was measured on, and what it did meanwhile.
#ifndef HEAPTAPE_MACHINE_FACTS_H
#define HEAPTAPE_MACHINE_FACTS_H

#include <stddef.h>
#include <stdint.h>

struct ht_machine {
    char cpu[128], kernel[160], libc[64], thp[64];
    char governor[64];      // of the processors' frequency, empty if not known
    int turbo;              // 1 on, 0 off, -1 not known
    const char *turbo_off;  // the command that ends it
    int cores;
};

// Which is on, where the kernel lists what there is: "madvise" of "always [madvise] never".
void ht_chosen_word(const char *line, char *text, size_t room);

void ht_machine_read(struct ht_machine *machine);
// Load average of the last minute, now; NaN if not known.
double ht_machine_load(void);

// Counters since some time in the past; NaN where the machine does not report it.
struct ht_activity {
    double wall_s;
    double busy_s;       // processor time of all processes and of the kernel
    double own_s;        // of it ours, and that of our children that ended
    double stolen_s;     // processor time that the hypervisor gave to others
    double throttled_s;  // that the control group's quota made us wait
    double swapped_bytes;
};

void ht_activity_read(struct ht_activity *activity);

#endif
