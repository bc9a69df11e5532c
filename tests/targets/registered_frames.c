// One thread registers code's frames and looks them up, as a JIT with exceptions does: libgcc allocates meanwhile, under a lock
// that its unwinder takes. The first thread has ever new stacks, whose calls ask for 10 bytes.
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

extern void __register_frame(void *begin);
extern void *__deregister_frame(void *begin);
struct bases {
    void *text, *data, *function;
};
extern const void *_Unwind_Find_FDE(void *address, struct bases *bases);

enum { CALLS = 20000, DEPTH = 14, CODE_BYTES = 64 };

static char code[CODE_BYTES];
static atomic_bool done;
static void *volatile sink;

static uint8_t *put(uint8_t *at, uint64_t value, size_t bytes) {
    memcpy(at, &value, bytes);
    return at + bytes;
}

// A section .eh_frame of one function, with absolute addresses, and the zero that ends it.
static void describe(uint8_t frames[128]) {
    static const uint8_t common[] = {1, 'z', 'R', 0, 1, 0x78, 16, 1, 0, 0x0c, 7, 8, 0x90, 1, 0, 0};
    memset(frames, 0, 128);
    uint8_t *at = put(frames, 4 + sizeof common, 4);
    at = put(at, 0, 4);
    memcpy(at, common, sizeof common);
    at += sizeof common;
    at = put(at, 4 + 8 + 8 + 4, 4);
    at = put(at, (uint64_t)(at - frames), 4);
    at = put(at, (uintptr_t)code, 8);
    put(at, CODE_BYTES, 8);
}

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

// Its frame is of no fixed size, so that libgcc is asked each time.
static __attribute__((noinline)) void descend(unsigned depth, unsigned way) {
    sink = __builtin_alloca(16 + (way & 3) * 16);
    if (!depth) {
        sink = malloc(10);
        free(sink);
    } else if (way & 1) {
        descend(depth - 1, way >> 1);
        __asm__ volatile("nop");
    } else {
        descend(depth - 1, way >> 1);
        __asm__ volatile("nop; nop");
    }
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
