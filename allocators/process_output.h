// SPDX-License-Identifier: Apache-2.0
// What another process writes that has this one's environment: loaders and allocators print their settings
// when they start, and nowhere else.
#ifndef HEAPTAPE_PROCESS_OUTPUT_H
#define HEAPTAPE_PROCESS_OUTPUT_H

#include <stddef.h>

// Runs a program to its end. Fills text with what it wrote to standard output and standard error, as far as
// there is room, and ends it with 0. variable (NAME=value, which the environment does not have; NULL: none)
// is added. The text is empty if the program cannot be run.
void ht_process_output(const char *const *arguments, const char *variable, char *text, size_t room);

// The words that started this process, a loader that was asked to among them, without the last so many; NULL if
// they are not known.
const char *const *ht_process_own_command(int without);

#endif
