// SPDX-License-Identifier: Apache-2.0
// Decodes a trace into a form that is held in memory.
#ifndef HEAPTAPE_FORM_HELD_H
#define HEAPTAPE_FORM_HELD_H

struct ht_form_state;

// Writes the form that form->built's header begins (in malloc'ed memory of mapped_bytes), which it replaces
// by a mapping of the finished one. Returns 0; 1 if it would be larger than form->options->held_bytes_max,
// with only the header and the figures filled in; -1 with error.
int ht_form_hold(struct ht_form_state *form);

#endif
