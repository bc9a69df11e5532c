// SPDX-License-Identifier: GPL-3.0-or-later
// The tool's options, what it asks of valgrind's core, and the simulation of what instrumented code packed.
#include "instrument.h"
#include "tool.h"
#include <pub_tool_libcassert.h>
#include <pub_tool_libcbase.h>
#include <pub_tool_libcprint.h>
#include <pub_tool_libcproc.h>
#include <pub_tool_mallocfree.h>
#include <pub_tool_options.h>

struct tool_options options = {
    .virtual_clock = True, .between = 1 << 21, .geometry = "64x12,64x8,2048x16,16x6,128x16"};
struct counts counts;
struct ht_processor processor;
struct ht_page_touches page_touches;

static void *new_zeroed(size_t bytes) { return VG_(calloc)("heaptape.touches", 1, bytes); }

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

static Bool take_option(const HChar *word) {
    return VG_STR_CLO(word, "--out", options.out) || VG_STR_CLO(word, "--within", options.within) ||
           VG_STR_CLO(word, "--record", options.record) || VG_STR_CLO(word, "--splice", options.splice) ||
           VG_STR_CLO(word, "--geometry", options.geometry) ||
           VG_BOOL_CLO(word, "--sampled", options.sampled) ||
           VG_BINT_CLO(word, "--between", options.between, 2, 1 << 30) ||
           VG_BOOL_CLO(word, "--simulate", options.simulate) ||
           VG_BOOL_CLO(word, "--profile", options.profile) ||
           VG_BOOL_CLO(word, "--virtual-clock", options.virtual_clock);
}

static void print_usage(void) {
    VG_(printf)(
        "    --out=FILE                counts, as JSON; %%p is the process\n"
        "    --simulate=yes|no         caches, TLBs and page faults too [no]\n"
        "    --geometry=SETSxWAYS,...  of L1D, L1I, L2, first and second data TLB [%s]\n"
        "    --within=FUNCTION         count within its calls alone\n"
        "    --record=FILE             write the program's accesses; %%p is the process\n"
        "    --sampled=yes|no          write them in bursts, and what the caches hold before each [no]\n"
        "    --between=ACCESSES        between two bursts, on average [2097152]\n"
        "    --splice=FILE             simulate these accesses between the allocator's calls\n"
        "    --profile=yes|no          stacks of the allocator's instructions; with --simulate=no [no]\n"
        "    --virtual-clock=yes|no    time passes with instructions [yes]\n",
        options.geometry);
}
static void print_debug_usage(void) {}

static void read_geometry(struct ht_processor_size *size) {
    const HChar *at = options.geometry;
    for (int i = 0; i < HT_LEVELS; i++) {
        HChar *end;
        size->level[i].sets = (UInt)VG_(strtoull10)(at, &end);
        at = *end == 'x' ? end + 1 : end;
        size->level[i].ways = (UInt)VG_(strtoull10)(at, &end);
        at = *end == ',' ? end + 1 : end;
    }
}

static void start(void) {
    struct ht_processor_size size;
    read_geometry(&size);
    if (!ht_processor_start(&processor, &size))
        VG_(fmsg_bad_option)("--geometry", "%s: no such processor\n", options.geometry);
    page_touches.new_zeroed = new_zeroed;
    start_recording();
    start_splicing();
    start_profile();
}

static void finish(Int status) {
    (void)status;
    process_accesses();
    count_what_runs();
    end_recording();
    end_splicing();
    write_counts();
}

static void starts_running(ThreadId tid, ULong blocks) {
    static Bool fixed;
    (void)blocks;
    if (!fixed && options.virtual_clock) fix_random_bytes(tid);
    fixed = True;
    switch_thread(tid);
}

static void mapped(Addr address, SizeT bytes, Bool readable, Bool writable, Bool executable, ULong info) {
    (void)readable, (void)writable, (void)info;
    give_back_pages(address, bytes);
    note_mapping(address, bytes, executable);
}

static void unmapped(Addr address, SizeT bytes) {
    give_back_pages(address, bytes);
    forget_mapping(address, bytes);
}

static void moved(Addr from, Addr to, SizeT bytes) {
    process_accesses();
    ht_move_pages(&page_touches, from, to, bytes);
}

// The child's counts are its own; its accesses are not recorded.
static void forked(ThreadId tid) {
    (void)tid;
    stop_recording();
    process_accesses();
    count_what_runs();
    keep_virtual_time();
    VG_(memset)(&counts, 0, sizeof counts);
    counts.forked = True;
    begin_counting();
    forget_profile();
}

static void thread_ends(ThreadId tid) { forget_thread(tid); }

static void before_options(void) {
    VG_(details_name)("heaptape");
    VG_(details_version)(HEAPTAPE_VERSION);
    VG_(details_description)("counts of an allocator and its program");
    VG_(details_copyright_author)("under the GNU GPL, version 3 or later");
    VG_(details_bug_reports_to)("the heaptape project");
    VG_(details_avg_translation_sizeB)(400);
    VG_(basic_tool_funcs)(start, instrument, finish);
    VG_(needs_command_line_options)(take_option, print_usage, print_debug_usage);
    VG_(needs_syscall_wrapper)(before_syscall, after_syscall);
    VG_(track_new_mem_startup)(mapped);
    VG_(track_new_mem_mmap)(mapped);
    VG_(track_copy_mem_remap)(moved);
    VG_(track_die_mem_munmap)(unmapped);
    VG_(track_die_mem_brk)(give_back_pages);
    VG_(track_start_client_code)(starts_running);
    VG_(track_pre_thread_ll_exit)(thread_ends);
    VG_(atfork)(NULL, NULL, forked);
    VG_(clo_vex_control).guest_chase = False;
}
VG_DETERMINE_INTERFACE_VERSION(before_options)
