#include "form_touching.h"

#include <errno.h>
#include <stdlib.h>

#include "form_segments.h"

enum { PORTIONS_MAX = 64, PORTION_PAGES_MIN = 16 };

// One block. Between two points in time its pages are touched evenly, as fast as the program can have done
// it.
struct ht_filling {
    uint64_t due_ns;  // of the next portion
    uint64_t bytes, pages_after;
    uint64_t from_ns, until_ns, from_page, until_page;  // the stretch under way
    uint64_t next_from_ns;                              // the next one begins here
    uint64_t page, portion_pages;                       // touched so far, and at a time
    size_t step, steps_end;                             // of the facts: the stretches to come
    uint32_t slot, stream;
};

void ht_touching_init(struct ht_touching *touching, struct ht_form_state *form) {
    *touching = (struct ht_touching){.form = form, .due_ns = UINT64_MAX};
}

void ht_touching_free(struct ht_touching *touching) {
    free(touching->filling);
    free(touching->place_of_slot);
}

// ---- the order in which portions are due ----

static void put(struct ht_touching *touching, size_t at, const struct ht_filling *filling) {
    touching->filling[at] = *filling;
    touching->place_of_slot[filling->slot] = (uint32_t)at + 1;
}

static void know_first(struct ht_touching *touching) {
    touching->due_ns = touching->count ? touching->filling[0].due_ns : UINT64_MAX;
}

// Where it belongs, going from a place that has become free.
static void settle(struct ht_touching *touching, size_t at, struct ht_filling moved) {
    struct ht_filling *heap = touching->filling;
    for (; at > 0 && moved.due_ns < heap[(at - 1) / 2].due_ns; at = (at - 1) / 2)
        put(touching, at, &heap[(at - 1) / 2]);
    for (size_t child; (child = 2 * at + 1) < touching->count; at = child) {
        if (child + 1 < touching->count && heap[child + 1].due_ns < heap[child].due_ns) child++;
        if (moved.due_ns <= heap[child].due_ns) break;
        put(touching, at, &heap[child]);
    }
    put(touching, at, &moved);
    know_first(touching);
}

static void take_out(struct ht_touching *touching, size_t at) {
    touching->place_of_slot[touching->filling[at].slot] = 0;
    touching->count--;
    if (at < touching->count) settle(touching, at, touching->filling[touching->count]);
    know_first(touching);
}

// ---- stretches ----

// Who touches memory takes CPU time: before a pause, not all through it.
static uint64_t busy_until(const struct ht_trace_facts *facts, uint64_t from_ns, uint64_t until_ns) {
    if (until_ns <= from_ns) return from_ns;
    if (!facts->samples_count) return until_ns;
    double busy_ns = ht_trace_cpu_ns_at(facts, until_ns) - ht_trace_cpu_ns_at(facts, from_ns);
    if (!(busy_ns > 0)) return from_ns;
    return busy_ns < (double)(until_ns - from_ns) ? from_ns + (uint64_t)busy_ns : until_ns;
}

static uint64_t pages_of(uint64_t bytes) {
    return bytes / HT_TOUCH_PAGE_BYTES + (bytes % HT_TOUCH_PAGE_BYTES != 0);
}

// As many portions as the stretch is long enough for: a thread's place is not given more often than this.
static void cut_portions(struct ht_filling *filling) {
    uint64_t pages = filling->until_page - filling->from_page;
    uint64_t portions = (filling->until_ns - filling->from_ns) / HT_TIME_STEP_NS;
    if (portions > PORTIONS_MAX) portions = PORTIONS_MAX;
    if (portions < 1) portions = 1;
    filling->portion_pages = (pages + portions - 1) / portions;
    if (filling->portion_pages < PORTION_PAGES_MIN) filling->portion_pages = PORTION_PAGES_MIN;
}

// Goes on to the next stretch in which there is something to touch. False if there is none.
static bool next_stretch(const struct ht_trace_facts *facts, struct ht_filling *filling) {
    uint64_t pages_max = pages_of(filling->bytes);
    if (filling->pages_after < pages_max) pages_max = filling->pages_after;
    while (filling->step < filling->steps_end) {
        const struct ht_residency_step *step = &facts->steps[filling->step++];
        uint64_t pages = step->pages < pages_max ? step->pages : pages_max;
        if (step->time_ns >= HT_TIME_LIMIT_NS) return false;
        filling->from_ns = filling->next_from_ns;
        if (step->time_ns > filling->from_ns) filling->next_from_ns = step->time_ns;
        if (pages <= filling->page) continue;
        filling->until_ns = busy_until(facts, filling->from_ns, filling->next_from_ns);
        filling->from_page = filling->page;
        filling->until_page = pages;
        cut_portions(filling);
        return true;
    }
    return false;
}

static uint64_t portion_end(const struct ht_filling *filling) {
    uint64_t left = filling->until_page - filling->page;
    return filling->page + (left < filling->portion_pages ? left : filling->portion_pages);
}

// A portion is due when half of it would be.
static void set_due(struct ht_filling *filling) {
    double middle = ((double)filling->page + (double)portion_end(filling)) / 2 - (double)filling->from_page;
    double share = middle / (double)(filling->until_page - filling->from_page);
    filling->due_ns = filling->from_ns + (uint64_t)(share * (double)(filling->until_ns - filling->from_ns));
}

// ---- what becomes of a block ----

uint64_t ht_touching_at_once(const struct ht_touching *touching, const struct ht_birth *birth,
                             uint64_t time_ns, bool inherited) {
    const struct ht_residency_step *steps = touching->form->facts.steps;
    uint64_t pages = birth->pages_before;
    for (size_t i = birth->steps; i < birth->steps_end; i++) {
        // What a forked process inherits is as full as it was first seen.
        bool at_once = steps[i].time_ns <= time_ns || (inherited && i == birth->steps);
        if (at_once && steps[i].pages > pages) pages = steps[i].pages;
    }
    return pages < birth->pages_after ? pages : birth->pages_after;
}

static int make_room(struct ht_touching *touching, uint32_t slot) {
    struct ht_form_state *form = touching->form;
    return ht_form_grow(form, &touching->filling, &touching->room, touching->count + 1,
                        sizeof *touching->filling) ||
                   ht_form_grow(form, &touching->place_of_slot, &touching->slots_room, (size_t)slot + 1,
                                sizeof *touching->place_of_slot)
               ? -1
               : 0;
}

int ht_touching_begin(struct ht_touching *touching, const struct ht_birth *birth, uint32_t slot,
                      uint32_t stream, uint64_t bytes, uint64_t time_ns, uint64_t pages_touched) {
    struct ht_filling filling = {.bytes = bytes,
                                 .pages_after = birth->pages_after,
                                 .next_from_ns = time_ns,
                                 .page = pages_touched,
                                 .step = birth->steps,
                                 .steps_end = birth->steps_end,
                                 .slot = slot,
                                 .stream = stream};
    if (!next_stretch(&touching->form->facts, &filling)) return 0;
    if (make_room(touching, slot)) return -1;
    set_due(&filling);
    touching->form->streams[stream].events++;
    touching->form->streams[stream].fillings++;
    settle(touching, touching->count++, filling);
    return 0;
}

// Writes one portion, and leaves room for an event.
static int put_portion(struct ht_touching *touching, const struct ht_filling *filling, uint64_t until_page,
                       uint64_t time_ns) {
    struct ht_form_state *form = touching->form;
    struct ht_stream_state *stream = &form->streams[filling->stream];
    if (until_page <= filling->page) return 0;
    if (ht_form_make_room(form, filling->stream)) return -1;
    ht_stream_put_time(stream, time_ns);
    ht_stream_put(stream, ht_word(HT_WORD_WIDE, filling->slot, HT_WIDE_TOUCH));
    ht_stream_put(stream, filling->bytes);
    ht_stream_put(stream, filling->page);
    ht_stream_put(stream, until_page);
    touching->touched(touching->context, filling->slot, until_page - filling->page);
    return ht_form_make_room(form, filling->stream);
}

static int drop(struct ht_touching *touching, size_t at) {
    uint32_t stream = touching->filling[at].stream;
    take_out(touching, at);
    touching->form->streams[stream].fillings--;
    return ht_form_events_written(touching->form, stream, 1);
}

// How many pages are touched when the block ends.
static uint64_t pages_in_the_end(const struct ht_touching *touching, const struct ht_filling *filling) {
    uint64_t pages = filling->pages_after, pages_max = pages_of(filling->bytes);
    if (pages == HT_PAGES_BY_RULE) pages = touching->form->facts.steps[filling->steps_end - 1].pages;
    return pages < pages_max ? pages : pages_max;
}

int ht_touching_until(struct ht_touching *touching, uint64_t time_ns) {
    while (touching->due_ns <= time_ns) {
        struct ht_filling filling = touching->filling[0];
        uint64_t end = portion_end(&filling);
        if (filling.due_ns > touching->form->at_ns) touching->form->at_ns = filling.due_ns;
        if (put_portion(touching, &filling, end, filling.due_ns)) return -1;
        filling.page = end;
        bool more = end < filling.until_page || next_stretch(&touching->form->facts, &filling);
        if (more) set_due(&filling);
        else filling.due_ns = UINT64_MAX;  // what the steps do not cover comes with the block's end
        settle(touching, 0, filling);
        if (!more && end >= pages_in_the_end(touching, &filling) &&
            drop(touching, touching->place_of_slot[filling.slot] - 1))
            return -1;
    }
    return 0;
}

static int end_at(struct ht_touching *touching, size_t at) {
    struct ht_filling filling = touching->filling[at];
    uint64_t given_ns = touching->form->streams[filling.stream].given_ns;
    if (put_portion(touching, &filling, pages_in_the_end(touching, &filling), given_ns)) return -1;
    return drop(touching, at);
}

int ht_touching_end(struct ht_touching *touching, uint32_t slot) {
    uint32_t place = slot < touching->slots_room ? touching->place_of_slot[slot] : 0;
    return place ? end_at(touching, place - 1) : 0;
}

int ht_touching_end_stream(struct ht_touching *touching, uint32_t stream) {
    for (size_t i = touching->count; i-- > 0;) {
        // What takes its place comes from behind and has been checked, or belongs to the stream, too.
        while (i < touching->count && touching->filling[i].stream == stream)
            if (end_at(touching, i)) return -1;
    }
    return 0;
}

int ht_touching_end_all(struct ht_touching *touching, uint64_t end_ns) {
    if (ht_touching_until(touching, end_ns ? end_ns : UINT64_MAX - 1)) return -1;
    while (touching->count)
        if (drop(touching, touching->count - 1)) return -1;
    return 0;
}
