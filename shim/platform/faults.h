// SPDX-License-Identifier: Apache-2.0
// Page faults, which the kernel counts and gives for less than a microsecond (of a process with many threads, for
// some more). Memory without a fault since the last sample has not grown.
#ifndef HEAPTAPE_FAULTS_H
#define HEAPTAPE_FAULTS_H

#include <stdint.h>

#include "attributes.h"

#define FAULTS_UNKNOWN UINT64_MAX  // the kernel does not give them
HIDDEN uint64_t faults_of_process(void);
HIDDEN uint64_t faults_of_thread(void);

#endif
