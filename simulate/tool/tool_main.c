// SPDX-License-Identifier: GPL-3.0-or-later
// The tool's options, and what it asks of valgrind's core.
#include "tool.h"
#include <pub_tool_libcassert.h>
#include <pub_tool_libcbase.h>
#include <pub_tool_libcprint.h>
#include <pub_tool_libcproc.h>
#include <pub_tool_mallocfree.h>
#include <pub_tool_options.h>

static void *new_zeroed(size_t bytes) { return VG_(calloc)("heaptape.touches", 1, bytes); }

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
