// SPDX-License-Identifier: Apache-2.0
// What the passes over a trace share while its replay form is built. Others include form_builder.h.
#ifndef HEAPTAPE_FORM_STATE_H
#define HEAPTAPE_FORM_STATE_H

#include "built_form.h"
#include "error.h"
#include "random_numbers.h"
#include "trace_facts.h"

struct ht_form_state;

#define HT_NOBODY   UINT32_MAX
#define HT_NOT_LIVE UINT64_MAX

struct ht_slot_state {
    union {
        uint64_t last_event;  // while counting: the op on it that came last
        uint64_t bytes;       // while writing: of the live block, or HT_NOT_LIVE
    };
    uint32_t last_thread;
    uint32_t dependencies;
};
static_assert(sizeof(struct ht_slot_state) == 16, "slots of a cache line");

// A stream while it is written: what has been written since its last segment was linked.
struct ht_stream_state {
    uint64_t events_all;         // known from the first pass
    uint64_t events;             // that are still to come; a block that is being filled counts as one
    uint32_t fillings;           // of them
    struct ht_segment *segment;  // the words follow it; NULL: nothing is written
    uint32_t used, room;         // in words
    bool begun;
    uint64_t given_ns;  // place given last
    uint64_t start_ns, operations;
};

// A sink takes the segments. The words of a segment end in an END mark and padding, and are the sink's to copy.
struct ht_form_sink {
    // Links the segment behind what the stream has already. Returns 0, or -1 with error.
    int (*link)(struct ht_form_state *form, uint32_t stream, const struct ht_segment *segment);
    // No more segments of the stream come.
    int (*end)(struct ht_form_state *form, uint32_t stream);
    // Called between sections of events; NULL if there is nothing to do.
    int (*tick)(struct ht_form_state *form);
};

struct ht_form_state {
    struct ht_trace_reader *reader;
    const char *path;
    const struct ht_form_options *options;
    struct ht_built_form *built;  // what the writing pass finds
    struct ht_error *error;
    struct ht_trace_facts facts;
    struct ht_op_shape shape[256];
    struct ht_slot_state *slots;
    struct ht_stream_state *streams;  // the last is what is inherited
    uint64_t *publishing;  // a bit per event: the op's slot goes to another thread next; NULL: none does
    uint32_t *untouched_pages, *zeroed_pages, *unmeasured_pages;  // by slot: of a live block
    uint8_t *alignment_bits;  // by slot: log2 of what a live block was aligned to by request, 0: nothing
    uint32_t slots_count, streams_count;
    uint32_t segment_words_max;
    size_t slots_room, streams_room, publishing_room, untouched_room, zeroed_room, unmeasured_room,
        alignment_room;
    uint64_t events;      // in the whole trace, known once it has been counted
    uint64_t last_event;  // the last that is replayed, behind which the trace ends; of a single stream any
    uint64_t at_ns;       // time of the event that is being written: all before it has been
    uint64_t inherited;   // the events that come first
    uint32_t turn;        // in order: the stream of the event written last
    uint64_t turn_ns;     // the latest of all streams' places
    uint32_t copies;      // so often each event is written, and events are numbered by this factor
    const struct ht_form_sink *sink;
    void *sink_state;
};

typedef int ht_section_visitor(void *context, const struct ht_section_place *place,
                               const struct ht_events *events);

// Counts all events and each thread's, and finds the ops after which a slot goes over to another thread. Of a
// single stream only the bound is needed, which the index has.
int ht_form_count(struct ht_form_state *form);

// Counts the calls that not every allocator serves, which takes another pass.
int ht_form_count_odd(struct ht_form_state *form);

// Makes room for the slots of a section; new ones are nobody's. last_event or bytes of new ones: `fresh`.
int ht_form_know_slots(struct ht_form_state *form, const struct ht_events *events, uint64_t fresh);

// Writes the streams into the sink, and into form->built what it finds. Can be called again, also
// after a time that was given up on the way, and then does the same: nothing of the time before is left.
int ht_form_write(struct ht_form_state *form);

// Makes room for `needed` elements in the array whose pointer lies at `place`; those added are zero. Returns
// 0, or -1 with error.
int ht_form_grow(struct ht_form_state *form, void *place, size_t *room, size_t needed, size_t element_bytes);

int ht_form_bad_event(struct ht_form_state *form, const struct ht_section_place *place, uint64_t event,
                      const char *expected);

// A failed call is not repeated, and what was allocated before recording began is not there to be freed.
static inline bool ht_form_replays(const struct ht_form_state *form, uint8_t op) {
    if (ht_op_variant(op) == HT_FAILED) return false;
    return ht_op_variant(op) != HT_FOREIGN || form->shape[op].makes_object;
}

static inline uint32_t ht_form_stream_of(const struct ht_form_state *form, uint32_t thread) {
    return form->options->one_thread ? 0 : thread;
}

// The sections of a trace's events, checked for what the replay form can hold.

// Decodes and checks one section of events after the other. Returns 0, or what a visitor returned instead: -1
// with error, 1 to stop.
int ht_form_each_section(struct ht_form_state *form, ht_section_visitor *visit, void *context);

#endif
