// SPDX-License-Identifier: Apache-2.0
#include "group_look.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "group_pages.h"
#include "now.h"

static void note_hidden(struct group_hidden *hidden, const struct tree_process *process) {
    for (size_t i = 0; i < hidden->named; i++)
        if (hidden->pid[i] == process->pid) return;
    if (hidden->named == GROUP_HIDDEN_NAMED) {
        hidden->more = true;
        return;
    }
    hidden->pid[hidden->named] = process->pid;
    memcpy(hidden->name[hidden->named++], process->name, sizeof process->name);
}

static bool is_over(const struct group_look_order *order) {
    return (order->stop && atomic_load(order->stop)) ||
           (order->until_ns && ht_now_ns(CLOCK_MONOTONIC) > order->until_ns);
}

struct group_look_sum group_look_sum(const struct group_look_order *order) {
    struct group_look_sum sum = {0};
    for (size_t i = 0; i < order->tree->count && !is_over(order); i++) {
        struct ht_group_member member = {0};
        enum group_look look = group_sums_read(order->tree->process[i].pid, &member);
        if (look == GROUP_FORBIDDEN) note_hidden(order->hidden, &order->tree->process[i]);
        if (look != GROUP_SEEN) continue;
        sum.pss_anon_bytes += member.pss_anon_bytes;
        sum.processes++;
    }
    return sum;
}

static enum group_look look_at(const struct tree_process *process, struct ht_group_member *member) {
    *member = (struct ht_group_member){.pid = (uint32_t)process->pid,
                                       .parent_pid = (uint32_t)process->parent,
                                       .start_ticks = process->start_ticks,
                                       .executed = process->executed};
    memcpy(member->name, process->name, sizeof member->name);
    enum group_look look = group_sums_read(process->pid, member);
    return look == GROUP_SEEN ? group_pages_read(process->pid, member) : look;
}

bool group_look_pages(const struct group_look_order *order, struct ht_group_snapshot *snapshot) {
    const struct group_tree *tree = order->tree;
    *snapshot = (struct ht_group_snapshot){.time_ns = ht_now_ns(CLOCK_MONOTONIC),
                                           .member = calloc(tree->count, sizeof *snapshot->member)};
    bool whole = snapshot->member;
    for (size_t i = 0; whole && i < tree->count; i++) {
        struct ht_group_member *member = &snapshot->member[snapshot->members++];
        enum group_look look = look_at(&tree->process[i], member);
        if (look == GROUP_FORBIDDEN) note_hidden(order->hidden, &tree->process[i]);
        if (look != GROUP_SEEN) {
            for (size_t j = 0; j < member->mappings; j++) free(member->mapping[j].state);
            free(member->mapping);
            *member = (struct ht_group_member){0};
            snapshot->members--;
        }
        // Without its root it is no group.
        whole = snapshot->members && look != GROUP_NO_MEMORY && !is_over(order);
    }
    snapshot->took_ns = ht_now_ns(CLOCK_MONOTONIC) - snapshot->time_ns;
    if (!whole) ht_group_snapshot_free(snapshot);
    return whole;
}

uint64_t group_snapshot_anonymous_bytes(const struct ht_group_snapshot *snapshot) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < snapshot->members; i++) bytes += snapshot->member[i].pss_anon_bytes;
    return bytes;
}

uint64_t group_member_pages(const struct ht_group_member *member, enum ht_page_state state,
                            uint32_t page_bytes) {
    uint64_t pages = 0;
    for (size_t i = 0; i < member->mappings; i++) {
        const struct ht_group_mapping *mapping = &member->mapping[i];
        for (uint64_t page = 0; page < (mapping->end - mapping->start) / page_bytes; page++)
            pages += mapping->state[page] == state;
    }
    return pages;
}

bool group_snapshot_shares(const struct ht_group_snapshot *snapshot, uint32_t page_bytes) {
    for (size_t i = 1; i < snapshot->members; i++)
        if (!snapshot->member[i].executed &&
            group_member_pages(&snapshot->member[i], HT_PAGE_SHARED, page_bytes))
            return true;
    return false;
}
