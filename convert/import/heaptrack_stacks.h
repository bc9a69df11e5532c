// SPDX-License-Identifier: Apache-2.0
// The stacks of heaptrack's data file: what its lines number, until a call names it.
#ifndef HEAPTAPE_HEAPTRACK_STACKS_H
#define HEAPTAPE_HEAPTRACK_STACKS_H

#include "import_sites.h"

enum { HEAPTRACK_INLINED_MAX = 64 };

// Code that lies in memory: of a module, loaded at its bias.
struct heaptrack_segment {
    uint64_t start, end, bias;
    uint32_t module;
};

struct heaptrack_stacks {
    struct import_sites *sites;
    struct heaptrack_segment *segment;
    size_t segments, segments_room;
    bool sorted;
    char *text;  // of all strings, each ended by a zero byte
    size_t text_bytes, text_room;
    size_t *string_at;
    size_t strings, strings_room;
    uint32_t *location;  // by number of an address (i) less one
    size_t locations, locations_room;
    uint32_t *frame;  // by number of a frame (t) less one: the sites' number of it, 0: unknown
    size_t frames, frames_room;
    bool no_memory;
};

void heaptrack_stacks_free(struct heaptrack_stacks *stacks);

// Raw files.
void heaptrack_stacks_add_code(struct heaptrack_stacks *stacks, struct heaptrack_segment segment);
void heaptrack_stacks_forget_code(struct heaptrack_stacks *stacks);
// A frame at a return address. False: its parent is not known.
bool heaptrack_stacks_add_frame_at(struct heaptrack_stacks *stacks, uint64_t address, uint64_t parent);

// Files with names. The string "" is one, too.
void heaptrack_stacks_add_string(struct heaptrack_stacks *stacks, const char *text, size_t bytes);
// A function by its numbers: of strings, from 1; 0: unknown.
struct heaptrack_function {
    uint64_t name, file, line;
};
// The return address, in the module of that name; function[0] is the innermost inlined one. False: a string is not known.
bool heaptrack_stacks_add_address(struct heaptrack_stacks *stacks, uint64_t address, uint64_t module,
                                  const struct heaptrack_function *function, size_t functions);
// A frame at the address of that number. False: one of the two is not known.
bool heaptrack_stacks_add_frame(struct heaptrack_stacks *stacks, uint64_t number, uint64_t parent);

// *site: of the call from that frame; 0 is no frame. False: the frame is not known.
bool heaptrack_stacks_site(struct heaptrack_stacks *stacks, uint64_t frame, uint32_t *site);

#endif
