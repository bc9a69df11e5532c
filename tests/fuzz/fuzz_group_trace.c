// SPDX-License-Identifier: Apache-2.0
// Traces of groups: context, members, layouts and page states. What is read holds what the reader promises.
#include <stdlib.h>
#include <string.h>

#include "group_trace.h"
#include "sealed_trace.h"

static void expect_said(const struct ht_error *error) {
    FUZZ_EXPECT(error->status && *error->message && strlen(error->message) < 500, "refused without a word");
}

static void check_process(struct ht_group_trace *group, uint32_t i) {
    const struct ht_group_process *process = ht_group_process(group, i);
    FUZZ_EXPECT(process->start_ns <= process->end_ns, "ends before it begins");
    if (process->parent == HT_GROUP_NO_PARENT) FUZZ_EXPECT(!process->inherited, "inherited from nobody");
    else {
        FUZZ_EXPECT(process->parent < i, "a parent behind its child");
        FUZZ_EXPECT(ht_group_process(group, process->parent)->start_ns <= process->start_ns,
                    "begins before its parent");
    }
}

static void read_layout(struct ht_group_trace *group, uint32_t i) {
    struct ht_group_layout layout;
    struct ht_error error = {0};
    if (ht_group_layout_read(group, i, &layout, &error)) {
        expect_said(&error);
        return;
    }
    FUZZ_EXPECT(layout.blocks == ht_group_process(group, i)->inherited, "a layout of other blocks");
    for (size_t k = 0; k < layout.blocks; k++)
        FUZZ_EXPECT(layout.page[k] < layout.pages && layout.offset[k] < ht_group_page_bytes(group),
                    "no such place");
    for (uint32_t moment = 0; moment < ht_group_moments(group); moment++) {
        uint8_t *states = ht_group_page_states(group, i, moment, &error);
        for (size_t k = 0; states && k < layout.pages; k++)
            FUZZ_EXPECT(states[k] <= (HT_PAGE_STATE_BITS | HT_PAGE_CALLED), "no such state");
        if (!states && error.status) expect_said(&error);
        free(states);
    }
    ht_group_layout_free(&layout);
}

static void read_member(struct ht_group_trace *group, uint32_t i) {
    struct ht_error error = {0};
    struct ht_trace_reader *member = ht_group_member_open(group, i, &error);
    if (!member) expect_said(&error);
    for (uint32_t k = i + 1; member && k < ht_group_processes(group); k++)
        if (ht_group_process(group, k)->parent == i)
            FUZZ_EXPECT(ht_group_process(group, k)->fork_event <= ht_trace_records(member), "forked later");
    ht_trace_close(member);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    struct fuzz_input input = {data, bytes};
    struct ht_error error = {0};
    char path[FUZZ_PATH_BYTES];
    sealed_trace_write(&input, fuzz_memory_file(0, path));
    struct ht_group_trace *group = ht_group_open(path, &error);
    struct ht_trace_reader *alone = ht_trace_open(path, &error);
    FUZZ_EXPECT(!group || !alone, "the trace of a group is read as that of a process");
    ht_trace_close(alone);
    if (!group) {
        if (error.status) expect_said(&error);
        return 0;
    }
    for (uint32_t i = 1; i < ht_group_moments(group); i++)
        FUZZ_EXPECT(ht_group_moment(group, i - 1)->time_ns <= ht_group_moment(group, i)->time_ns,
                    "time steps back");
    for (uint32_t i = 0; i < ht_group_processes(group); i++) {
        check_process(group, i);
        read_layout(group, i);
        read_member(group, i);
    }
    ht_group_close(group);
    return 0;
}
