// SPDX-License-Identifier: Apache-2.0
// Zeroed memory that is nobody's heap, far from where the kernel puts what is mapped: everything else has the addresses
// that it has without it.
#ifndef HEAPTAPE_FAR_TABLE_H
#define HEAPTAPE_FAR_TABLE_H

#include <stddef.h>

// NULL with errno: there is none. Pages that are never touched take nothing.
void *ht_far_table(size_t bytes);

#endif
