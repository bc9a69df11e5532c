// SPDX-License-Identifier: Apache-2.0
#include "slice_prelude.h"

#include <stdlib.h>
#include <unistd.h>

#include "json_values.h"
#include "prelude.h"
#include "trace_json.h"

static uint64_t number(const json_t *object, const char *key) {
    json_int_t value = json_integer_value(json_object_get(object, key));
    return value > 0 ? (uint64_t)value : 0;
}

enum slice_prelude slice_prelude_of(const struct ht_trace_reader *reader, const json_t *totals,
                                    const struct slice_request *request, bool fresh) {
    const struct trace_range *range = request->range;
    uint64_t inherited = number(totals, "inherited_objects");
    bool there = ht_prelude_is_there(reader), at_start = !range->from_ns && range->from_event <= inherited;
    // A prelude's own threads and blocks have other numbers and times than those that the conditions name.
    bool whole = !range->threads && !request->left_out->given;
    if (at_start && !there) return SLICE_PRELUDE_NOTHING;
    if (at_start && whole && !fresh) return SLICE_PRELUDE_SAME;
    if (there || fresh) return SLICE_PRELUDE_NONE;
    return inherited ? SLICE_PRELUDE_PART : SLICE_PRELUDE_WHOLE;
}

const char *slice_prelude_word(enum slice_prelude prelude) {
    static const char *const words[] = {NULL, NULL, "whole", "part", "none"};
    return words[prelude];
}

// All that comes before the slice's first event, in calls and blocks alone.
static int write_before(struct ht_trace_reader *reader, const json_t *context,
                        const struct slice_request *request, const struct slice_result *slice,
                        struct ht_trace_writer *writer, struct slice_result *before, struct ht_error *error) {
    static const char *const keys[] = {"pid", "page_bytes"};
    struct trace_range range = *request->range;
    range.from_event = range.from_ns = 0;
    range.to_event = slice->inherits_event;
    range.to_ns = UINT64_MAX;
    const struct slice_request all = {.path = request->path,
                                      .range = &range,
                                      .left_out = request->left_out,
                                      .of_prelude = true,
                                      .prelude_end_ns = slice->base_ns};
    json_t *kept = json_object();
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_t *value = json_object_get(context, keys[i]);
        if (value) json_object_set(kept, keys[i], value);
    }
    trace_json_put_context(writer, kept);
    range.wanted = NULL;
    int status = trace_slice(reader, &all, writer, before, error);
    trace_range_free(&range);
    if (before->totals.duration_ns < slice->base_ns) before->totals.duration_ns = slice->base_ns;
    return status;
}

// Has for each of the slice's threads 1 and its number in the prelude, or 0.
static uint64_t *numbers_of(const struct slice_result *slice, const struct slice_result *before) {
    uint64_t highest = 0;
    for (size_t i = 0; i < slice->totals.threads; i++)
        if (slice->old_number[i] > highest) highest = slice->old_number[i];
    uint64_t *of_old = calloc(highest + 1, sizeof *of_old),
             *numbers = calloc(slice->totals.threads + 1, sizeof *numbers);
    for (size_t i = 0; of_old && i < before->totals.threads; i++)
        if (before->old_number[i] <= highest) of_old[before->old_number[i]] = i + 1;
    for (size_t i = 0; of_old && numbers && i < slice->totals.threads; i++)
        numbers[i] = of_old[slice->old_number[i]];
    if (!of_old) {
        free(numbers);
        return NULL;
    }
    free(of_old);
    return numbers;
}

static int put_before(struct ht_trace_writer *writer, int fd, const struct slice_request *request,
                      const struct slice_result *slice, const struct slice_result *before,
                      struct ht_error *error) {
    uint64_t *numbers = numbers_of(slice, before);
    int status = numbers ? ht_prelude_put(writer, fd, numbers, slice->totals.threads, error)
                         : ht_error_memory(error, request->path, "cannot slice");
    free(numbers);
    return status;
}

int slice_prelude_put(struct ht_trace_reader *reader, const json_t *context, enum slice_prelude prelude,
                      const struct slice_request *request, const struct slice_result *slice,
                      struct ht_trace_writer *writer, struct ht_error *error) {
    const struct ht_raw_log none = {.fd = -1};
    struct slice_result before = {0};
    int fd;
    if (prelude == SLICE_PRELUDE_SAME) return ht_prelude_copy(reader, writer, error);
    if (prelude != SLICE_PRELUDE_WHOLE && prelude != SLICE_PRELUDE_PART) return 0;
    struct ht_trace_writer *own = ht_prelude_create(ht_trace_time_unit_ns(reader), &fd, error);
    if (!own) return -1;
    int status = write_before(reader, context, request, slice, own, &before, error);
    if (status) ht_trace_abandon(own);
    else
        status = trace_json_finish(own, before.threads, before.totals.threads,
                                   trace_json_totals(&before.totals, &none), NULL, error);
    // Where no call comes before it, nothing led to the slice.
    if (!status && before.totals.events) status = put_before(writer, fd, request, slice, &before, error);
    slice_result_free(&before);
    close(fd);
    return status;
}
