// SPDX-License-Identifier: Apache-2.0
// The interpreter and the package of what is written in Python.
#ifndef HEAPTAPE_PYTHON_PROGRAM_H
#define HEAPTAPE_PYTHON_PROGRAM_H

#include <limits.h>

enum { HT_PYTHON_WORDS_MAX = 4 };

// The first words of its command line, which ends with NULL: the interpreter, and what makes it run our package.
struct ht_python_program {
    char interpreter[PATH_MAX], script[PATH_MAX];
    char folder[PATH_MAX];  // of this program
    char *words[HT_PYTHON_WORDS_MAX + 1];
};

void ht_python_find(struct ht_python_program *python);

#endif
