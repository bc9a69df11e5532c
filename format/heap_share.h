// SPDX-License-Identifier: Apache-2.0
// How much of a recorded program's memory its recorded calls account for. Where it is little, comparing
// mallocs means little for that program, and every verb prints that first.
#ifndef HEAPTAPE_HEAP_SHARE_H
#define HEAPTAPE_HEAP_SHARE_H

#include <stdbool.h>
#include <stdint.h>

// Bytes of anonymous memory, each at its peak.
struct ht_heap_share {
    uint64_t anon_bytes;       // RssAnon; 0: not known
    uint64_t explained_bytes;  // what recorded calls can have taken of it, at most
    uint64_t own_bytes;        // of it in mappings, stacks and data of the program's own; 0 where not known
    const char *inside;  // the words about libraries with an allocator of their own; NULL: none is known
};

// Of RssAnon less the program's own memory, at its peak: what recorded calls can have taken. Blocks take no
// page that the program did not have before the recording began, or asked for in it.
uint64_t ht_heap_explained(uint64_t before_bytes, uint64_t peak_bytes, uint64_t allocated_bytes);

// Whether most of the memory is not from malloc: recorded calls account for less than a fifth, and for
// several MiB less than all of it (an allocator's own tables and caches are no more).
bool ht_heap_share_is_small(const struct ht_heap_share *share);

// Whether two figures of memory are so far apart that the one says little of the other: by more than a twentieth, and more
// than 2 MB. error: bytes, as a share of the other.
bool ht_memory_differs(double error, double bytes);

// Whether what the heap held at its peak is not known well enough to say one figure: these two differ.
bool ht_heap_is_unknown(uint64_t low_bytes, uint64_t high_bytes);

// Whether the recorded heap, at its peak, held many times what its blocks took at theirs.
bool ht_heap_is_swollen(uint64_t heap_bytes, uint64_t live_bytes);
enum { HT_HEAP_SWOLLEN_TEXT_BYTES = 256 };
// That as one sentence without its full stop.
const char *ht_heap_swollen_words(char text[HT_HEAP_SWOLLEN_TEXT_BYTES], uint64_t heap_bytes,
                                  uint64_t live_bytes);

enum { HT_HEAP_SHARE_TEXT_BYTES = 576 };
// That as one sentence without its full stop.
const char *ht_heap_share_words(char text[HT_HEAP_SHARE_TEXT_BYTES], const struct ht_heap_share *share);

#endif
