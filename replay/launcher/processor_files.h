// The kernel's files that list processors, as they are on a machine with so many.
#ifndef HEAPTAPE_PROCESSOR_FILES_H
#define HEAPTAPE_PROCESSOR_FILES_H

#include <stdint.h>

enum { HT_NOT_OF_PROCESSORS = -2 };

// A descriptor of what the file at this path shows there, at its start; -1 with errno; HT_NOT_OF_PROCESSORS: it shows the
// same there.
int ht_processor_file(const char *path, uint32_t processors);

#endif
