// The machine that a result was measured on.
#ifndef HEAPTAPE_MACHINE_FACTS_H
#define HEAPTAPE_MACHINE_FACTS_H

struct ht_machine {
    char cpu[128], kernel[160], libc[64], thp[64];
    int cores;
};

void ht_machine_read(struct ht_machine *machine);
// Load average of the last minute, now; NaN if not known.
double ht_machine_load(void);

#endif
