#ifndef HEAPTAPE_CONTEXT_H
#define HEAPTAPE_CONTEXT_H

#include <stddef.h>
#include <stdint.h>

// The circumstances of the run as key=value strings, each ended by a zero byte, for the log's header. Returns
// the bytes used; what does not fit is left out.
__attribute__((visibility("hidden"))) uint32_t context_write(char *to, size_t room);

#endif
