// SPDX-License-Identifier: GPL-3.0-or-later
// Where in the allocator its instructions are: stacks, one in about a thousand instructions, from the function that the
// program called down to the one that executes. What is counted repeats exactly, and so do the samples.
#include "tool.h"
#include <pub_tool_debuginfo.h>
#include <pub_tool_hashtable.h>
#include <pub_tool_libcassert.h>
#include <pub_tool_libcbase.h>
#include <pub_tool_libcprint.h>
#include <pub_tool_mallocfree.h>
#include <pub_tool_stacktrace.h>
#include <pub_tool_threadstate.h>

enum {
    // Instructions between two samples: as many as random numbers say, for in loops whose length divides a fixed one every
    // sample would fall on the same place.
    BETWEEN_MIN = 512,
    BETWEEN_SPREAD = 1024,  // a power of two
    FRAMES_MAX = 128
};

// A function in its place below its callers.
struct frame {
    const HChar *name;
    struct frame *first_callee, *next_callee;  // the next of its caller's
    ULong samples;                             // that it executed itself
};

// The name of the function that holds an address of code.
struct place {
    struct place *next;  // the first two as in VgHashNode
    UWord address;
    const HChar *name;
};

enum { NO_SAMPLE = -1 };
ULong next_sample = NO_SAMPLE;
static struct frame root;
static VgHashTable *places;
static ULong random_state = 1, samples;
static ULong left =
    BETWEEN_MIN;  // of the allocator's instructions until the next sample, while none is executed

void start_profile(void) {
    if (options.profile) places = VG_(HT_construct)("heaptape.places");
}

void resume_profile(void) {
    if (options.profile) next_sample = counts.instructions + left;
}

void pause_profile(void) {
    if (next_sample == (ULong)NO_SAMPLE) return;
    left = next_sample > counts.instructions ? next_sample - counts.instructions : 0;
    next_sample = NO_SAMPLE;
}

// A multiplicative generator (Knuth's MMIX): its high bits are good enough to spread samples.
static ULong instructions_to_next(void) {
    random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
    return BETWEEN_MIN + (random_state >> 40) % BETWEEN_SPREAD;
}

// Without the version of the symbol. Stripped functions have the name of their file.
static const HChar *name_at(Addr address) {
    DiEpoch epoch = VG_(current_DiEpoch)();
    const HChar *name, *slash;
    if (VG_(get_fnname)(epoch, address, &name)) {
        HChar *made = VG_(strdup)("heaptape.name", name), *version = VG_(strchr)(made, '@');
        if (version) *version = 0;
        return made;
    }
    if (!VG_(get_objname)(epoch, address, &name)) return "[no file]";
    slash = VG_(strrchr)(name, '/');
    name = slash ? slash + 1 : name;
    HChar *made = VG_(malloc)("heaptape.name", VG_(strlen)(name) + 3);
    VG_(sprintf)(made, "[%s]", name);
    return made;
}

// Equal names are one string.
static const HChar *function_at(Addr address) {
    struct place *place = VG_(HT_lookup)(places, address);
    if (place) return place->name;
    place = VG_(malloc)("heaptape.place", sizeof *place);
    place->address = address;
    place->name = name_at(address);
    VG_(HT_add_node)(places, place);
    return place->name;
}

static struct frame *callee_of(struct frame *caller, const HChar *name) {
    for (struct frame *one = caller->first_callee; one; one = one->next_callee)
        if (one->name == name || !VG_(strcmp)(one->name, name)) return one;
    struct frame *made = VG_(calloc)("heaptape.frame", 1, sizeof *made);
    made->name = name;
    made->next_callee = caller->first_callee;
    return caller->first_callee = made;
}

// The outermost function is the one that was called, though it may have jumped to another, or its frames may be beyond the
// unwinder.
void take_sample(void) {
    Addr address[FRAMES_MAX], sp[FRAMES_MAX];
    next_sample += instructions_to_next();
    tl_assert(running.in_allocator && running.counts);
    UInt known = VG_(get_StackTrace)(VG_(get_running_tid)(), address, FRAMES_MAX, sp, NULL, 0), depth = 0;
    struct frame *frame = callee_of(&root, call_names[running.kind]);
    while (depth < known && sp[depth] <= running.allocator_sp) depth++;
    for (Bool outermost = True; depth--; outermost = False) {
        // Of a caller the call, which may be the last instruction of its function, comes before the address.
        const HChar *name = function_at(address[depth] - (depth > 0));
        if (!outermost || VG_(strcmp)(name, frame->name)) frame = callee_of(frame, name);
    }
    frame->samples++;
    samples++;
}

static void put_frame(const struct frame **path, UInt depth, Bool *first) {
    const struct frame *frame = path[depth];
    if (frame->samples) {
        put("%s\n  {\"frames\": [", *first ? "" : ",");
        for (UInt i = 1; i <= depth; i++) {
            if (i > 1) put(", ");
            put_string(path[i]->name);
        }
        put("], \"samples\": %llu}", frame->samples);
        *first = False;
    }
    tl_assert(depth <= FRAMES_MAX + 1 || !frame->first_callee);
    for (path[depth + 1] = frame->first_callee; path[depth + 1];
         path[depth + 1] = path[depth + 1]->next_callee)
        put_frame(path, depth + 1, first);
}

void put_profile(void) {
    const struct frame *path[FRAMES_MAX + 4] = {&root};
    Bool first = True;
    if (!options.profile) return;
    put(",\n\"profile\": {\"samples\": %llu, \"stacks\": [", samples);
    put_frame(path, 0, &first);
    put("]}");
}

// A forked child's samples are its own.
static void forget(struct frame *frame) {
    frame->samples = 0;
    for (struct frame *one = frame->first_callee; one; one = one->next_callee) forget(one);
}

void forget_profile(void) {
    forget(&root);
    samples = 0;
    left = BETWEEN_MIN;
    if (running.in_allocator) resume_profile();
}
