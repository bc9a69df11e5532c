// SPDX-License-Identifier: Apache-2.0
// What the machine did meanwhile: its counters before and after.
#ifndef HEAPTAPE_MACHINE_ACTIVITY_H
#define HEAPTAPE_MACHINE_ACTIVITY_H

#include <stdint.h>

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
