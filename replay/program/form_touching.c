// SPDX-License-Identifier: Apache-2.0
#include "form_touching.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "form_segments.h"

enum { PORTIONS_MAX = 64, PORTION_PAGES_MIN = 16 };

// Which pages of a block are resident, in order: the first ones, or runs that the trace's steps from `row` on have.
struct shape {
    uint64_t pages;
    size_t row, row_end;
};

// One block. Between two points in time its pages are touched evenly, as fast as the program can have done
// it.
struct ht_filling {
    uint64_t due_ns;  // of the next portion
    uint64_t bytes, pages_after;
    uint64_t from_ns, until_ns, from_page, until_page;  // the stretch under way
    uint64_t next_from_ns;                              // the next one begins here
    uint64_t page, portion_pages;                       // touched so far, and at a time
    struct shape before, after;                         // when the stretch begins, and ends
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

// Finds where it belongs, going from a place that has become free.
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

// When the process can first have computed for so long since then, by its CPU time at each sample; until_ns at the latest.
static uint64_t moment_of(const struct ht_trace_facts *facts, uint64_t from_ns, uint64_t until_ns,
                          double busy_ns) {
    double target_ns = ht_trace_cpu_ns_at(facts, from_ns) + busy_ns;
    size_t low = 0, high = facts->samples_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct ht_sample *sample = &facts->samples[middle];
        if (sample->time_ns <= from_ns || (double)sample->cpu_ns < target_ns) low = middle + 1;
        else high = middle;
    }
    uint64_t begin_ns =
        low && facts->samples[low - 1].time_ns > from_ns ? facts->samples[low - 1].time_ns : from_ns;
    double begin_cpu_ns = ht_trace_cpu_ns_at(facts, begin_ns), left_ns = fmax(target_ns - begin_cpu_ns, 0),
           pace = 1;
    if (low < facts->samples_count) {
        const struct ht_sample *after = &facts->samples[low];
        // Several threads compute for longer than it takes.
        pace = fmax(((double)after->cpu_ns - begin_cpu_ns) / (double)(after->time_ns - begin_ns), 1);
    }
    return begin_ns < until_ns ? begin_ns + (uint64_t)fmin(left_ns / pace, (double)(until_ns - begin_ns))
                               : until_ns;
}

// One more than the block's size takes: so the trace tells all that it lies in.
static uint64_t most_pages_of(uint64_t bytes) {
    return bytes / HT_TOUCH_PAGE_BYTES + (bytes % HT_TOUCH_PAGE_BYTES != 0) + 1;
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

static struct shape first_pages(uint64_t pages) { return (struct shape){.pages = pages}; }

// What was seen at the time of the step in that row: runs have a step each.
static struct shape shape_at(const struct ht_trace_facts *facts, size_t row, size_t end) {
    const struct ht_residency_step *step = &facts->steps[row];
    struct shape shape = {.pages = step->pages, .row = row, .row_end = row};
    if (!step->run_pages) return shape;
    while (shape.row_end < end && facts->steps[shape.row_end].time_ns == step->time_ns &&
           facts->steps[shape.row_end].pages == step->pages)
        shape.row_end++;
    return shape;
}

// Goes on to the next stretch in which there is something to touch. False if there is none.
static bool next_stretch(const struct ht_trace_facts *facts, struct ht_filling *filling) {
    uint64_t pages_max = most_pages_of(filling->bytes);
    if (filling->pages_after < pages_max) pages_max = filling->pages_after;
    while (filling->step < filling->steps_end) {
        const struct ht_residency_step *step = &facts->steps[filling->step];
        struct shape shape = shape_at(facts, filling->step, filling->steps_end);
        uint64_t pages = step->pages < pages_max ? step->pages : pages_max;
        filling->step = shape.row_end > filling->step ? shape.row_end : filling->step + 1;
        if (step->time_ns >= HT_TIME_LIMIT_NS) return false;
        filling->from_ns = filling->next_from_ns;
        if (step->time_ns > filling->from_ns) filling->next_from_ns = step->time_ns;
        if (pages <= filling->page) continue;
        filling->until_ns = ht_trace_busy_until(facts, filling->from_ns, filling->next_from_ns);
        filling->from_page = filling->page;
        filling->until_page = pages;
        filling->before = filling->after;
        filling->after = shape;
        cut_portions(filling);
        return true;
    }
    return false;
}

static uint64_t portion_end(const struct ht_filling *filling) {
    uint64_t left = filling->until_page - filling->page;
    return filling->page + (left < filling->portion_pages ? left : filling->portion_pages);
}

// A portion is due when half of it would be. Along a stretch pages come as CPU time does: where the process waited they wait.
static void set_due(const struct ht_trace_facts *facts, struct ht_filling *filling) {
    double middle = ((double)filling->page + (double)portion_end(filling)) / 2 - (double)filling->from_page;
    double share = middle / (double)(filling->until_page - filling->from_page);
    double busy_ns =
        ht_trace_cpu_ns_at(facts, filling->next_from_ns) - ht_trace_cpu_ns_at(facts, filling->from_ns);
    filling->due_ns =
        facts->samples_count && busy_ns > 0
            ? moment_of(facts, filling->from_ns, filling->next_from_ns, share * busy_ns)
            : filling->from_ns + (uint64_t)(share * (double)(filling->until_ns - filling->from_ns));
}

// ---- what becomes of a block ----

// As far as a block is filled from its start on.
static uint64_t pages_from_start(const struct ht_trace_facts *facts, const struct ht_birth *birth) {
    const struct ht_residency_step *first = &facts->steps[birth->steps];
    if (birth->steps == birth->steps_end || !first->run_pages) return UINT64_MAX;
    return first->first_page ? 0 : first->run_pages;
}

uint64_t ht_touching_at_once(const struct ht_touching *touching, const struct ht_birth *birth,
                             uint64_t time_ns, bool inherited) {
    const struct ht_trace_facts *facts = &touching->form->facts;
    const struct ht_residency_step *steps = facts->steps;
    uint64_t pages = birth->pages_before, from_start = pages_from_start(facts, birth);
    for (size_t i = birth->steps; i < birth->steps_end; i++) {
        // What a forked process inherits is as full as it was first seen.
        bool at_once = steps[i].time_ns <= time_ns || (inherited && i == birth->steps);
        if (at_once && steps[i].pages > pages) pages = steps[i].pages;
    }
    if (pages > birth->pages_after) pages = birth->pages_after;
    return pages < from_start ? pages : from_start;
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
                                 .after = first_pages(pages_touched),
                                 .step = birth->steps,
                                 .steps_end = birth->steps_end,
                                 .slot = slot,
                                 .stream = stream};
    if (!next_stretch(&touching->form->facts, &filling)) return 0;
    if (make_room(touching, slot)) return -1;
    set_due(&touching->form->facts, &filling);
    touching->form->streams[stream].events++;
    touching->form->streams[stream].fillings++;
    settle(touching, touching->count++, filling);
    return 0;
}

// ---- which pages they are ----

struct range {
    uint64_t from, until;
};

// The run of that number, of a block of so many pages; an empty one behind it if there is none.
static struct range run_of(const struct ht_trace_facts *facts, const struct shape *shape, size_t number,
                           uint64_t block_pages) {
    size_t runs = shape->row_end > shape->row ? shape->row_end - shape->row : 1;
    if (number >= runs) return (struct range){block_pages, block_pages};
    if (shape->row_end == shape->row)
        return (struct range){0, shape->pages < block_pages ? shape->pages : block_pages};
    const struct ht_residency_step *step = &facts->steps[shape->row + number];
    uint64_t from = step->first_page < block_pages ? step->first_page : block_pages;
    return (struct range){from, step->run_pages < block_pages - from ? from + step->run_pages : block_pages};
}

// Pages of one shape that another one has not.
struct new_pages {
    struct shape before, after;
    uint64_t block_pages, at;
    size_t before_run, after_run;
};

static bool next_range(const struct ht_trace_facts *facts, struct new_pages *pages, struct range *range) {
    while (pages->at < pages->block_pages) {
        struct range has = run_of(facts, &pages->after, pages->after_run, pages->block_pages);
        struct range had = run_of(facts, &pages->before, pages->before_run, pages->block_pages);
        if (pages->at < has.from) {
            pages->at = has.from;
        } else if (pages->at >= has.until) {
            pages->after_run++;
        } else if (had.from < pages->block_pages && pages->at >= had.until) {
            pages->before_run++;
        } else if (pages->at >= had.from) {
            pages->at = had.until;
        } else {
            *range = (struct range){pages->at, has.until < had.from ? has.until : had.from};
            pages->at = range->until;
            return true;
        }
    }
    return false;
}

static int put_range(struct ht_touching *touching, const struct ht_filling *filling, struct range range) {
    struct ht_stream_state *stream = &touching->form->streams[filling->stream];
    ht_stream_put(stream, ht_word(HT_WORD_WIDE, filling->slot, HT_WIDE_TOUCH));
    ht_stream_put(stream, filling->bytes);
    ht_stream_put(stream, range.from);
    ht_stream_put(stream, range.until);
    touching->touched(touching->context, filling->slot, range.until - range.from);
    return ht_form_make_room(touching->form, filling->stream);
}

// Writes those of the new pages that come behind the first `skipped`, up to `most` of them, and leaves room for an event.
static int put_pages(struct ht_touching *touching, const struct ht_filling *filling, struct new_pages pages,
                     uint64_t skipped, uint64_t most, uint64_t time_ns) {
    struct ht_form_state *form = touching->form;
    struct range range;
    if (!most) return 0;
    if (ht_form_make_room(form, filling->stream)) return -1;
    ht_stream_put_time(&form->streams[filling->stream], time_ns);
    while (most && next_range(&form->facts, &pages, &range)) {
        uint64_t count = range.until - range.from, passed = skipped < count ? skipped : count;
        skipped -= passed;
        range.from += passed;
        if (range.until - range.from > most) range.until = range.from + most;
        most -= range.until - range.from;
        if (range.from < range.until && put_range(touching, filling, range)) return -1;
    }
    return 0;
}

// Of the stretch under way.
static int put_portion(struct ht_touching *touching, const struct ht_filling *filling, uint64_t until_page,
                       uint64_t time_ns) {
    struct new_pages pages = {
        .before = filling->before, .after = filling->after, .block_pages = most_pages_of(filling->bytes)};
    if (until_page <= filling->page) return 0;
    return put_pages(touching, filling, pages, filling->page - filling->from_page, until_page - filling->page,
                     time_ns);
}

static int drop(struct ht_touching *touching, size_t at) {
    uint32_t stream = touching->filling[at].stream;
    take_out(touching, at);
    touching->form->streams[stream].fillings--;
    return ht_form_events_written(touching->form, stream, 1);
}

// How many pages are touched when the block ends.
static uint64_t pages_in_the_end(const struct ht_touching *touching, const struct ht_filling *filling) {
    uint64_t pages = filling->pages_after, pages_max = most_pages_of(filling->bytes);
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
        if (more) set_due(&touching->form->facts, &filling);
        else filling.due_ns = UINT64_MAX;  // what the steps do not cover comes with the block's end
        settle(touching, 0, filling);
        if (!more && end >= pages_in_the_end(touching, &filling) &&
            drop(touching, touching->place_of_slot[filling.slot] - 1))
            return -1;
    }
    return 0;
}

// What is left of the stretches, and of pages that no step covers: those come from the block's start on.
static int end_at(struct ht_touching *touching, size_t at) {
    struct ht_filling filling = touching->filling[at];
    uint64_t given_ns = touching->form->streams[filling.stream].given_ns;
    uint64_t end = pages_in_the_end(touching, &filling);
    do {
        uint64_t until = filling.until_page < end ? filling.until_page : end;
        if (put_portion(touching, &filling, until, given_ns)) return -1;
        if (until > filling.page) filling.page = until;
    } while (next_stretch(&touching->form->facts, &filling));
    if (end > filling.page) {
        struct new_pages rest = {.before = filling.after,
                                 .after = first_pages(UINT64_MAX),
                                 .block_pages = most_pages_of(filling.bytes)};
        if (put_pages(touching, &filling, rest, 0, end - filling.page, given_ns)) return -1;
    }
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
