// Blocks that a slice leaves out, with all calls on them: the value of --without.
#ifndef HEAPTAPE_LEFT_OUT_BLOCKS_H
#define HEAPTAPE_LEFT_OUT_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

struct left_out_blocks {
    const char *given;             // NULL: none
    uint64_t size_low, size_high;  // bytes asked for at birth, both included
    uint64_t born_from_ns, born_to_ns;
    uint32_t thread;
    bool any_thread;
};

// "size=48-64,thread=3,born=2.1s-2.4s": each once at most, at least one. NULL, or what was expected.
const char *left_out_blocks_parse(const char *text, struct left_out_blocks *blocks);

static inline bool left_out_blocks_have(const struct left_out_blocks *blocks, uint64_t bytes, uint32_t thread,
                                        uint64_t born_ns) {
    return blocks->given && bytes >= blocks->size_low && bytes <= blocks->size_high &&
           (blocks->any_thread || thread == blocks->thread) && born_ns >= blocks->born_from_ns &&
           born_ns <= blocks->born_to_ns;
}

#endif
