// SPDX-License-Identifier: Apache-2.0
// The machine that a result was measured on.
#ifndef HEAPTAPE_MACHINE_FACTS_H
#define HEAPTAPE_MACHINE_FACTS_H

#include <stddef.h>

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

#endif
