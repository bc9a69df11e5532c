// SPDX-License-Identifier: Apache-2.0
// One thread registers code's frames and looks them up, as a JIT with exceptions does: libgcc allocates meanwhile, under a lock
// that its unwinder takes. The first thread has ever new stacks, whose calls ask for 10 bytes.
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "registered_frames.h"

extern void *__deregister_frame(void *begin);
struct bases {
    void *text, *data, *function;
};
extern const void *_Unwind_Find_FDE(void *address, struct bases *bases);

enum { CALLS = 20000 };

static atomic_bool done;

static void *register_for_ever(void *unused) {
    static uint8_t frames[128];
    describe(frames);
    while (!done) {
        struct bases bases;
        __register_frame(frames);
        if (!_Unwind_Find_FDE(code + 8, &bases)) abort();
        __deregister_frame(frames);
    }
    return unused;
}

int main(void) {
    pthread_t thread;
    unsigned random = 1;
    if (pthread_create(&thread, NULL, register_for_ever, NULL)) return 1;
    for (unsigned i = 0; i < CALLS; i++) {
        random = random * 1103515245 + 12345;
        descend(DEPTH, random >> 16);
    }
    done = true;
    return pthread_join(thread, NULL) ? 1 : 0;
}
