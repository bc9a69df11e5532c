#include "slot_coder.h"

#include <string.h>

void slot_coder_begin(struct slot_coder *coder) {
    coder->births = coder->nodes = coder->threads = 0;
    if (++coder->mark == 0) {
        // After 2^32 sections old marks would come alive again.
        memset(coder->thread_mark, 0, sizeof coder->thread_mark);
        memset(coder->slot_mark, 0, sizeof coder->slot_mark);
        coder->mark = 1;
    }
}

uint32_t slot_coder_thread(struct slot_coder *coder, uint32_t thread) {
    uint32_t i = slot_coder_home(thread);
    while (coder->thread_mark[i] == coder->mark) {
        if (coder->thread_key[i] == thread) return coder->thread_number[i];
        i = (i + 1) % SLOT_CODER_HASH;
    }
    coder->thread_mark[i] = coder->mark;
    coder->thread_key[i] = thread;
    coder->top[coder->threads] = 0;
    return coder->thread_number[i] = coder->threads++;
}
