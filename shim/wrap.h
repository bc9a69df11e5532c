// What wrap_cxx.c needs of wrap.c.
#ifndef HEAPTAPE_WRAP_H
#define HEAPTAPE_WRAP_H

#include "ops.h"
#include "recorder.h"

#define EXPORT __attribute__((visibility("default")))

// The calling thread with its gate busy, or NULL if the call is not to be recorded.
HIDDEN struct thread_state *wrap_enter(void);
HIDDEN void wrap_leave(struct thread_state *t);
// block NULL: the call failed. alignment 0: none given.
HIDDEN void wrap_put_new(struct thread_state *t, enum ht_function function, void *block, size_t alignment,
                         size_t size);
HIDDEN void wrap_put_delete(struct thread_state *t, enum ht_function function, void *block, bool sized,
                            size_t size, bool aligned, size_t alignment);

#endif
