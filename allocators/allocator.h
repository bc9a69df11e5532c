// SPDX-License-Identifier: Apache-2.0
// All that is known of one kind of allocator. There is a file for each kind in catalogue/, and a new file
// there is all that a new kind takes: CMake makes the table from what is there, and reads the same
// initializers how each is found. Launcher and measured children link the whole table and none of the
// libraries: what a kind calls of its allocator it finds by name, in the object that has malloc, so that
// a library given by its path is asked like a linked one. So the files compile with any C library, which
// CMake does before all else.
#ifndef HEAPTAPE_ALLOCATOR_H
#define HEAPTAPE_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HT_FIGURE_UNKNOWN UINT64_MAX  // was not, or cannot be, measured

// The object whose malloc a measured child calls.
struct ht_server {
    const struct ht_allocator *kind;       // NULL: of no kind that is known
    void *known;                           // the kind's known_by, from that object
    uint64_t (*usable_size)(void *block);  // NULL: it has none
};

struct ht_knob_range {
    int64_t lowest, highest;
};

// What becomes another of a knob with a version. A range of 0 to 0 and a NULL stay as they were.
struct ht_knob_change {
    const char *since;
    struct ht_knob_range range;  // holds the range before
    const char *standard;
};

// A setting, as --alloc KIND:name=value changes it: one of words, a number of a range, or else a boolean.
struct ht_knob {
    const char *name;   // the allocator's own word for it, in lower case
    const char *words;  // with | between
    struct ht_knob_range range;
    const char *standard;  // its value when nobody sets it, as the allocator's documentation says it
    const char *spelled;   // in the kind's knobs_variable; NULL: as name
    const char *ending;    // behind its value, such as K for values that count KiB; NULL: nothing
    const char *also;      // variables that older versions or manuals name for it, with | between; NULL: none
    const char *since, *last;  // versions that have it; NULL: any
    // Later ones that have it otherwise, in their order; one without since ends them. NULL: none.
    const struct ht_knob_change *changes;
    bool rounded;                 // the allocator may make another value of it
    struct ht_knob_range search;  // where a search for good values goes; both 0: all of the range
    // Not for a search: it changes what the program may rely on, or costs and gains nothing.
    bool unsearched;
    const char *help;  // what it does, in half a sentence
};

// The state of a knob, as the allocator itself reports it.
enum ht_knob_state {
    HT_KNOB_UNREPORTED,  // it cannot say
    HT_KNOB_REPORTED,    // this value is in force
    HT_KNOB_MISSING,     // this version does not know the knob
};

struct ht_statistic {
    const char *name;  // with the unit at its end
    const char *help;
};

// Parts of the heap that threads are divided among. HT_FIGURE_UNKNOWN: it does not report it.
struct ht_arena_counts {
    uint64_t used;  // that there are
    uint64_t most;  // that there can be
};

// What is known to be wrong with some versions.
struct ht_fault {
    const char *since, *last;  // versions; NULL: open
    // Calls that ask for such an alignment: they fail, or return blocks that are aligned to less. 0: the
    // fault is no such one, and only reported.
    uint64_t alignment_lowest, alignment_highest;
    bool unsimulated;  // it aborts under valgrind
    bool corrupts;     // blocks overlap: compared only where it is asked for
    const char *help;  // a sentence
};

// HT_BUILD_FACT(crate, "x") is `.crate = "x"`, and a fact for CMake, which finds these texts in a compiled
// file (cmake/allocator_facts.cmake).
#ifdef HEAPTAPE_BUILD_FACTS
#define HT_BUILD_FACT(field, text) .field = __FILE__ ":" #field "=" text
#else
#define HT_BUILD_FACT(field, text) .field = text
#endif

// Name, library, package, soname, all that says how it is built, and what the recorder is to know are by HT_BUILD_FACT.
struct ht_allocator {
    const char *name;    // in --alloc, and of its replay-NAME
    const char *title;   // whose work it is, and what it is made for
    const char *debian;  // the package that a build needs, NULL: none
    // The packages of Debian's releases that bring the library alone, up to a NULL, by its soname's version.
    const char *const *runtimes;
    // As the linker knows it, or a path below /usr/lib with wildcards and <processor>; NULL: ours or libc.
    const char *library;
    const char *soname;    // how the file name of the allocator's object begins
    const char *folder;    // must be in its path, where several have the same file name; NULL: any
    const char *known_by;  // a function that only this kind has
    // Functions of its own, as patterns for ht_fits_any. Linked into a program it may have lost all but those
    // that the program calls, so that any of them is a sign of it. NULL: it is not searched there.
    const char *signs;
    const char *message;      // what its messages leave in a program without symbols; NULL: unknown
    const char *linked_name;  // what it is called there; NULL: name
    // For the shim, which names malloc's library: a function from the same object that returns the version
    // without allocating, and whether it does so as mallctl does, as a "number" (209 is 2.0.9, 3206 is 3.2.6, 20303 is
    // 2.3.3) or as the "text" that it returns. NULL: there is none.
    const char *version_symbol, *version_type;
    // A text in its read-only data that has the version, # standing for that; before a # at the beginning of the pattern the text
    // begins. NULL: there is none.
    const char *version_text;
    // Variables of the environment that it reads, with their values: patterns for ht_fits_any that all end in
    // *. Logs and results have them. NULL: none.
    const char *variables;
    // Another build of this kind: facts about its source that are missing here are there.
    const struct ht_allocator *build_of;

    // What is built here (extra_allocators.cmake) from sources that a crate brings, or an archive of Debian's, by its
    // path there. Both NULL: the library is the system's. All but the version are read by CMake only.
    const char *crate;
    const char *archive;
    const char *archive_sha256;
    const char *build_switch;   // CMake's option that it takes besides EXTRA_ALLOCATORS; NULL: none
    const char *build_version;  // that the sources have, where the library doesn't report it
    const char *build_sources;  // below the sources' folder; build.rs: those that it names
    const char *build_flags;    // of the compiler, or of configure or cmake; <sources> is the sources' folder
    const char *build_link_flags;  // of the linker
    const char *
        build_configure;  // folder with a configure or CMakeLists.txt of its own, that script, and its target
    bool is_floor;        // no allocator to use, but what others are held against: `all` has none of them
    bool is_null;         // hands out addresses only: every block is the same page
    bool usable_is_requested;  // its malloc_usable_size returns the requested size

    // Functions that free a block of a size that the caller names: (block, size, ...), where what follows may be
    // 0, and (block, size, alignment). NULL: there is none.
    const char *sized_free, *sized_free_aligned;
    bool has_operators;  // operator new and delete, sized and aligned ones too, are its own

    // Leaves text empty if it is unknown.
    void (*version)(const struct ht_server *server, char *text, size_t room);

    const struct ht_statistic *statistics;  // one without a name ends them
    // Fills a value for each, HT_FIGURE_UNKNOWN where it is unknown. May be called by any thread during the
    // replay; must not allocate.
    void (*read)(const struct ht_server *server, uint64_t *values);
    // Functions by which a program controls it and that do something, as patterns for ht_fits_any; NULL: none.
    const char *obeys;
    const char *purge_call;  // gives memory back to the kernel; NULL: there is none
    void (*purge)(const struct ht_server *server);

    const struct ht_knob *knobs;  // one without a name ends them
    // How the environment variables begin that the knobs have each, with their names in capitals; NULL: all
    // are in knobs_variable.
    const char *knobs_prefix;
    const char *knobs_variable;
    const char *knobs_format;           // of one of them, such as "%s:%s"
    const char *const *knobs_booleans;  // two words for no and yes in it; NULL: 0 and 1
    char knobs_separator;
    const char *knobs_separators;  // all that its list may have between; NULL: that one
    // Settings without a knob that a replay takes over from the recorded program as they are: patterns for ht_fits_any. All
    // others that are no knobs are left out, as those that print, check or write files. NULL: none.
    const char *passed;
    const char *knobs_always;  // in that list whenever there is one, such as "abort_conf:true"
    // Text of room bytes with the value in force. Only asked in a child that replays nothing.
    enum ht_knob_state (*read_knob)(const struct ht_server *server, const struct ht_knob *knob, char *text,
                                    size_t room);

    const char *environment;  // VARIABLE=value that it needs to be what it is; NULL: none
    // What it makes of the number of processors, in half a sentence; NULL: not known.
    const char *by_processors;
    // NULL: it reports none. May allocate: only asked when nothing is measured any more.
    void (*read_arenas)(const struct ht_server *server, struct ht_arena_counts *arenas);
    const char *clock;  // where it takes the time from for giving memory back; NULL: from nowhere
    bool purges_soon;   // some ms after a free, by that clock: copying a large block takes as long
    const struct ht_fault *faults;  // one without a sentence ends them
};

extern const struct ht_allocator *const ht_allocators[];  // sorted by name; NULL ends them
// The one that a replay-NAME is linked with: CMake writes the definition for each.
extern const struct ht_allocator *const ht_this_allocator;

// The kind of this name, or that what has this name is a build of; NULL if there is none.
const struct ht_allocator *ht_allocator_named(const char *name);
// Whether the file name of a library begins as this kind's does, and its path has the kind's folder.
bool ht_allocator_is_file(const struct ht_allocator *kind, const char *path);
// The same for a library, by its path; NULL if it is no kind's.
const struct ht_allocator *ht_allocator_of_file(const char *path);
// Whether a text fits one of the patterns, which have | between. One that ends in * stands for all that begin
// so.
bool ht_fits_any(const char *patterns, const char *text);

// Whether a NAME=value of the environment is read by an allocator.
bool ht_sets_allocator(const char *variable);

// The package that brings the library at `path`: of the runtimes the one with the file's version, else debian.
const char *ht_package_of(const struct ht_allocator *kind, const char *path);
// What is between since and last, NULL at either end being open.
bool ht_version_within(const char *version, const char *since, const char *last);
// A version that is reported as a "number".
enum { HT_VERSION_NUMBER_BYTES = 40 };
const char *ht_version_of_number(unsigned number, char text[HT_VERSION_NUMBER_BYTES]);

// A version() for allocators that don't report theirs: that of the sources, if the library is one that was
// built here.
void ht_built_version(const struct ht_server *server, char *text, size_t room);
// One for this project's.
void ht_own_version(const struct ht_server *server, char *text, size_t room);
// A purge() by malloc_trim.
void ht_trim(const struct ht_server *server);

#endif
