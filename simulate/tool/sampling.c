// SPDX-License-Identifier: GPL-3.0-or-later
// Sampled recording. In a burst all accesses are written. Between bursts each place keeps when it was accessed last, and
// before the next burst these last accesses are written in their order, and the calls between them: the order of last
// accesses is all that the state of caches which replace the least recently used line depends on, so that a burst
// begins with the caches that it would find, under any allocator.
#include "tool.h"
#include <pub_tool_libcbase.h>
#include <pub_tool_mallocfree.h>

enum {
    PLACES = 1 << 20,  // granules: of so many bytes of neighbours each has its own
    NO_PLACE = PLACES,
    MOMENT_SHIFT = 48,
    MOMENTS = 1 << 15,
    SETTLING = 1 << 14,  // accesses of a burst that do not count, for what is not kept between bursts
    COUNTED = 1 << 16,   // and those that do
    // Granules, or paths, whose last accesses are written at once: not more lines than half of a second level.
    STRETCH = 1 << 14,
};
#define CODE_SLOT ((UInt) - 1)

// The last access to a place that nobody accesses after it.
struct touch {
    ULong place;  // a granule of the block, a line, a line of instructions
    UInt slot;    // + 1; 0: a line; CODE_SLOT
    UInt moment;
};

struct held_call {
    struct ht_recorded_call call;
    UInt moment;
};

static enum { IN_BETWEEN, SETTLES, COUNTS } phase;
static ULong phase_ends, counted_from, random_state = 1;
// By granule: moment << MOMENT_SHIFT | address; 0: none. One more takes what is no access, and is never 0.
static ULong places[PLACES + 1];
static UInt used[STRETCH + TAKEN_ROOM + TAKEN_SPARE];
static ULong used_paths[STRETCH + TAKEN_ROOM + TAKEN_SPARE];
static UInt used_count, used_path_count;
static UInt moment = 1;  // goes on with each call and each full buffer
static struct touch *touches, *sorted;
static struct held_call *held;
static UInt touch_count, touches_room, held_count, held_room;

// From half to one and a half times as many as there are on average.
static ULong between_bursts(void) {
    random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
    return (ULong)options.between / 2 + (random_state >> 33) % (ULong)options.between;
}

Bool is_between_bursts(void) { return options.sampled && phase == IN_BETWEEN; }

static void mark(const ULong *address, const ULong *end) {
    const ULong now = (ULong)moment << MOMENT_SHIFT;
    for (; address < end; address++) {
        UInt at = *address ? *address >> HT_GRANULE_SHIFT & (PLACES - 1) : NO_PLACE;
        used[used_count] = at;
        used_count += !places[at];
        places[at] = now | *address;
    }
}

// All paths at once, as each would be another number of rounds for the processor to guess; but not those of the loader.
UInt mark_paths(void) {
    const ULong *from = taken.addresses;
    UInt count = places_taken();
    places[NO_PLACE] = 1;
    for (UInt i = 0; i < places_taken(); i += places_of(taken.paths[i])) {
        const ULong word = taken.paths[i];
        UShort *last = &path_moments[unit_of(word)];
        count_instructions(word);
        count -= has_no_access(word);
        if (is_of_loader(word)) {
            mark(from, &taken.addresses[i]);
            from = &taken.addresses[i] + places_of(word);
            count -= places_of(word) - has_no_access(word);
        } else if (*last != moment) {
            if (!*last) used_paths[used_path_count++] = word;
            *last = (UShort)moment;
        }
    }
    mark(from, next_address);
    return count;
}

static void add_touch(ULong place, UInt slot, UInt when) {
    if (touch_count == touches_room) {
        touches_room = touches_room ? touches_room * 2 : 1 << 16;
        touches = VG_(realloc)("heaptape.touches", touches, touches_room * sizeof *touches);
        sorted = VG_(realloc)("heaptape.touches", sorted, touches_room * sizeof *sorted);
    }
    touches[touch_count++] = (struct touch){place, slot, when};
}

// What was accessed in a block that ends.
void keep_touches(UInt slot, Addr begin, ULong bytes) {
    if (!is_between_bursts()) return;
    ULong first = begin >> HT_GRANULE_SHIFT, count = ((begin + bytes - 1) >> HT_GRANULE_SHIFT) - first + 1;
    if (!bytes || count > PLACES) count = bytes ? PLACES : 1;
    for (ULong i = first; i < first + count; i++) {
        ULong *place = &places[i & (PLACES - 1)];
        ULong within = (*place & ((1ull << MOMENT_SHIFT) - 1)) - begin;
        if (!*place || within >= bytes) continue;
        add_touch(within >> HT_GRANULE_SHIFT, slot + 1, (UInt)(*place >> MOMENT_SHIFT));
        *place = 0;
    }
}

static void collect_touches(void) {
    for (UInt i = 0; i < used_count; i++) {
        ULong *place = &places[used[i]];
        if (!*place) continue;  // of a block that ended
        Addr address = *place & ((1ull << MOMENT_SHIFT) - 1), begin;
        UInt when = (UInt)(*place >> MOMENT_SHIFT), slot = slot_near(address, 1, &begin);
        if (slot) add_touch((address > begin ? address - begin : 0) >> HT_GRANULE_SHIFT, slot, when);
        else add_touch(address >> HT_LINE_SHIFT, 0, when);
        *place = 0;
    }
    for (UInt i = 0; i < used_path_count; i++) {
        const struct path *path = path_of(used_paths[i]);
        UShort *last = &path_moments[unit_of(used_paths[i])];
        ULong line = path->first_line;
        add_touch(line, CODE_SLOT, *last);
        for (UInt k = 0; k < path->event_count; k++) {
            line = line_after(line, events_of(path)[k], path->first_line);
            if (is_code(events_of(path)[k])) add_touch(line, CODE_SLOT, *last);
        }
        *last = 0;
    }
    used_count = used_path_count = 0;
}

static void sort_touches(void) {
    static UInt after[MOMENTS + 2];
    VG_(memset)(after, 0, (moment + 2) * sizeof *after);
    for (UInt i = 0; i < touch_count; i++) after[touches[i].moment + 1]++;
    for (UInt i = 0; i <= moment; i++) after[i + 1] += after[i];
    for (UInt i = 0; i < touch_count; i++) sorted[after[touches[i].moment]++] = touches[i];
}

static void write_touch(const struct touch *touch) {
    if (touch->slot == CODE_SLOT) write_code_line(touch->place);
    else if (touch->slot) write_block_access(touch->slot - 1, touch->place);
    else write_line_access(touch->place);
}

// All that is held.
static void write_held(void) {
    UInt at = 0;
    forget_recent();
    collect_touches();
    sort_touches();
    for (UInt i = 0; i < held_count; i++) {
        while (at < touch_count && sorted[at].moment <= held[i].moment) write_touch(&sorted[at++]);
        write_call(&held[i].call);
    }
    while (at < touch_count) write_touch(&sorted[at++]);
    touch_count = held_count = 0;
    moment = 1;
}

static void next_moment(void) {
    if (++moment == MOMENTS || used_count >= STRETCH || used_path_count >= STRETCH) write_held();
}

void hold_call(const struct ht_recorded_call *call) {
    if (held_count == held_room) {
        held_room = held_room ? held_room * 2 : 1 << 12;
        held = VG_(realloc)("heaptape.held", held, held_room * sizeof *held);
    }
    held[held_count++] = (struct held_call){*call, moment};
    next_moment();
}

// So many accesses have been made.
void go_on_sampling(ULong made) {
    if (phase == IN_BETWEEN) next_moment();
    if (!phase_ends) phase_ends = made + between_bursts();
    if (made < phase_ends) return;
    switch (phase) {
    case IN_BETWEEN:
        write_held();
        phase = SETTLES;
        phase_ends = made + SETTLING;
        break;
    case SETTLES:
        begin_burst();
        phase = COUNTS;
        counted_from = made;
        phase_ends = made + COUNTED;
        break;
    case COUNTS:
        end_burst(made - counted_from);
        phase = IN_BETWEEN;
        phase_ends = made + between_bursts();
        break;
    }
}

void end_sampling(ULong made) {
    if (phase == IN_BETWEEN) write_held();
    if (phase == COUNTS) end_burst(made - counted_from);
}
