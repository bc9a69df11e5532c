// SPDX-License-Identifier: Apache-2.0
// Who reads the cycle counter goes past every clock of the C library's. On x86 the kernel can make the
// reading a fault, which this answers with ticks that pass as trace time does, and so finds out who it is. It
// costs microseconds a reading: for passes that do not take time. Elsewhere there is no such trap.
#ifndef HEAPTAPE_CYCLE_TRAP_H
#define HEAPTAPE_CYCLE_TRAP_H

#include <stdbool.h>
#include <stddef.h>

// Once the virtual clock runs: for this thread, and for those that it starts. False where there is no trap,
// or somebody else handles the signal. Our own code, which reads the real
// counter, had better not until the end.
bool ht_cycle_trap_start(void);
// On the same thread. Names the object that read the counter first; empty if none did.
void ht_cycle_trap_end(char *reader, size_t room);

#endif
