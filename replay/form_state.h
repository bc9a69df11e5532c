// What the passes over a trace share while its replay form is built. Others include form_builder.h.
#ifndef HEAPTAPE_FORM_STATE_H
#define HEAPTAPE_FORM_STATE_H

#include "form_builder.h"
#include "random_numbers.h"

#define HT_NOBODY   UINT32_MAX
#define HT_NOT_LIVE UINT64_MAX

struct ht_slot_state {
    union {
        uint64_t last_event;  // while counting: the op on it that came last
        uint64_t bytes;       // while writing: of the live block, or HT_NOT_LIVE
    };
    uint32_t last_thread;
    uint32_t handovers;
};
static_assert(sizeof(struct ht_slot_state) == 16, "slots of a cache line");

struct ht_stream_state {
    uint64_t events;  // counted by the first pass, so that the second has room
    uint64_t *words;
    uint64_t used;
    uint64_t told_ns;  // place told last
    uint64_t start_ns, operations;
    bool begun;
    struct ht_mark *timed, *samples;
    size_t timed_count, timed_room, samples_count, samples_room;
};

struct ht_form_state {
    struct ht_trace_reader *reader;
    const char *path;
    const struct ht_form_options *options;
    struct ht_built_form *built;
    struct ht_error *error;
    struct ht_trace_facts facts;
    struct ht_op_shape shape[256];
    struct ht_slot_state *slots;
    struct ht_stream_state *streams;
    uint64_t *publishing;  // a bit per event: the op's slot goes to another thread next; NULL: none does
    uint32_t slots_count, streams_count;
    size_t slots_room, streams_room, publishing_room;
    uint64_t events;
    uint64_t inherited, inherited_used;  // the events that come first; words written for them
    uint64_t *inherited_words;
    char *base;  // of the memfd's mapping
    uint64_t base_bytes;
};

typedef int ht_section_visitor(void *context, const struct ht_section_place *place,
                               const struct ht_events *events);

// Decodes and checks one section of events after the other, counting the events. Returns 0, or what a visitor
// returned instead: -1 with error, 1 to stop.
int ht_form_each_section(struct ht_form_state *form, ht_section_visitor *visit, void *context);

// Counts each thread's events, and finds the ops after which a slot goes over to another thread. Of a single
// stream only the bound is needed, which the index tells.
int ht_form_count(struct ht_form_state *form);

// Makes room for the slots of a section; new ones are nobody's. last_event or bytes of new ones: `fresh`.
int ht_form_know_slots(struct ht_form_state *form, const struct ht_events *events, uint64_t fresh);

// Writes the streams into the memory that the counts have asked for.
int ht_form_write(struct ht_form_state *form);

// Makes room for `needed` elements; those added are zero. Returns 0, or -1 with error.
int ht_form_grow(struct ht_form_state *form, void **array, size_t *room, size_t needed, size_t element_bytes);

int ht_form_bad_event(struct ht_form_state *form, const struct ht_section_place *place, uint64_t event,
                      const char *expected);

static inline uint32_t ht_form_stream_of(const struct ht_form_state *form, uint32_t thread) {
    return form->options->one_thread ? 0 : thread;
}

#endif
