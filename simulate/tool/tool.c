// SPDX-License-Identifier: GPL-3.0-or-later
// What all of the tool shares: its options and counts, the paths through superblocks with the buffer of those that were taken,
// and the text that the counts become.
#include "tool.h"
#include <pub_tool_libcassert.h>
#include <pub_tool_libcbase.h>
#include <pub_tool_libcprint.h>
#include <pub_tool_mallocfree.h>

struct tool_options options = {
    .virtual_clock = True, .between = 1 << 21, .geometry = "64x12,64x8,2048x16,16x6,128x16"};
struct counts counts;
struct ht_processor processor;
struct ht_page_touches page_touches;
struct running running = {.leave_sp = NEVER_LEFT, .leave_within_sp = NEVER_LEFT};
struct ht_miss_counts *miss_counts = counts.misses;
const HChar *splice_problem;  // why accesses and calls don't belong together; NULL: they do

// A path is small, because a large program has more of them than the caches hold.
struct taken taken;
ULong *next_address = taken.addresses;
UChar *paths;
UShort *path_moments;
static ULong used, room;  // units

static void make_room(ULong units) {
    const ULong before = room;
    if (used + units <= room) return;
    room = room ? room * 2 : 1 << 16;
    paths = VG_(realloc)("heaptape.paths", paths, room << PATH_UNIT_SHIFT);
    path_moments = VG_(realloc)("heaptape.moments", path_moments, room * sizeof *path_moments);
    VG_(memset)(path_moments + before, 0, (room - before) * sizeof *path_moments);
}

ULong new_path(const struct path *path, const UChar *events) {
    const ULong unit = 1 << PATH_UNIT_SHIFT, begin = used;
    const ULong units = (sizeof *path + path->event_count + unit - 1) / unit;
    tl_assert(path->event_count <= PATH_EVENTS_MAX && path->instructions <= WORD_FIELD && begin >> 32 == 0);
    make_room(units);
    struct path *made = (struct path *)(paths + (begin << PATH_UNIT_SHIFT));
    *made = *path;
    VG_(memcpy)(made + 1, events, path->event_count);
    used += units;
    return begin << WORD_UNIT_SHIFT | (ULong)path->loader << WORD_LOADER_SHIFT |
           (ULong)path->instructions << WORD_INSTRUCTIONS_SHIFT |
           (path->accesses ? path->accesses : 1 | 1ull << WORD_NO_ACCESS_SHIFT);
}

// 4 classes of each doubling: their lowest size, and the class of a size.
ULong size_class_low(UInt number) { return (4ull + number % 4) << (number / 4) >> 2; }
UInt size_class_of(ULong bytes) {
    if (bytes < 4) return (UInt)(bytes ? (bytes - 1) * 4 : 0);
    UInt doubling = 63 - (UInt)__builtin_clzll(bytes);
    return doubling * 4 + (UInt)(bytes >> (doubling - 2) & 3);
}

const HChar *const call_names[CALL_KINDS] = {
    "",     "malloc",        "calloc",      "realloc",        "reallocarray",
    "free", "aligned_alloc", "aligned_new", "posix_memalign", "valloc",
    "other"};

enum { PUT_BYTES_MAX = 1 << 10 };
static HChar *text;
static UInt text_used, text_room;

void put(const HChar *format, ...) {
    va_list values;
    va_start(values, format);
    if (text_room - text_used < PUT_BYTES_MAX) {
        text_room = text_room ? text_room * 2 : 1 << 16;
        text = VG_(realloc)("heaptape.counts", text, text_room);
    }
    UInt bytes = VG_(vsnprintf)(text + text_used, PUT_BYTES_MAX, format, values);
    tl_assert(bytes < PUT_BYTES_MAX);
    text_used += bytes;
    va_end(values);
}

void put_string(const HChar *string) {
    put("\"");
    for (; *string; string++) {
        UChar c = (UChar)*string;
        if (c == '"' || c == '\\') put("\\%c", c);
        else if (c < 0x20) put("\\u%04x", c);
        else put("%c", c);
    }
    put("\"");
}

const HChar *put_text(UInt *bytes) {
    *bytes = text_used;
    return text;
}
