// SPDX-License-Identifier: Apache-2.0
// Writes the tokens of an accesses file. No C library: see simulate/processor/processor.h.
#ifndef HEAPTAPE_ACCESS_WRITER_H
#define HEAPTAPE_ACCESS_WRITER_H

#include <stddef.h>

#include "access_tokens.h"

enum {
    HT_ACCESS_BUFFER_BYTES = 1 << 16,
    HT_RECENT_PLACES_BITS = 8,
    HT_RECENT = 32,
    HT_ACCESS_PLACES = 1 << 10
};

struct ht_recent_place {
    uint64_t place, at;
};

struct ht_access_writer {
    void (*write)(const uint8_t *bytes, size_t count);  // takes all of them, or doesn't return
    uint64_t new_places, tokens;                        // so far: the clocks of recent places and lines
    uint32_t code_run;                                  // predicted lines that are not written yet
    size_t used;
    struct ht_access_state state;
    uint8_t block_place[HT_ACCESS_PLACES],
        page_place[HT_ACCESS_PLACES];  // guesses of where they are in the state
    struct ht_recent_place recent[1 << HT_RECENT_PLACES_BITS], recent_line[1 << HT_RECENT_PLACES_BITS];
    uint8_t buffer[HT_ACCESS_BUFFER_BYTES];
};

static inline uint64_t ht_recent_index(uint64_t place) {
    return place * 0x9e3779b97f4a7c15u >> (64 - HT_RECENT_PLACES_BITS);
}

// Whether the place (an address >> HT_GRANULE_SHIFT, or 2⁶³ + a line of instructions) is not among the last 32 new ones. If it is,
// the caches still hold it, and it is left out. One that a later place of the same hash pushed out is new, too. Without a branch,
// which a processor would guess wrongly for every other place.
static inline bool ht_access_is_new(struct ht_access_writer *writer, uint64_t place) {
    struct ht_recent_place *recent = &writer->recent[ht_recent_index(place)];
    const bool known = (recent->place == place) & (writer->new_places - recent->at <= HT_RECENT);
    recent->at = known ? recent->at : writer->new_places;
    recent->place = place;
    writer->new_places += !known;
    return !known;
}
// Whether none of the last 32 tokens names the line (or 2⁶³ + a line of instructions), which is written now if so: a line has more
// places than one.
static inline bool ht_access_line_is_new(struct ht_access_writer *writer, uint64_t line) {
    struct ht_recent_place *recent = &writer->recent_line[ht_recent_index(line)];
    if (recent->place == line && writer->tokens - recent->at <= HT_RECENT) return false;
    *recent = (struct ht_recent_place){line, writer->tokens};
    return true;
}
void ht_access_forget_recent(struct ht_access_writer *writer);

void ht_write_block_access(struct ht_access_writer *writer, uint32_t slot, uint64_t granule);
void ht_write_line_access(struct ht_access_writer *writer, uint64_t line);
void ht_write_code_line(struct ht_access_writer *writer, uint64_t line);
void ht_write_call(struct ht_access_writer *writer, const struct ht_recorded_call *call);
void ht_write_thread(struct ht_access_writer *writer, uint32_t thread);
// Between these two misses count; so many data accesses the program made there.
void ht_write_burst(struct ht_access_writer *writer);
void ht_write_burst_end(struct ht_access_writer *writer, uint64_t accesses);
// The last token: how many instructions and data accesses the program made outside its allocator's calls, and how many
// instructions its C++ library's operator new and delete executed around malloc and free.
void ht_write_end(struct ht_access_writer *writer, uint64_t instructions, uint64_t accesses,
                  uint64_t operators);
// Hands all bytes to writer->write.
void ht_access_flush(struct ht_access_writer *writer);

#endif
