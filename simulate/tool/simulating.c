// SPDX-License-Identifier: GPL-3.0-or-later
// The simulation of what instrumented code packed: accesses, branches, and page faults.
#include "tool.h"
#include <pub_tool_aspacemgr.h>

// The branches of what runs, through simulated predictors: one of the allocator's and one of all else, so that in a replay,
// which has no branches of the program, the allocator's are predicted as in the program itself.
static struct ht_branch_predictor predictors[2];
static Addr going_from;  // an indirect branch whose target is not known yet; 0: none
static enum part going_part;

static struct ht_branch_predictor *predictor_of(enum part part) {
    return &predictors[part == PART_ALLOCATOR];
}

// The line of instructions that a path begins with stands for the target.
static void simulate_branch(const struct path *path, enum part part) {
    if (going_from)
        ht_branch_to(predictor_of(going_part), going_from, path->first_line, &counts.branches[going_part]);
    going_from = 0;
    if (path->branch == BRANCH_INDIRECT) {
        going_from = path->branch_address;
        going_part = part;
    } else if (path->branch != BRANCH_NONE) {
        ht_branch_taken(predictor_of(part), path->branch_address, path->branch == BRANCH_TAKEN,
                        &counts.branches[part]);
    }
}

static void forget_branch_to(void) { going_from = 0; }

// The outcomes before a call are the program's.
void begin_branches_of_call(void) { ht_branch_forget_history(&predictors[1]); }

// Page faults are what valgrind does not see. Pages of files count apart: the kernel maps several of them at each fault, and zeroes none. What the recorded program had at
// an address, of which this process may have a file, is not known: most often memory.
static Bool is_of_file(enum part part, Addr address) {
    if (part == PART_PROGRAM && is_splicing()) return False;
    const NSegment *segment = VG_(am_find_nsegment)(address);
    return segment && segment->kind == SkFileC;
}

static void page_fault(enum part part, Addr address) {
    if (is_of_file(part, address)) {
        counts.file_faults[part]++;
    } else {
        counts.faults[part]++;
        ht_processor_zero_page(&processor, address >> HT_PAGE_SHIFT);
    }
}

enum ht_served simulate_access(enum part part, Addr address, UInt bytes) {
    ULong page = address >> HT_PAGE_SHIFT;
    if (page + 1 != processor.last_page && ht_touch_page(&page_touches, page)) page_fault(part, address);
    return ht_processor_access(&processor, address, bytes, &miss_counts[part]);
}

static void simulate_path(const struct path *path, const ULong *address, enum part part) {
    ULong line = path->first_line;
    ht_processor_code_line(&processor, line, &miss_counts[part]);
    for (const UChar *event = events_of(path), *end = event + path->event_count; event < end; event++) {
        line = line_after(line, *event, path->first_line);
        if (is_code(*event)) ht_processor_code_line(&processor, line, &miss_counts[part]);
        else simulate_access(part, *address++, *event);
    }
}

static void simulate_paths(void) {
    for (UInt i = 0; i < places_taken(); i += places_of(taken.paths[i])) {
        const struct path *path = path_of(taken.paths[i]);
        enum part part = running.in_allocator ? PART_ALLOCATOR : path->loader ? PART_LOADER : PART_PROGRAM;
        simulate_path(path, &taken.addresses[i], part);
        simulate_branch(path, part);
    }
}

static void record_paths(void) {
    UInt count = 0;
    for (UInt i = 0; i < places_taken(); i += places_of(taken.paths[i])) {
        count_instructions(taken.paths[i]);
        if (is_of_loader(taken.paths[i])) continue;
        const struct path *path = path_of(taken.paths[i]);
        keep_path(path, &taken.addresses[i]);
        count += path->accesses;
    }
    write_kept();
    recorded_accesses(count);
}

static void count_paths(void) {
    for (UInt i = 0; i < places_taken(); i += places_of(taken.paths[i])) count_instructions(taken.paths[i]);
}

// While accesses are spliced in, those that this process makes outside the allocator are the replay's own.
void process_accesses(void) {
    Bool simulated = options.simulate && running.counts && (running.in_allocator || !is_splicing());
    Bool recorded = is_recording() && running.counts && !running.in_allocator;
    if (!places_taken()) return;
    if (simulated) simulate_paths();
    else forget_branch_to();
    if (!recorded) count_paths();
    else if (is_between_bursts()) recorded_accesses(mark_paths());
    else record_paths();
    next_address = taken.addresses;
}

ULong instructions_so_far(void) {
    ULong sum = counts.instructions;
    for (UInt i = 0; i < places_taken(); i += places_of(taken.paths[i]))
        sum += instructions_of(taken.paths[i]);
    return sum;
}

void give_back_pages(Addr address, SizeT bytes) {
    process_accesses();
    ht_forget_pages(&page_touches, address, bytes);
}
