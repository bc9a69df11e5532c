// SPDX-License-Identifier: Apache-2.0
#include "group_content.h"

#include <string.h>

#include "group_snapshot.h"
#include "json_values.h"
#include "trace_layout.h"

static const uint64_t NUMBER_MAX = INT64_MAX;
static const char *const reason_names[HT_SNAPSHOT_REASONS] = {
    [HT_SNAPSHOT_PEAK] = "peak", [HT_SNAPSHOT_LAST] = "last"};

bool ht_group_content_make(struct ht_group_content *content, uint32_t processes, uint32_t moments) {
    *content = (struct ht_group_content){
        .processes = processes,
        .moments = moments,
        .process = calloc(processes + 1, sizeof *content->process),
        .layout_pages = calloc(processes + 1, sizeof *content->layout_pages),
        .moment = calloc(moments + 1, sizeof *content->moment),
        .presence = calloc((size_t)processes * moments + 1, sizeof *content->presence)};
    return content->process && content->layout_pages && content->moment && content->presence;
}

void ht_group_content_free(struct ht_group_content *content) {
    free(content->process);
    free(content->layout_pages);
    free(content->moment);
    free(content->presence);
    *content = (struct ht_group_content){0};
}

// ---- writing ----

static json_t *presence_json(const struct ht_group_presence *presence) {
    if (!presence->there) return json_null();
    json_t *object = json_object();
    json_set_number(object, "rss_anon_bytes", presence->rss_anon_bytes);
    json_set_number(object, "pss_anon_bytes", presence->pss_anon_bytes);
    json_set_number(object, "own_bytes", presence->own_bytes);
    return object;
}

// A program gives itself any name; JSON's texts are UTF-8.
static json_t *name_json(const char *name) {
    char plain[sizeof((struct ht_group_process *)0)->name] = "";
    json_t *text = json_string(name);
    if (text) return text;
    for (size_t i = 0; i + 1 < sizeof plain && name[i]; i++)
        plain[i] = (unsigned char)name[i] < 0x80 ? name[i] : '?';
    return json_string(plain);
}

static json_t *process_json(const struct ht_group_content *content, uint32_t number) {
    const struct ht_group_process *process = &content->process[number];
    json_t *object = json_object(), *presences = json_array();
    json_set_number(object, "pid", process->pid);
    if (process->parent == HT_GROUP_NO_PARENT) json_object_set_new(object, "parent", json_null());
    else json_set_number(object, "parent", process->parent);
    json_object_set_new(object, "name", name_json(process->name));
    json_set_number(object, "start_ns", process->start_ns);
    json_set_number(object, "end_ns", process->end_ns);
    if (process->parent != HT_GROUP_NO_PARENT) {
        json_set_number(object, "fork_event", process->fork_event);
        if (process->fork_thread == UINT32_MAX) json_object_set_new(object, "fork_thread", json_null());
        else json_set_number(object, "fork_thread", process->fork_thread);
        json_set_number(object, "inherited", process->inherited);
        json_set_number(object, "layout_pages", content->layout_pages[number]);
    }
    for (uint32_t i = 0; i < content->moments; i++)
        json_array_append_new(presences,
                              presence_json(&content->presence[(size_t)number * content->moments + i]));
    json_object_set_new(object, "presence", presences);
    return object;
}

static json_t *moment_json(const struct ht_group_moment *moment) {
    json_t *object = json_object();
    json_set_number(object, "time_ns", moment->time_ns);
    json_set_text(object, "reason", reason_names[moment->reason]);
    json_set_number(object, "anonymous_bytes", moment->anonymous_bytes);
    json_set_number(object, "own_bytes", moment->own_bytes);
    json_set_number(object, "rss_anon_sum_bytes", moment->rss_anon_sum_bytes);
    json_set_number(object, "swap_bytes", moment->swap_bytes);
    json_set_number(object, "ksm_bytes", moment->ksm_bytes);
    json_set_number(object, "huge_bytes", moment->huge_bytes);
    return object;
}

json_t *ht_group_content_json(const struct ht_group_content *content) {
    json_t *group = json_object(), *processes = json_array(), *moments = json_array();
    json_set_number(group, "page_bytes", content->page_bytes);
    for (uint32_t i = 0; i < content->processes; i++)
        json_array_append_new(processes, process_json(content, i));
    for (uint32_t i = 0; i < content->moments; i++)
        json_array_append_new(moments, moment_json(&content->moment[i]));
    json_object_set_new(group, "processes", processes);
    json_object_set_new(group, "moments", moments);
    return group;
}

// ---- reading ----

// A whole number from 0 to `most`.
static bool take(const json_t *object, const char *key, uint64_t most, uint64_t *value) {
    const json_t *found = json_object_get(object, key);
    if (!json_is_integer(found) || json_integer_value(found) < 0) return false;
    *value = (uint64_t)json_integer_value(found);
    return *value <= most;
}

static bool take_u32(const json_t *object, const char *key, uint64_t most, uint32_t *value) {
    uint64_t wide;
    if (!take(object, key, most, &wide)) return false;
    *value = (uint32_t)wide;
    return true;
}

// The same, where null stands for UINT32_MAX.
static bool take_or_null(const json_t *object, const char *key, uint64_t most, uint32_t *value) {
    *value = UINT32_MAX;
    return json_is_null(json_object_get(object, key)) || take_u32(object, key, most, value);
}

static const char *read_parentage(const json_t *object, struct ht_group_content *content, uint32_t number) {
    struct ht_group_process *process = &content->process[number];
    const struct ht_group_process *parent = &content->process[process->parent];
    if (!take(object, "fork_event", NUMBER_MAX, &process->fork_event) ||
        !take_or_null(object, "fork_thread", HT_THREADS_MAX - 1, &process->fork_thread) ||
        !take(object, "inherited", UINT32_MAX, &process->inherited) ||
        !take_u32(object, "layout_pages", HT_GROUP_PAGES_MAX, &content->layout_pages[number]))
        return "expected a forked process with fork_event, fork_thread, inherited and layout_pages";
    if (process->start_ns < parent->start_ns) return "expected a process that begins after its parent";
    return NULL;
}

static const char *read_process(const json_t *object, struct ht_group_content *content, uint32_t number) {
    struct ht_group_process *process = &content->process[number];
    const char *name = json_string_value(json_object_get(object, "name"));
    process->fork_thread = UINT32_MAX;
    if (!take_u32(object, "pid", UINT32_MAX, &process->pid) || !name ||
        strlen(name) >= sizeof process->name || !take(object, "start_ns", NUMBER_MAX, &process->start_ns) ||
        !take(object, "end_ns", NUMBER_MAX, &process->end_ns))
        return "expected a process with pid, name, start_ns and end_ns";
    strcpy(process->name, name);
    if (process->end_ns < process->start_ns) return "expected a process that ends after it began";
    if (!take_or_null(object, "parent", HT_GROUP_PROCESSES_MAX, &process->parent) ||
        (process->parent != HT_GROUP_NO_PARENT && process->parent >= number))
        return "expected a parent with a lower number than its child's";
    if (!number && process->start_ns) return "expected a first process that begins at time 0";
    return process->parent == HT_GROUP_NO_PARENT ? NULL : read_parentage(object, content, number);
}

static const char *read_presence(const json_t *object, struct ht_group_content *content, uint32_t number) {
    const json_t *list = json_object_get(object, "presence");
    if (json_array_size(list) != content->moments) return "expected a process's presence at each moment";
    for (uint32_t i = 0; i < content->moments; i++) {
        const json_t *item = json_array_get(list, i);
        struct ht_group_presence *presence = &content->presence[(size_t)number * content->moments + i];
        if (json_is_null(item)) continue;
        presence->there = true;
        if (!take(item, "rss_anon_bytes", NUMBER_MAX, &presence->rss_anon_bytes) ||
            !take(item, "pss_anon_bytes", NUMBER_MAX, &presence->pss_anon_bytes) ||
            !take(item, "own_bytes", NUMBER_MAX, &presence->own_bytes))
            return "expected a presence with rss_anon_bytes, pss_anon_bytes and own_bytes";
    }
    return NULL;
}

static const char *read_moment(const json_t *object, struct ht_group_content *content, uint32_t number) {
    struct ht_group_moment *moment = &content->moment[number];
    const char *reason = json_string_value(json_object_get(object, "reason"));
    moment->reason = HT_SNAPSHOT_REASONS;
    for (uint32_t i = 0; reason && i < HT_SNAPSHOT_REASONS; i++)
        if (!strcmp(reason, reason_names[i])) moment->reason = i;
    if (moment->reason == HT_SNAPSHOT_REASONS || !take(object, "time_ns", NUMBER_MAX, &moment->time_ns) ||
        !take(object, "anonymous_bytes", NUMBER_MAX, &moment->anonymous_bytes) ||
        !take(object, "own_bytes", NUMBER_MAX, &moment->own_bytes) ||
        !take(object, "rss_anon_sum_bytes", NUMBER_MAX, &moment->rss_anon_sum_bytes) ||
        !take(object, "swap_bytes", NUMBER_MAX, &moment->swap_bytes) ||
        !take(object, "ksm_bytes", NUMBER_MAX, &moment->ksm_bytes) ||
        !take(object, "huge_bytes", NUMBER_MAX, &moment->huge_bytes))
        return "expected a moment with time_ns, reason and its figures";
    if (number && moment->time_ns < moment[-1].time_ns) return "expected moments in order of time";
    return NULL;
}

const char *ht_group_content_read(const json_t *group, struct ht_group_content *content) {
    const json_t *processes = json_object_get(group, "processes"),
                 *moments = json_object_get(group, "moments");
    size_t count = json_array_size(processes), moments_count = json_array_size(moments);
    const char *wrong = NULL;
    *content = (struct ht_group_content){0};
    if (!json_is_array(processes) || !count || count > HT_GROUP_PROCESSES_MAX)
        return ht_found("expected 1 to 4096 processes", count);
    if (!json_is_array(moments) || moments_count > HT_GROUP_MOMENTS_MAX)
        return ht_found("expected a list of at most 16 moments", moments_count);
    if (!ht_group_content_make(content, (uint32_t)count, (uint32_t)moments_count)) return "not enough memory";
    if (!take_u32(group, "page_bytes", HT_GROUP_PAGE_BYTES_MAX, &content->page_bytes) ||
        content->page_bytes < 512 || content->page_bytes & (content->page_bytes - 1))
        return ht_found("expected page_bytes, a power of two up to 65536", content->page_bytes);
    for (uint32_t i = 0; i < moments_count && !wrong; i++)
        wrong = read_moment(json_array_get(moments, i), content, i);
    for (uint32_t i = 0; i < count && !wrong; i++) {
        const json_t *object = json_array_get(processes, i);
        wrong = read_process(object, content, i);
        if (!wrong) wrong = read_presence(object, content, i);
    }
    return wrong;
}
