// SPDX-License-Identifier: Apache-2.0
// Does in the measured child what struct ht_pollution asks for. All threads share the working sets: a program of many
// threads has no more cache than one of one.
#ifndef HEAPTAPE_POLLUTER_H
#define HEAPTAPE_POLLUTER_H

#include "pollution.h"

struct ht_polluter;

// NULL with errno: no memory, or no executable memory, or no code for this processor.
struct ht_polluter *ht_polluter_make(const struct ht_pollution *pollution);

// Each time other lines and pages than the last times.
void ht_pollute(struct ht_polluter *polluter);

#endif
