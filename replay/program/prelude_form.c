// SPDX-License-Identifier: Apache-2.0
#include "prelude_form.h"

#include <stdlib.h>
#include <string.h>

#include "form_builder.h"
#include "grow.h"
#include "json_values.h"
#include "ops.h"
#include "prelude.h"
#include "trace_facts.h"

// A block with which the slice begins, in order of birth.
struct heir {
    uint64_t bytes;
    uint32_t slot;
};

// One of the prelude's slots.
struct named_slot {
    uint64_t made_event, birth_event, bytes;  // of the object that it had last
    uint32_t heir, other;  // its name if that object is the slice's (else 0), and the name of all others
    bool live;
};

struct names {
    struct ht_prelude prelude;
    struct ht_trace_reader *reader;  // the prelude's own
    struct heir *heir;
    size_t heirs, heir_room;
    uint32_t slice_threads, threads;  // threads: of the prelude, under all names
    uint32_t *lane;                   // of each of the prelude's own threads
    size_t own_threads;
    struct named_slot *slot;
    size_t slots, slot_room;
    struct ht_section_place *places;  // of events
    size_t *section;                  // which of the prelude's sections each is
    size_t places_count;
};

static int no_memory(const struct names *names, struct ht_error *error) {
    return ht_error_memory(error, ht_trace_path(names->reader), "cannot name the prelude");
}

static int bad_prelude(struct ht_trace_reader *slice, const char *expected, struct ht_error *error) {
    return ht_trace_bad_section(slice, HT_SECTION_PRELUDE, error, expected);
}

// ---- what the slice begins with ----

// Returns 1 where the blocks end.
static int take_heirs(struct names *names, const struct ht_events *events, struct ht_error *error) {
    for (uint32_t i = 0; i < events->rows; i++) {
        if (ht_op_function(events->op[i]) != HT_INHERIT) return 1;
        if (!ht_grow(&names->heir, &names->heir_room, names->heirs + 1, sizeof *names->heir))
            return no_memory(names, error);
        names->heir[names->heirs++] = (struct heir){events->size[i], events->slot[i]};
    }
    return 0;
}

static int find_heirs(struct names *names, struct ht_trace_reader *slice, struct ht_error *error) {
    int stop = 0;
    for (size_t i = 0; i < ht_trace_sections(slice) && !stop; i++) {
        struct ht_events events;
        if (ht_trace_section(slice, i)->kind != HT_SECTION_EVENTS) continue;
        if (ht_trace_events(slice, i, &events, error)) return -1;
        stop = take_heirs(names, &events, error);
    }
    return stop < 0 ? -1 : 0;
}

// ---- which of the prelude's blocks those are ----

static int follow(struct names *names, struct ht_trace_reader *slice, const struct ht_events *events,
                  const struct ht_op_shape *shape, struct ht_error *error) {
    uint64_t last_event = events->first_event + events->rows - 1;
    for (uint32_t i = 0; i < events->rows; i++) {
        uint32_t slot = events->slot[i];
        const struct ht_op_shape *of = &shape[events->op[i]];
        if (events->thread[i] >= names->own_threads)
            return bad_prelude(slice, "expected a prelude whose threads it lists", error);
        if (!slot) continue;
        if (!ht_slot_is_due(slot, last_event))
            return bad_prelude(slice, "expected a prelude of slot numbers without a gap", error);
        if (!ht_grow(&names->slot, &names->slot_room, (size_t)slot + 1, sizeof *names->slot))
            return no_memory(names, error);
        if (slot >= names->slots) {
            memset(names->slot + names->slots, 0, (slot + 1 - names->slots) * sizeof *names->slot);
            names->slots = (size_t)slot + 1;
        }
        if (of->query) continue;
        struct named_slot *named = &names->slot[slot];
        named->live = !of->ends_object;
        named->birth_event = events->first_event + i;
        named->bytes = ht_event_bytes(events, i);
        if (of->makes_object) named->made_event = named->birth_event;
    }
    return 0;
}

static int earlier_first(const void *a, const void *b, void *context) {
    const struct named_slot *slots = context;
    uint64_t left = slots[*(const uint32_t *)a].birth_event, right = slots[*(const uint32_t *)b].birth_event;
    return (left > right) - (left < right);
}

// The n-th of the blocks that are left, in order of birth, is the n-th with which the slice begins.
static int match_heirs(struct names *names, struct ht_trace_reader *slice, struct ht_error *error) {
    uint32_t *left = malloc((names->slots + 1) * sizeof *left);
    size_t count = 0;
    if (!left) return no_memory(names, error);
    for (size_t slot = 1; slot < names->slots; slot++)
        if (names->slot[slot].live) left[count++] = (uint32_t)slot;
    if (count) qsort_r(left, count, sizeof *left, earlier_first, names->slot);
    bool same = count == names->heirs;
    for (size_t i = 0; same && i < count; i++) {
        struct named_slot *named = &names->slot[left[i]];
        named->heir = names->heir[i].slot;
        same = named->bytes == names->heir[i].bytes;
    }
    free(left);
    return same ? 0
                : bad_prelude(slice,
                              "expected a prelude that ends with the blocks with which the slice begins",
                              error);
}

// The others have the names in between, and those behind.
static int name_others(struct names *names, struct ht_error *error) {
    uint32_t highest = 0, free_name = 1;
    for (size_t i = 0; i < names->heirs; i++)
        if (names->heir[i].slot > highest) highest = names->heir[i].slot;
    bool *taken = calloc((size_t)highest + 1, sizeof *taken);
    if (!taken) return no_memory(names, error);
    for (size_t i = 0; i < names->heirs; i++) taken[names->heir[i].slot] = true;
    for (size_t slot = 1; slot < names->slots; slot++, free_name++) {
        while (free_name <= highest && taken[free_name]) free_name++;
        names->slot[slot].other = free_name;
    }
    free(taken);
    return 0;
}

// Threads that end before the slice have numbers behind its own.
static int name_threads(struct names *names, struct ht_trace_reader *slice, struct ht_error *error) {
    const struct ht_prelude *prelude = &names->prelude;
    names->lane = malloc((names->own_threads + 1) * sizeof *names->lane);
    if (!names->lane) return no_memory(names, error);
    memset(names->lane, 0xff, names->own_threads * sizeof *names->lane);
    for (size_t i = 0; i < names->slice_threads && i < prelude->threads; i++) {
        uint32_t number = prelude->number[i];
        if (number > names->own_threads || (number && names->lane[number - 1] != UINT32_MAX))
            return bad_prelude(slice, "expected a prelude with the slice's threads", error);
        if (number) names->lane[number - 1] = (uint32_t)i;
    }
    names->threads = names->slice_threads;
    for (size_t i = 0; i < names->own_threads; i++)
        if (names->lane[i] == UINT32_MAX) names->lane[i] = names->threads++;
    return 0;
}

static int count_threads(struct ht_trace_reader *reader, size_t *threads, struct ht_error *error) {
    struct ht_trace_facts facts;
    if (ht_trace_facts(reader, &facts, error)) return -1;
    *threads = facts.threads_count;
    ht_trace_facts_free(&facts);
    return 0;
}

static int learn(struct names *names, struct ht_trace_reader *slice, struct ht_error *error) {
    struct ht_op_shape shape[256];
    size_t sections = ht_trace_sections(names->reader), threads;
    for (unsigned op = 0; op < 256; op++) shape[op] = ht_op_shape((uint8_t)op);
    names->places = malloc((sections + 1) * sizeof *names->places);
    names->section = malloc((sections + 1) * sizeof *names->section);
    if (!names->places || !names->section) return no_memory(names, error);
    if (count_threads(slice, &threads, error) || count_threads(names->reader, &names->own_threads, error))
        return -1;
    names->slice_threads = (uint32_t)threads;
    for (size_t i = 0; i < sections; i++) {
        const struct ht_section_place *place = ht_trace_section(names->reader, i);
        struct ht_events events;
        if (place->kind != HT_SECTION_EVENTS) continue;
        if (ht_trace_events(names->reader, i, &events, error) || follow(names, slice, &events, shape, error))
            return -1;
        names->section[names->places_count] = i;
        names->places[names->places_count++] = *place;
    }
    return find_heirs(names, slice, error) || match_heirs(names, slice, error) || name_others(names, error) ||
                   name_threads(names, slice, error)
               ? -1
               : 0;
}

// ---- the trace under these names ----

static int named_events(void *context, size_t i, struct ht_events *events, struct ht_error *error) {
    const struct names *names = context;
    if (ht_trace_events(names->reader, names->section[i], events, error)) return -1;
    for (uint32_t row = 0; row < events->rows; row++) {
        uint32_t slot = events->slot[row];
        events->thread[row] = names->lane[events->thread[row]];
        if (!slot) continue;
        const struct named_slot *named = &names->slot[slot];
        bool last = events->first_event + row >= named->made_event;
        events->slot[row] = named->heir && last ? named->heir : named->other;
    }
    return 0;
}

static int named_facts(void *context, struct ht_trace_facts *facts, struct ht_error *error) {
    const struct names *names = context;
    if (ht_trace_facts(names->reader, facts, error)) return -1;
    struct ht_thread *named = calloc((size_t)names->threads + 1, sizeof *named);
    if (!named) {
        ht_trace_facts_free(facts);
        return no_memory(names, error);
    }
    // Threads of the slice's that the prelude has not are none that last.
    for (size_t i = 0; i < names->threads; i++) named[i].ended = true;
    for (size_t i = 0; i < facts->threads_count; i++) named[names->lane[i]] = facts->threads[i];
    free(facts->threads);
    facts->threads = named;
    facts->threads_count = names->threads;
    return 0;
}

static char *context_json(void *context, struct ht_error *error) {
    return ht_trace_context_json(((struct names *)context)->reader, error);
}

static char *totals_json(void *context, struct ht_error *error) {
    return ht_trace_totals_json(((struct names *)context)->reader, error);
}

static void free_names(struct names *names) {
    ht_prelude_close(&names->prelude);
    free(names->heir);
    free(names->lane);
    free(names->slot);
    free(names->places);
    free(names->section);
    free(names);
}

// The prelude's reader is closed by that of the named trace.
static void close_named(void *context) {
    struct names *names = context;
    names->prelude.reader = NULL;
    free_names(names);
}

// The prelude of a slice under the slice's names, to be closed: its threads that go on in the slice have the slice's numbers,
// and the last object of a slot with which the slice begins has the slot that it has there. *named is NULL where it has none. Returns 0, or -1 with error.
static int prelude_named(struct ht_trace_reader *slice, struct ht_trace_reader **named,
                         struct ht_error *error) {
    struct names *names = calloc(1, sizeof *names);
    *named = NULL;
    if (!names) return ht_error_memory(error, ht_trace_path(slice), "cannot name the prelude");
    int status = ht_prelude_open(slice, &names->prelude, error);
    names->reader = names->prelude.reader;
    if (!status && names->reader && !(status = learn(names, slice, error))) {
        const struct ht_trace_made made = {.context = names,
                                           .places = names->places,
                                           .places_count = names->places_count,
                                           .events = named_events,
                                           .facts = named_facts,
                                           .context_json = context_json,
                                           .totals_json = totals_json,
                                           .close = close_named};
        if ((*named = ht_trace_open_made(names->reader, &made, error))) return 0;
        status = -1;
    }
    free_names(names);
    return status;
}

static int duration_of(struct ht_trace_reader *reader, uint64_t *duration_ns, struct ht_error *error) {
    char *text = ht_trace_totals_json(reader, error);
    json_t *totals = json_parsed(text);
    json_int_t ns = json_integer_value(json_object_get(totals, "duration_ns"));
    json_decref(totals);
    *duration_ns = ns > 0 ? (uint64_t)ns : 0;
    return text || !error->status ? 0 : -1;
}

int ht_prelude_form_build(struct ht_trace_reader *slice, const char *path,
                          const struct ht_form_options *options, struct ht_prelude_form *form,
                          struct ht_error *error) {
    *form = (struct ht_prelude_form){.built = {.fd = -1}};
    if (prelude_named(slice, &form->reader, error)) return -1;
    if (!form->reader) return 0;
    form->options = *options;
    form->options.of_prelude = true;
    form->options.timed_one_in = 0;
    form->options.has_aligned = false;
    form->options.samples = 1;
    if (!duration_of(form->reader, &form->options.end_ns, error) &&
        !ht_form_build(form->reader, path, &form->options, &form->built, error))
        return 0;
    ht_prelude_form_free(form);
    return -1;
}

void ht_prelude_form_free(struct ht_prelude_form *form) {
    if (!form->reader) return;
    ht_form_free(&form->built);
    ht_trace_close(form->reader);
    *form = (struct ht_prelude_form){.built = {.fd = -1}};
}
