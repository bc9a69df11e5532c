// SPDX-License-Identifier: Apache-2.0
// Programs under simulation: how they are started, by valgrind with the tool that simulate/tool/ makes, and what they leave.
#ifndef HEAPTAPE_SIMULATION_H
#define HEAPTAPE_SIMULATION_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "error.h"
#include "processor.h"
#include "text_table.h"

// The caches and TLBs of the processor at hand, for the simulation.
struct ht_geometry {
    struct ht_processor_size size;
    bool caches_known, tlbs_known;  // by the cpuid instruction; otherwise those of a common server processor
};

void ht_geometry_read(struct ht_geometry *geometry);

enum { HT_GEOMETRY_TEXT_BYTES = 160 };
// "64x12,64x8,2048x16,16x6,128x16": sets and ways in the order of enum ht_level.
const char *ht_geometry_text(char text[HT_GEOMETRY_TEXT_BYTES], const struct ht_processor_size *size);

struct ht_simulation {
    bool caches;         // simulate caches, TLBs and page faults; otherwise instructions alone are counted
    bool profile;        // and stacks of the allocator's instructions; without caches
    bool real_clock;     // clocks and random numbers are the machine's
    const char *out;     // file of the counts; %p is the process
    const char *within;  // count only within calls of this function; NULL: everything
    const char *record;  // file for the accesses, or NULL; %p is the process
    bool sampled;        // these accesses in bursts
    const char *splice;  // file of accesses to simulate between the calls, or NULL
};

enum { HT_SIMULATION_WORDS_MAX = 17 };

struct ht_simulation_words {
    const char *word[HT_SIMULATION_WORDS_MAX + 1];  // valgrind and its options; NULL behind the last
    size_t count;
    char folder[PATH_MAX];  // for VALGRIND_LIB
    char text[HT_SIMULATION_WORDS_MAX][PATH_MAX + 32];
};

// What to put before a program's own words. False with a problem, in one line, where this machine cannot.
bool ht_simulation_prepare(struct ht_simulation_words *words, const struct ht_simulation *simulation,
                           const char **problem);

// What the program needs in its environment: the tool's folder, and hash seeds of interpreters that have a setting
// for them, where the user has set none.
void ht_simulation_set_environment(const struct ht_simulation_words *words);
// In the process that is about to become the program: fixed addresses, where that is allowed.
void ht_simulation_fix_addresses(void);

// Both, then the program (its words, NULL behind the last) under valgrind, which itself says what it cannot run, and ends
// with 126 or 127. Returns where valgrind cannot be run, with errno.
void ht_simulation_exec(const struct ht_simulation_words *words, char **program);

// The counts that the tool leaves, a file for each process.

// A new folder for them, below $TMPDIR or /tmp, and what to give the tool as its file. NULL: it cannot be made.
char *ht_counts_folder(void);
char *ht_counts_pattern(const char *folder);

// Reads and removes all that lies in the folder, and the folder: an array, by process id. Both paths are freed.
json_t *ht_counts_collect(char *folder, char *pattern);

// A table of counts, from an empty one: its heading, then a row for each part of a process's counts.
void ht_counts_table_begin(struct ht_text_table *table, const char *title);
void ht_counts_table_add(struct ht_text_table *table, const char *name, const json_t *part);

// Reads an accesses file as a whole before it is simulated.

// That it is one, complete, with so many calls that allocate: those of the trace that its accesses are to go with.
// -1 with an error that has the exit status of bad input.
int ht_accesses_check(const char *path, uint64_t allocations, struct ht_error *error);

#endif
