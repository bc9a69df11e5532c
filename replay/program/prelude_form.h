// SPDX-License-Identifier: Apache-2.0
// What led to the blocks with which a slice begins, as a form of its own that is replayed first, by the same threads and into
// the same slots: so the slice finds the heap as its program left it, and measures none of that.
#ifndef HEAPTAPE_PRELUDE_FORM_H
#define HEAPTAPE_PRELUDE_FORM_H

#include "built_form.h"
#include "error.h"
#include "trace_reader.h"

struct ht_prelude_form {
    struct ht_trace_reader *reader;  // NULL: there is none
    struct ht_form_options options;
    struct ht_built_form built;
};

// options: of the slice's form, for whose `before` this is. Returns 0, or -1 with error.
int ht_prelude_form_build(struct ht_trace_reader *slice, const char *path,
                          const struct ht_form_options *options, struct ht_prelude_form *form,
                          struct ht_error *error);
void ht_prelude_form_free(struct ht_prelude_form *form);

#endif
