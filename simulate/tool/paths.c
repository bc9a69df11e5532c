// SPDX-License-Identifier: GPL-3.0-or-later
// The paths through superblocks, and the buffer of those that were taken. A path is small, because a large program has more of
// them than the caches hold.
#include "tool.h"
#include <pub_tool_libcassert.h>
#include <pub_tool_libcbase.h>
#include <pub_tool_mallocfree.h>

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
