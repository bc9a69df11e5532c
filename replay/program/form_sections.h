// SPDX-License-Identifier: Apache-2.0
// The sections of a trace's events, checked for what the replay form can hold.
#ifndef HEAPTAPE_FORM_SECTIONS_H
#define HEAPTAPE_FORM_SECTIONS_H

#include "form_state.h"

// Decodes and checks one section of events after the other. Returns 0, or what a visitor returned instead: -1
// with error, 1 to stop.
int ht_form_each_section(struct ht_form_state *form, ht_section_visitor *visit, void *context);

#endif
