// SPDX-License-Identifier: Apache-2.0
// How a program is started under simulation: by valgrind, with the tool that simulate/tool/ makes.
#ifndef HEAPTAPE_SIMULATION_H
#define HEAPTAPE_SIMULATION_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

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

#endif
