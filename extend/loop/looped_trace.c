// SPDX-License-Identifier: Apache-2.0
#include "looped_trace.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "grow.h"
#include "loop_threads.h"
#include "plan_loops.h"
#include "sorted.h"
#include "trace_facts.h"
#include "trace_layout.h"

enum { ROWS = HT_SECTION_ROWS_MAX };

// Who plays a slot of the trace: a slot of the extension, the same one for a whole repetition.
struct player {
    uint32_t slot : 31;
    uint32_t live : 1;  // whether an object is in it
};
#define PLAYERS_MAX ((UINT32_C(1) << 31) - 1)

struct looped {
    struct ht_trace_reader *reader;
    char *path;
    struct loop_plan plan;
    struct ht_trace_facts facts;  // of the trace
    char *context, *totals;
    struct ht_op_shape shape[256];
    struct ht_section_place *places;
    size_t places_count;
    size_t *head;  // the sections up to the stretch's end
    size_t head_count;
    // Where reading is: sections have to be read in their order, since each begins with the heap that the last one left.
    size_t next;
    struct player *now, *then;  // by slot of the trace; and in the last repetition
    uint32_t slots;             // of the extension, so far
    uint64_t *bytes;            // by slot of the extension, where the plan has sized frees
    size_t bytes_room;
    uint32_t *thread,
        *former;       // by thread of the trace: that which plays it, plus one; and in the last repetition
    uint32_t threads;  // numbers given
    // The section read last.
    uint8_t *op;
    uint32_t *row_thread, *slot, *site;
    uint64_t *time_ns, *size, *extra;
};

static int no_memory(const struct looped *looped, struct ht_error *error) {
    return ht_error_memory(error, looped->path, "cannot extend the trace");
}

static uint64_t length_ns(const struct loop_plan *plan) { return plan->until_ns - plan->from_ns; }

// ---- places ----

static void put_place(struct looped *looped, size_t section, uint32_t rows, uint64_t first_ns) {
    const struct ht_section_place *last =
        looped->places_count ? &looped->places[looped->places_count - 1] : NULL;
    looped->places[looped->places_count++] =
        (struct ht_section_place){.offset = ht_trace_section(looped->reader, section)->offset,
                                  .kind = HT_SECTION_EVENTS,
                                  .rows = rows,
                                  .first_event = last ? last->first_event + last->rows : 0,
                                  .first_time = first_ns / ht_trace_time_unit_ns(looped->reader)};
}

static bool make_places(struct looped *looped) {
    const struct loop_plan *plan = &looped->plan;
    size_t sections = ht_trace_sections(looped->reader);
    looped->head = calloc(sections + 1, sizeof *looped->head);
    looped->places = calloc(sections + plan->loops * plan->sections_count + 1, sizeof *looped->places);
    if (!looped->head || !looped->places) return false;
    for (size_t i = 0; i < sections; i++) {
        const struct ht_section_place *place = ht_trace_section(looped->reader, i);
        if (place->kind != HT_SECTION_EVENTS || place->first_event >= plan->end_event) continue;
        uint64_t rows = plan->end_event - place->first_event;
        looped->head[looped->head_count++] = i;
        put_place(looped, i, rows < place->rows ? (uint32_t)rows : place->rows,
                  place->first_time * ht_trace_time_unit_ns(looped->reader));
    }
    for (uint64_t loop = 1; loop <= plan->loops; loop++) {
        for (size_t i = 0; i < plan->sections_count; i++) {
            const struct loop_section *section = &plan->sections[i];
            uint32_t rows = loop == plan->loops ? section->rows_cut : section->rows;
            if (!rows) break;
            put_place(looped, section->section, rows, section->first_ns + loop * length_ns(plan));
        }
    }
    return true;
}

// ---- events ----

// The thread that plays a thread of the trace; UINT32_MAX if there are too many.
static uint32_t thread_of(struct looped *looped, uint32_t number) {
    if (looped->thread[number]) return looped->thread[number] - 1;
    if (looped->threads >= HT_THREADS_MAX) return UINT32_MAX;
    looped->thread[number] = ++looped->threads;
    return looped->threads - 1;
}

// Puts the object that the event is about under its new name.
static void rename_slot(struct looped *looped, const struct ht_events *events, uint32_t row,
                        const struct ht_op_shape *shape, uint32_t to) {
    struct player *player = &looped->now[events->slot[row]];
    looped->slot[to] = player->slot;
    if (shape->query) return;
    player->live = !shape->ends_object;
    if (!looped->plan.sized_frees) return;
    uint64_t *bytes = &looped->bytes[player->slot];
    if (!shape->ends_object) *bytes = ht_event_bytes(events, row);
    // A block is freed by the size that it has.
    else if (looped->next > looped->head_count && shape->size && ht_op_variant(events->op[row]) == HT_PLAIN)
        looped->size[to] = *bytes;
}

// Appends an event; *to: how many there are. False if there are too many threads.
static bool put_event(struct looped *looped, const struct ht_events *events, uint32_t row, uint64_t shift_ns,
                      uint32_t *to) {
    const struct ht_op_shape *shape = &looped->shape[events->op[row]];
    uint32_t thread = thread_of(looped, events->thread[row]);
    if (thread == UINT32_MAX) return false;
    looped->op[*to] = events->op[row];
    looped->row_thread[*to] = thread;
    looped->time_ns[*to] = events->time_ns[row] + shift_ns;
    looped->size[*to] = events->size[row];
    looped->extra[*to] = events->extra[row];
    looped->site[*to] = events->site ? events->site[row] : 0;
    looped->slot[*to] = 0;
    if (shape->slot) rename_slot(looped, events, row, shape, *to);
    ++*to;
    return true;
}

// What a damaged trace may name that the plan has not seen.
static const char *check_event(const struct looped *looped, const struct ht_events *events, uint32_t row) {
    const struct ht_op_shape *shape = &looped->shape[events->op[row]];
    if (events->slot[row] > looped->plan.slots)
        return ht_found("expected a slot that was there when the trace was read first", events->slot[row]);
    if (events->thread[row] >= looped->plan.head_threads)
        return ht_found("expected a thread that was there when the trace was read first",
                        events->thread[row]);
    if (!shape->slot) return NULL;
    if (shape->makes_object && looped->now[events->slot[row]].live)
        return ht_found("expected an allocation into a free slot", events->slot[row]);
    return NULL;
}

// Fetches what events a few rows ahead will touch: slots lie anywhere in tables that no cache holds.
static inline void fetch_ahead(const struct looped *looped, const struct ht_events *events, uint32_t row) {
    enum { PLAYER_AHEAD = 32, BYTES_AHEAD = 16 };
    if (row + PLAYER_AHEAD >= events->rows) return;
    uint32_t far = events->slot[row + PLAYER_AHEAD], near = events->slot[row + BYTES_AHEAD];
    if (far > looped->plan.slots || near > looped->plan.slots) return;
    __builtin_prefetch(&looped->now[far], 1);
    if (!looped->plan.sized_frees) return;
    __builtin_prefetch(&looped->bytes[looped->now[near].slot], 1);
}

// The events of one section: up to the stretch's end, or as they are in a repetition.
static int take_section(struct looped *looped, size_t section, uint64_t loop, uint32_t *rows, bool *sites,
                        struct ht_error *error) {
    const struct loop_plan *plan = &looped->plan;
    struct ht_events events;
    if (ht_trace_events(looped->reader, section, &events, error)) return -1;
    uint64_t shift_ns = loop * length_ns(plan);
    *rows = 0;
    *sites = events.site != NULL;
    for (uint32_t row = 0; row < events.rows; row++) {
        uint64_t event = events.first_event + row;
        fetch_ahead(looped, &events, row);
        if (event >= plan->end_event) break;
        if (loop && event < plan->from_event) continue;
        if (loop == plan->loops && events.time_ns[row] >= plan->cut_ns && loop) break;
        const struct ht_op_shape shape = looped->shape[events.op[row]];
        const char *wrong = check_event(looped, &events, row);
        bool played = !wrong && looped->now[events.slot[row]].live;
        if (!wrong && !loop && shape.slot && !shape.makes_object && !played)
            wrong = ht_found("expected a slot with a live object", events.slot[row]);
        if (wrong)
            return ht_error_input(error, looped->path, ht_trace_section(looped->reader, section)->offset,
                                  "event %llu: %s", (unsigned long long)event, wrong);
        if (loop && !loop_has(plan, shape, played, event)) continue;
        if (!put_event(looped, &events, row, shift_ns, rows)) return no_memory(looped, error);
    }
    return 0;
}

// ---- repetitions ----

// The threads that begin anew have no number yet.
static void begin_threads(struct looped *looped) {
    const struct loop_plan *plan = &looped->plan;
    memcpy(looped->former, looped->thread, plan->head_threads * sizeof *looped->thread);
    for (uint32_t i = 0; i < plan->head_threads; i++) {
        const struct loop_thread *thread = &plan->threads[i];
        looped->thread[i] = thread->player == MATCH_NONE ? 0 : looped->former[thread->player];
    }
}

// Gives each slot of the trace a player: where an object is in it as the repetition begins, that which played the object's
// partner, else one that is free. False for want of memory or numbers.
static bool begin_loop(struct looped *looped) {
    const struct loop_plan *plan = &looped->plan;
    struct player *then = looped->now;
    looped->now = looped->then;
    looped->then = then;
    for (uint32_t slot = 1; slot <= plan->slots; slot++) {
        struct player *player = &looped->now[slot];
        *player = then[plan->predecessor[slot]];
        if (plan->play[slot] || !player->live) continue;
        // Whom nobody plays stays there for ever.
        if (looped->slots == PLAYERS_MAX) return false;
        *player = (struct player){.slot = ++looped->slots & PLAYERS_MAX};
    }
    begin_threads(looped);
    return !plan->sized_frees ||
           ht_grow(&looped->bytes, &looped->bytes_room, (size_t)looped->slots + 1, sizeof *looped->bytes);
}

static void start_over(struct looped *looped) {
    looped->slots = looped->plan.slots;
    for (uint32_t slot = 0; slot <= looped->plan.slots; slot++)
        looped->now[slot] = (struct player){.slot = slot & PLAYERS_MAX};
    memset(looped->thread, 0, ((size_t)looped->plan.head_threads + 1) * sizeof *looped->thread);
    looped->threads = 0;
    looped->next = 0;
}

// The next section, in its order.
static int read_next(struct looped *looped, uint32_t *rows, bool *sites, struct ht_error *error) {
    const struct loop_plan *plan = &looped->plan;
    size_t i = looped->next++;
    if (i < looped->head_count) return take_section(looped, looped->head[i], 0, rows, sites, error);
    uint64_t loop = (i - looped->head_count) / plan->sections_count + 1;
    size_t part = (i - looped->head_count) % plan->sections_count;
    if (part == 0 && !begin_loop(looped)) return no_memory(looped, error);
    return take_section(looped, plan->sections[part].section, loop, rows, sites, error);
}

static int events_of(void *context, size_t i, struct ht_events *events, struct ht_error *error) {
    struct looped *looped = context;
    uint32_t rows = 0;
    bool sites = false;
    assert(i < looped->places_count);
    if (i < looped->next) start_over(looped);
    while (looped->next <= i) {  // mostly once: what was left out has to be gone through
        const struct ht_section_place *place = &looped->places[looped->next];
        int status = read_next(looped, &rows, &sites, error);
        if (!status && rows != place->rows)
            status = ht_error_input(error, looped->path, place->offset,
                                    "expected %u events, found %u: the trace has changed", place->rows, rows);
        if (!status) continue;
        looped->next = SIZE_MAX;  // the next reading starts over
        return -1;
    }
    *events = (struct ht_events){.rows = rows,
                                 .first_event = looped->places[i].first_event,
                                 .op = looped->op,
                                 .thread = looped->row_thread,
                                 .time_ns = looped->time_ns,
                                 .slot = looped->slot,
                                 .size = looped->size,
                                 .extra = looped->extra,
                                 .site = sites ? looped->site : NULL};
    return 0;
}

// ---- facts ----

// Up to the stretch's end as they were recorded. Nothing was measured behind it: there are no samples there.
static bool copy_head(const struct looped *looped, struct ht_trace_facts *facts) {
    const struct ht_trace_facts *old = &looped->facts;
    const struct loop_plan *plan = &looped->plan;
    facts->samples = malloc((old->samples_count + 1) * sizeof *facts->samples);
    facts->residency = malloc((old->residency_count + 1) * sizeof *facts->residency);
    facts->steps = malloc((old->steps_count + 1) * sizeof *facts->steps);
    if (!facts->samples || !facts->residency || !facts->steps) return false;
    for (size_t i = 0; i < old->samples_count; i++)
        if (old->samples[i].event < plan->end_event && old->samples[i].time_ns < plan->until_ns)
            facts->samples[facts->samples_count++] = old->samples[i];
    for (size_t i = 0; i < old->residency_count; i++)
        if (old->residency[i].event < plan->end_event)
            facts->residency[facts->residency_count++] = old->residency[i];
    for (size_t i = 0; i < old->steps_count; i++)
        if (old->steps[i].event < plan->end_event) facts->steps[facts->steps_count++] = old->steps[i];
    return true;
}

static size_t first_residency(const struct ht_trace_facts *facts, uint64_t event) {
    static_assert(offsetof(struct ht_residency, event) == 0, "first");
    return HT_FIRST_FROM(facts->residency, facts->residency_count, event, event);
}

static size_t first_step(const struct ht_trace_facts *facts, uint64_t event) {
    static_assert(offsetof(struct ht_residency_step, event) == 0, "first");
    return HT_FIRST_FROM(facts->steps, facts->steps_count, event, event);
}

// How many rows of each kind a repetition has: those of its large blocks.
static void count_rows(const struct looped *looped, size_t *residency, size_t *steps) {
    *residency = *steps = 0;
    for (size_t i = 0; i < looped->plan.births_count; i++) {
        uint64_t event = looped->plan.births[i].event;
        *residency += first_residency(&looped->facts, event + 1) - first_residency(&looped->facts, event);
        *steps += first_step(&looped->facts, event + 1) - first_step(&looped->facts, event);
    }
}

// Large blocks are filled in each repetition as they were in the stretch.
static bool repeat_residency(const struct looped *looped, struct ht_trace_facts *facts) {
    const struct loop_plan *plan = &looped->plan;
    const struct ht_trace_facts *old = &looped->facts;
    size_t residency, steps;
    count_rows(looped, &residency, &steps);
    residency = facts->residency_count + plan->loops * residency;
    steps = facts->steps_count + plan->loops * steps;
    struct ht_residency *more = realloc(facts->residency, (residency + 1) * sizeof *more);
    if (more) facts->residency = more;
    struct ht_residency_step *larger = realloc(facts->steps, (steps + 1) * sizeof *larger);
    if (larger) facts->steps = larger;
    if (!more || !larger) return false;
    for (uint64_t loop = 1; loop <= plan->loops; loop++) {
        uint64_t first_event = plan->end_event + (loop - 1) * plan->rows, shift_ns = loop * length_ns(plan);
        for (size_t i = 0; i < plan->births_count; i++) {
            const struct loop_birth *birth = &plan->births[i];
            if (loop == plan->loops && birth->row >= plan->rows_cut) break;
            uint64_t event = first_event + birth->row;
            for (size_t k = first_residency(old, birth->event);
                 k < old->residency_count && old->residency[k].event == birth->event; k++) {
                facts->residency[facts->residency_count] = old->residency[k];
                facts->residency[facts->residency_count++].event = event;
            }
            for (size_t k = first_step(old, birth->event);
                 k < old->steps_count && old->steps[k].event == birth->event; k++) {
                facts->steps[facts->steps_count] = old->steps[k];
                facts->steps[facts->steps_count].time_ns += shift_ns;
                facts->steps[facts->steps_count++].event = event;
            }
        }
    }
    return true;
}

static int facts_of(void *context, struct ht_trace_facts *facts, struct ht_error *error) {
    struct looped *looped = context;
    *facts = (struct ht_trace_facts){0};
    bool made = copy_head(looped, facts) && repeat_residency(looped, facts);
    if (made)
        made = (facts->threads =
                    loop_threads_extended(&looped->plan, &looped->facts, &facts->threads_count)) != NULL;
    if (made) return 0;
    ht_trace_facts_free(facts);
    return no_memory(looped, error);
}

static char *copy_text(const struct looped *looped, const char *text, struct ht_error *error) {
    char *copy = strdup(text);
    error->status = 0;
    if (!copy) no_memory(looped, error);
    return copy;
}

static char *context_of(void *context, struct ht_error *error) {
    const struct looped *looped = context;
    return copy_text(looped, looped->context, error);
}

static char *totals_of(void *context, struct ht_error *error) {
    const struct looped *looped = context;
    return copy_text(looped, looped->totals, error);
}

// ---- the reader ----

// What is its own; the reader, which it is made from, is closed by whoever closes the new one.
static void free_own(struct looped *looped) {
    free(looped->path);
    free(looped->places);
    free(looped->head);
    free(looped->now);
    free(looped->then);
    free(looped->bytes);
    free(looped->thread);
    free(looped->former);
    free(looped->op);
    free(looped->row_thread);
    free(looped->slot);
    free(looped->site);
    free(looped->time_ns);
    free(looped->size);
    free(looped->extra);
    free(looped);
}

static void close_looped(void *context) {
    struct looped *looped = context;
    loop_plan_free(&looped->plan);
    ht_trace_facts_free(&looped->facts);
    free(looped->context);
    free(looped->totals);
    free_own(looped);
}

static bool make_room(struct looped *looped) {
    size_t slots = (size_t)looped->plan.slots + 1, threads = (size_t)looped->plan.head_threads + 1;
    looped->now = calloc(slots, sizeof *looped->now);
    looped->then = calloc(slots, sizeof *looped->then);
    bool sizes = !looped->plan.sized_frees ||
                 ht_grow(&looped->bytes, &looped->bytes_room, slots, sizeof *looped->bytes);
    looped->thread = calloc(threads, sizeof *looped->thread);
    looped->former = calloc(threads, sizeof *looped->former);
    looped->op = calloc(ROWS, sizeof *looped->op);
    looped->row_thread = calloc(ROWS, sizeof *looped->row_thread);
    looped->slot = calloc(ROWS, sizeof *looped->slot);
    looped->site = calloc(ROWS, sizeof *looped->site);
    looped->time_ns = calloc(ROWS, sizeof *looped->time_ns);
    looped->size = calloc(ROWS, sizeof *looped->size);
    looped->extra = calloc(ROWS, sizeof *looped->extra);
    return looped->path && looped->now && looped->then && sizes && looped->thread && looped->former &&
           looped->op && looped->row_thread && looped->slot && looped->site && looped->time_ns &&
           looped->size && looped->extra;
}

struct ht_trace_reader *looped_trace_open(struct ht_trace_reader *reader, const char *path,
                                          struct loop_plan *plan, struct ht_trace_facts *facts, char *context,
                                          char *totals, struct ht_error *error) {
    struct looped *looped = calloc(1, sizeof *looped);
    if (!looped) {
        ht_error_memory(error, path, "cannot extend the trace");
        return NULL;
    }
    *looped = (struct looped){.reader = reader,
                              .path = strdup(path),
                              .plan = *plan,
                              .facts = *facts,
                              .context = context,
                              .totals = totals,
                              .next = SIZE_MAX};  // the first reading starts over
    for (unsigned op = 0; op < 256; op++) looped->shape[op] = ht_op_shape((uint8_t)op);
    struct ht_trace_reader *made = NULL;
    if (!make_room(looped) || !make_places(looped)) {
        no_memory(looped, error);
    } else {
        made = ht_trace_open_made(reader,
                                  &(struct ht_trace_made){.context = looped,
                                                          .places = looped->places,
                                                          .places_count = looped->places_count,
                                                          .events = events_of,
                                                          .facts = facts_of,
                                                          .context_json = context_of,
                                                          .totals_json = totals_of,
                                                          .close = close_looped},
                                  error);
    }
    if (!made) {
        free_own(looped);
        return NULL;
    }
    *plan = (struct loop_plan){0};
    *facts = (struct ht_trace_facts){0};
    return made;
}
