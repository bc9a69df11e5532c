// SPDX-License-Identifier: GPL-3.0-or-later
// The Valgrind tool "heaptape": exact counts of a program's instructions, cache and TLB misses and page faults,
// split into its allocator's calls, the dynamic loader and the rest; and the program's accesses, written to a
// file or read from one ("splice"). It links Valgrind's core, which is under the GNU General Public License,
// version 2 or later, and heaptape's own simulate/processor/ and simulate/accesses/ (Apache 2.0): as a whole this
// program is under the GNU General Public License, version 3 or later. Nothing else of heaptape links it.
#ifndef HEAPTAPE_TOOL_H
#define HEAPTAPE_TOOL_H

#include "access_reader.h"
#include "access_writer.h"
#include "branches.h"
#include "processor.h"
#include <pub_tool_basics.h>
#include <pub_tool_tooliface.h>

// Of Valgrind's core, in no header for tools: a number for the descriptor that no client uses.
extern Int VG_(safe_fd)(Int fd);

enum part { PART_PROGRAM, PART_ALLOCATOR, PART_LOADER, PARTS };

// A function of the malloc family, by where its arguments are. CALL_OTHER: none of its calls is recorded.
enum call_kind {
    CALL_NONE,
    CALL_MALLOC,
    CALL_CALLOC,
    CALL_REALLOC,
    CALL_REALLOC_ARRAY,
    CALL_FREE,
    CALL_ALIGNED,      // (alignment, size)
    CALL_ALIGNED_NEW,  // (size, alignment)
    CALL_POSIX_MEMALIGN,
    CALL_PAGE_ALIGNED,
    CALL_OTHER,
    CALL_KINDS,
    CALL_OPERATOR = 0x100  // | one of the others: operator new or delete of a library
};

struct tool_options {
    Bool simulate;          // caches, TLBs, page faults; otherwise instructions alone
    const HChar *out;       // where the counts go; %p is the process
    const HChar *within;    // a function: what is done outside its calls does not count
    const HChar *record;    // where accesses go, or NULL; %p is the process
    Bool sampled;           // in bursts
    Long between;           // accesses between two bursts, on average
    const HChar *splice;    // accesses to read, or NULL
    Bool profile;           // stacks of the allocator's instructions; without simulated caches
    Bool virtual_clock;     // time passes with instructions
    const HChar *geometry;  // sets×ways of each level
};

#define NEVER_LEFT ((Addr) - 1)

// The parts of one thread's state that instrumented code reads; of the running thread.
struct running {
    UInt in_allocator, counts;  // 0 or 1; counts: within options.within
    Addr leave_sp;  // a stack above it: a call of the allocator has returned; NEVER_LEFT: none is under way
    Addr leave_within_sp;  // the same of options.within
    Addr allocator_sp;
    enum call_kind kind;
    ULong argument[3];
    UInt size_class;
    Bool in_operator;                          // the outermost call is a C++ operator
    Addr inner_sp;                             // of the malloc or free that it called; 0: none yet
    ULong inner_before, inner_instructions;    // when that began; how long it was, once it has returned
    ULong instructions_before, loader_before;  // when the outermost call of the allocator began
    ULong within_before;                       // when options.within was entered
};

enum { SIZE_CLASSES = 64 * 4 };  // four of each doubling
struct call_cost {
    ULong calls, instructions;
};

struct counts {
    struct ht_miss_counts misses[PARTS];
    struct ht_branch_counts branches[PARTS];
    ULong faults[PARTS], file_faults[PARTS];
    ULong mapping_calls;         // of the allocator
    ULong instructions, within;  // all; those within options.within
    ULong loader, allocator;     // of the dynamic loader; in calls of the allocator
    ULong calls[CALL_KINDS];
    struct call_cost costs[CALL_KINDS][SIZE_CLASSES];
    Bool forked;  // they begin where the process was forked, and have no start of a program
    // Of the allocator's instructions those of C++ operators around the malloc or free that they call.
    ULong operators;
};

extern struct tool_options options;
extern struct running running;
extern struct counts counts;
extern struct ht_miss_counts *miss_counts;  // by part, where misses count now: those of counts, or of nothing
extern struct ht_processor processor;
extern struct ht_page_touches page_touches;

// What a superblock does up to one of its exits, known when it is translated: lines of instructions, which follow each other, and
// accesses. A superblock that goes to itself is unrolled: its second round is back at the first line.
enum branch { BRANCH_NONE, BRANCH_TAKEN, BRANCH_NOT_TAKEN, BRANCH_INDIRECT };
enum { EVENT_NEXT_LINE = 0, EVENT_FIRST_LINE = 255 };  // all others: an access of so many bytes
struct path {
    ULong first_line;
    Addr branch_address;  // of its last instruction, if that is a branch
    UShort instructions, accesses, event_count;
    UChar branch, loader;
};  // and behind it its events
static inline const UChar *events_of(const struct path *path) { return (const UChar *)(path + 1); }
// The line that an event is of, which comes after another line; that one again for an access.
static inline ULong line_after(ULong line, UChar event, ULong first) {
    return event == EVENT_NEXT_LINE ? line + 1 : event == EVENT_FIRST_LINE ? first : line;
}
static inline Bool is_code(UChar event) { return event == EVENT_NEXT_LINE || event == EVENT_FIRST_LINE; }
ULong new_path(const struct path *path, const UChar *events);  // the word that instrumented code leaves
// The paths, in units of sixteen bytes; their moments are apart from them, since sampling needs no more of most.
enum { PATH_UNIT_SHIFT = 4 };
extern UChar *paths;
extern UShort *path_moments;  // when a path was last taken between two bursts; 0: not
// What a word says: where the path is, how many places of the buffer it takes, and what counts.
enum {
    WORD_UNIT_SHIFT = 32,
    WORD_LOADER_SHIFT = 31,
    WORD_INSTRUCTIONS_SHIFT = 16,
    WORD_NO_ACCESS_SHIFT = 15,
    WORD_FIELD = (1 << 15) - 1
};
static inline UInt unit_of(ULong word) { return (UInt)(word >> WORD_UNIT_SHIFT); }
static inline struct path *path_of(ULong word) {
    return (struct path *)(paths + ((ULong)unit_of(word) << PATH_UNIT_SHIFT));
}
static inline UInt places_of(ULong word) { return word & WORD_FIELD; }
static inline UInt has_no_access(ULong word) { return word >> WORD_NO_ACCESS_SHIFT & 1; }
static inline UInt instructions_of(ULong word) { return word >> WORD_INSTRUCTIONS_SHIFT & WORD_FIELD; }
static inline UInt is_of_loader(ULong word) { return word >> WORD_LOADER_SHIFT & 1; }
static inline void count_instructions(ULong word) {
    counts.instructions += instructions_of(word);
    counts.loader += is_of_loader(word) * instructions_of(word);
}

// What instrumented code leaves: the addresses of its accesses, and a word for each path, in the place of its first one. A path
// without accesses has a 0 there. A superblock begins while no more than ROOM places are used; who reads a path may read one more.
enum { TAKEN_ROOM = 1 << 12, PATH_EVENTS_MAX = 1 << 12, TAKEN_SPARE = PATH_EVENTS_MAX + 1 };
struct taken {
    ULong addresses[TAKEN_ROOM + TAKEN_SPARE], paths[TAKEN_ROOM + TAKEN_SPARE];
};
extern struct taken taken;
extern ULong *next_address;
static inline UInt places_taken(void) { return (UInt)(next_address - taken.addresses); }

// Below: what each file has for the others.
// tool.c
ULong size_class_low(UInt number);  // 4 classes of each doubling: their lowest size, and the class of a size
UInt size_class_of(ULong bytes);
extern const HChar *const call_names[CALL_KINDS];
void put(const HChar *format, ...);  // adds to the text; less than 1,024 bytes
void put_string(const HChar *string);
const HChar *put_text(UInt *bytes);  // all that has been put
extern const HChar *splice_problem;  // why accesses and calls don't belong together; NULL: they do
static inline Bool is_splicing(void) { return options.splice && !splice_problem; }
// recording.c
void start_recording(void);
Bool is_recording(void);
void stop_recording(void);
void keep_path(const struct path *path, const ULong *address);
void write_kept(void);
void recorded_accesses(UInt count);
void record_call(ULong result);
void record_thread(UInt tid);
void end_recording(void);
Bool is_between_bursts(void);
UInt mark_paths(void);  // counts and marks those that were taken; returns the program's accesses there
// simulating.c
void process_accesses(
    void);  // counts, simulates and records what waits in the buffer, for the part that runs
ULong instructions_so_far(void);  // those in the buffer too
enum ht_served simulate_access(enum part part, Addr address,
                               UInt bytes);  // and the page fault that it may be
void begin_branches_of_call(void);
void give_back_pages(Addr address, SizeT bytes);
// splicing.c
struct splice_class {
    ULong accesses, l1d, l2;
};
extern struct splice_class splice_classes[SIZE_CLASSES];
extern ULong spliced_instructions, spliced_accesses;  // of the recorded program, outside its allocator
extern ULong spliced_operators;                       // counts.operators of the recorded program
void start_splicing(void);
Bool is_spliced_sampled(void);
void splice_call(ULong result);
void splice_begin(void);
void end_splicing(void);
UInt size_class_of_call(void);       // of the call that has begun
void keep_block_size(ULong result);  // of the call that returns
enum { BURST_GROUPS_MAX = 32 };
extern UInt bursts, burst_groups;
// What a group of bursts adds to a part's near misses.
struct burst_group {
    ULong l1d, l1i, dtlb;
};
ULong burst_group(UInt number, enum part part, struct burst_group *group);  // how many accesses it has
void extrapolate_bursts(void);  // counts and splice_classes, after the groups
// profile.c
extern ULong next_sample;  // at so many instructions
void start_profile(void);
void resume_profile(void);  // the running thread is in a call of the allocator
void pause_profile(void);   // and no longer
void take_sample(void);
void put_profile(void);
void forget_profile(void);
// calls.c
void enter_call(ULong kind, ULong sp, ULong first, ULong second, ULong third);
void leave_call(ULong sp, ULong result);
void enter_within(ULong sp);
void leave_within(void);
void switch_thread(UInt tid);
void forget_thread(UInt tid);
void count_what_runs(void);  // up to now; counting goes on from here
void begin_counting(void);   // from the counts as they are
UInt threads_seen(void);
// simulated_clock.c
ULong virtual_cycles(void);
void keep_virtual_time(void);
void before_syscall(UInt tid, UInt number, UWord *arguments, UInt count);
void after_syscall(UInt tid, UInt number, UWord *arguments, UInt count, SysRes result);
void fix_random_bytes(UInt tid);
// allocator_entries.c
void note_mapping(Addr address, SizeT bytes, Bool executable);
void forget_mapping(Addr address, SizeT bytes);
enum call_kind call_entered_at(Addr address);
Bool has_operators(void);  // whether C++ operators have been mapped
// instrument.c: valgrind asks for each superblock.
IRSB *instrument(VgCallbackClosure *closure, IRSB *in, const VexGuestLayout *layout,
                 const VexGuestExtents *extents, const VexArchInfo *machine, IRType guest_word,
                 IRType host_word);
// counts_file.c
void write_counts(void);

#endif
