// SPDX-License-Identifier: Apache-2.0
#include "prelude_form.h"

#include <stdlib.h>

#include "form_builder.h"
#include "json_values.h"
#include "prelude_names.h"

static int duration_of(struct ht_trace_reader *reader, uint64_t *duration_ns, struct ht_error *error) {
    char *text = ht_trace_totals_json(reader, error);
    json_t *totals = json_parsed(text);
    json_int_t ns = json_integer_value(json_object_get(totals, "duration_ns"));
    json_decref(totals);
    *duration_ns = ns > 0 ? (uint64_t)ns : 0;
    return text || !error->status ? 0 : -1;
}

int ht_prelude_form_build(struct ht_trace_reader *slice, const char *path,
                          const struct ht_form_options *options, struct ht_prelude_form *form,
                          struct ht_error *error) {
    *form = (struct ht_prelude_form){.built = {.fd = -1}};
    if (ht_prelude_named(slice, &form->reader, error)) return -1;
    if (!form->reader) return 0;
    form->options = *options;
    form->options.of_prelude = true;
    form->options.timed_one_in = 0;
    form->options.has_aligned = false;
    form->options.samples = 1;
    if (!duration_of(form->reader, &form->options.end_ns, error) &&
        !ht_form_build(form->reader, path, &form->options, &form->built, error))
        return 0;
    ht_prelude_form_free(form);
    return -1;
}

void ht_prelude_form_free(struct ht_prelude_form *form) {
    if (!form->reader) return;
    ht_form_free(&form->built);
    ht_trace_close(form->reader);
    *form = (struct ht_prelude_form){.built = {.fd = -1}};
}
