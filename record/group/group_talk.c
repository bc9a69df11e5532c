// SPDX-License-Identifier: Apache-2.0
#include "group_talk.h"

#include "json_values.h"
#include "print.h"
#include "space.h"
#include "talk.h"

static uint64_t bytes_in(const struct ht_group_member *member, enum ht_page_state state) {
    return group_member_pages(member, state, SPACE_PAGE_BYTES) * SPACE_PAGE_BYTES;
}

static uint64_t rss_anon_sum_bytes(const struct ht_group_snapshot *snapshot) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < snapshot->members; i++) bytes += snapshot->member[i].rss_anon_bytes;
    return bytes;
}

static void write_member(FILE *out, const struct ht_group_member *member) {
    char rss[32], pss[32], shared[32], own[32];
    ht_print(out, "  %10u  %9s %9s %9s %9s  %s%s\n", member->pid, ht_bytes(rss, (double)member->rss_bytes),
             ht_bytes(pss, (double)member->pss_bytes),
             ht_bytes(shared, (double)bytes_in(member, HT_PAGE_SHARED)),
             ht_bytes(own, (double)bytes_in(member, HT_PAGE_EXCLUSIVE)), member->name,
             member->executed ? " (exec)" : "");
}

void group_write_snapshot(FILE *out, const struct ht_group_snapshot *snapshot, size_t most,
                          const char *when) {
    char once[32], sum[32];
    ht_print(out, "  %10s  %9s %9s %9s %9s  %s\n", "process", "RSS", "PSS", "shared", "own", "name");
    for (size_t i = 0; i < snapshot->members && i < most; i++) write_member(out, &snapshot->member[i]);
    if (snapshot->members > most) ht_print(out, "  and %zu more\n", snapshot->members - most);
    ht_print(out,
             "the group: %s of anonymous memory%s, each page counted once (the sum of RssAnon says %s)\n",
             ht_bytes(once, (double)group_snapshot_anonymous_bytes(snapshot)), when,
             ht_bytes(sum, (double)rss_anon_sum_bytes(snapshot)));
}

static json_t *member_json(const struct ht_group_member *member) {
    json_t *object = json_object();
    json_set_number(object, "pid", member->pid);
    json_set_number(object, "parent_pid", member->parent_pid);
    json_set_text(object, "name", member->name);
    json_object_set_new(object, "executed", json_boolean(member->executed));
    json_set_number(object, "rss_bytes", member->rss_bytes);
    json_set_number(object, "pss_bytes", member->pss_bytes);
    json_set_number(object, "rss_anon_bytes", member->rss_anon_bytes);
    json_set_number(object, "pss_anon_bytes", member->pss_anon_bytes);
    json_set_number(object, "shared_bytes", bytes_in(member, HT_PAGE_SHARED));
    json_set_number(object, "own_bytes", bytes_in(member, HT_PAGE_EXCLUSIVE));
    json_set_number(object, "swap_bytes", member->swap_bytes);
    json_set_number(object, "ksm_bytes", member->ksm_bytes);
    json_set_number(object, "huge_bytes", member->huge_bytes);
    return object;
}

json_t *group_snapshot_json(const struct ht_group_snapshot *snapshot) {
    json_t *object = json_object(), *processes = json_array();
    for (size_t i = 0; i < snapshot->members; i++)
        json_array_append_new(processes, member_json(&snapshot->member[i]));
    json_set_number(object, "anonymous_bytes", group_snapshot_anonymous_bytes(snapshot));
    json_set_number(object, "rss_anon_sum_bytes", rss_anon_sum_bytes(snapshot));
    json_object_set_new(object, "processes", processes);
    return object;
}

void group_say_peak(const struct group_watch *watch, size_t most) {
    const struct ht_group_snapshot *peak = &watch->snapshot[HT_SNAPSHOT_PEAK];
    if (!watch->is_group || !peak->members) return;
    group_write_snapshot(stderr, peak, most, " at its peak");
    if (!watch->write_failed) ht_print(stderr, "  its pages: %s\n", watch->path);
}

void group_say_hidden(const struct group_hidden *hidden) {
    if (!hidden->named) return;
    ht_print(stderr,
             "heaptape record: warning: the memory of %s%zu %s that the program started is another "
             "user's, whom only root may look at, and is not in the group:",
             hidden->more ? "more than " : "", hidden->named, hidden->named > 1 ? "processes" : "process");
    for (size_t i = 0; i < hidden->named; i++)
        ht_print(stderr, "%s %d (%s)", i ? "," : "", (int)hidden->pid[i], hidden->name[i]);
    fputc('\n', stderr);
}
