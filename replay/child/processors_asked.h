// SPDX-License-Identifier: Apache-2.0
// Whether somebody in this process asked on which of the shown processors it runs, without the kernel's help.
#ifndef HEAPTAPE_PROCESSORS_ASKED_H
#define HEAPTAPE_PROCESSORS_ASKED_H

#include <stdbool.h>

struct ht_chosen_processors;

bool ht_processors_asked(void);
// From here on, what threads chose is answered.
void ht_processors_chosen(const struct ht_chosen_processors *chosen);

#endif
