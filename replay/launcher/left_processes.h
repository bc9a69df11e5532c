// Processes that a measured child starts and leaves behind. They would take time from the runs after it, and write into the
// memory that all runs share.
#ifndef HEAPTAPE_LEFT_PROCESSES_H
#define HEAPTAPE_LEFT_PROCESSES_H

#include <stdbool.h>
#include <stdint.h>

// From now on what our children leave behind becomes ours. False if it does not: where we had children before, which whoever
// started us may need, theirs could not be told from those.
bool ht_left_processes_adopt(void);

// Ends all children that there are; only for whoever adopts. Returns how many were left, those included that had ended
// meanwhile.
uint32_t ht_left_processes_end(void);

#endif
