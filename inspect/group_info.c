// SPDX-License-Identifier: Apache-2.0
#include "group_info.h"

#include <inttypes.h>
#include <stdio.h>

#include "json_values.h"
#include "print.h"
#include "talk.h"
#include "text_table.h"
#include "trace_json.h"

// Adds what a process's own trace has.
static int add_trace(struct ht_group_trace *group, uint32_t process, json_t *object, struct ht_error *error) {
    static const char *const keys[] = {"events",         "threads",   "peak_live_bytes",
                                       "end_live_bytes", "anomalies", "foreign_frees"};
    struct ht_trace_reader *member = ht_group_member_open(group, process, error);
    json_t *totals = member ? trace_json_read_totals(member, error) : NULL;
    for (size_t i = 0; totals && i < sizeof keys / sizeof *keys; i++) {
        json_t *value = json_object_get(totals, keys[i]);
        json_object_set(object, keys[i], json_is_integer(value) ? value : json_null());
    }
    json_decref(totals);
    ht_trace_close(member);
    return totals ? 0 : -1;
}

json_t *group_info_json(struct ht_group_trace *group, struct ht_error *error) {
    json_t *context = json_loads(ht_group_context_json(group), 0, NULL), *info = json_object();
    json_t *content = json_object_get(context, "group"), *processes = json_object_get(content, "processes");
    int status = context ? 0 : ht_error_memory(error, "the trace of a group", "cannot show it");
    uint64_t events = 0;
    for (uint32_t i = 0; i < ht_group_processes(group) && !status; i++) {
        json_t *object = json_array_get(processes, i);
        status = add_trace(group, i, object, error);
        events += (uint64_t)json_integer_value(json_object_get(object, "events"));
    }
    json_set_text(info, "kind", "group");
    json_object_set(info, "page_bytes", json_object_get(content, "page_bytes"));
    json_object_set(info, "processes", processes);
    json_object_set(info, "moments", json_object_get(content, "moments"));
    json_set_number(info, "events", events);
    json_set_number(info, "file_bytes", ht_group_file_bytes(group));
    if (context) json_object_del(context, "group");
    json_object_set(info, "context", context);
    json_decref(context);
    if (!status) return info;
    json_decref(info);
    return NULL;
}

// ---- for people ----

static uint64_t number(const json_t *object, const char *key) {
    return (uint64_t)json_integer_value(json_object_get(object, key));
}

static const char *text_of(const json_t *object, const char *key, const char *other) {
    const char *text = json_string_value(json_object_get(object, key));
    return text && *text ? text : other;
}

static void print_line(const char *label, const char *value) { ht_print(stdout, "%-24s %s\n", label, value); }

static void add_process(struct ht_text_table *table, uint32_t i, const json_t *process) {
    char cells[8][32], inherited[32], events[32], live[32];
    const json_t *parent = json_object_get(process, "parent");
    snprintf(cells[0], sizeof cells[0], "%" PRIu32, i);
    snprintf(cells[1], sizeof cells[1], "%" PRIu64, number(process, "pid"));
    if (json_is_integer(parent)) snprintf(cells[3], sizeof cells[3], "%" PRIu64, number(process, "parent"));
    else snprintf(cells[3], sizeof cells[3], "-");
    snprintf(cells[4], sizeof cells[4], "%.3f", (double)number(process, "start_ns") / 1e9);
    snprintf(cells[5], sizeof cells[5], "%.3f", (double)number(process, "end_ns") / 1e9);
    ht_table_add(table,
                 (const char *const[]){cells[0], cells[1], text_of(process, "name", "?"), cells[3], cells[4],
                                       cells[5], ht_grouped(inherited, number(process, "inherited")),
                                       ht_grouped(events, number(process, "events")),
                                       ht_bytes(live, (double)number(process, "peak_live_bytes"))});
}

static void print_processes(const json_t *processes) {
    static const char *const heading[] = {"process", "pid",       "name",   "parent",   "from s",
                                          "until s", "inherited", "events", "peak live"};
    struct ht_text_table *table = malloc(sizeof *table);
    size_t count = json_array_size(processes),
           shown = count < HT_TABLE_ROWS_MAX ? count : HT_TABLE_ROWS_MAX - 1;
    char left[HT_NUMBER_OF_BYTES];
    if (!table) return;
    ht_table_begin(table, "rrlrrrrrr", heading);
    if (shown > HT_TABLE_ROWS_MAX - 1) shown = HT_TABLE_ROWS_MAX - 1;
    for (size_t i = 0; i < shown; i++) add_process(table, (uint32_t)i, json_array_get(processes, i));
    ht_table_print(stdout, table);
    free(table);
    if (shown < count) printf("and %s more: --json has all\n", ht_number_of(left, count - shown, "process"));
}

static size_t members_at(const json_t *processes, size_t moment) {
    size_t there = 0, i;
    json_t *process;
    json_array_foreach(processes, i, process) there +=
        json_is_object(json_array_get(json_object_get(process, "presence"), moment));
    return there;
}

static void print_moment(const json_t *processes, size_t i, const json_t *moment) {
    char text[32], processes_there[HT_NUMBER_OF_BYTES];
    ht_print(stdout, "snapshot at %.3f s (%s), %s\n", (double)number(moment, "time_ns") / 1e9,
             text_of(moment, "reason", "?"),
             ht_number_of(processes_there, members_at(processes, i), "process"));
    print_line("  anonymous memory", ht_bytes(text, (double)number(moment, "anonymous_bytes")));
    print_line("  of it not malloc's", ht_bytes(text, (double)number(moment, "own_bytes")));
    print_line("  sum of RssAnon", ht_bytes(text, (double)number(moment, "rss_anon_sum_bytes")));
    if (number(moment, "swap_bytes"))
        print_line("  swapped", ht_bytes(text, (double)number(moment, "swap_bytes")));
    if (number(moment, "ksm_bytes"))
        print_line("  merged by KSM", ht_bytes(text, (double)number(moment, "ksm_bytes")));
    if (number(moment, "huge_bytes"))
        print_line("  huge pages", ht_bytes(text, (double)number(moment, "huge_bytes")));
}

void group_info_print(const json_t *info) {
    const json_t *context = json_object_get(info, "context"), *processes = json_object_get(info, "processes");
    char text[32];
    size_t i;
    json_t *moment;
    print_line("command", text_of(context, "command", "unknown"));
    ht_print(stdout, "%-24s %s %s\n", "recorded under", text_of(context, "allocator_name", "unknown"),
             text_of(context, "allocator_version", ""));
    print_line("processes", ht_grouped(text, json_array_size(processes)));
    print_line("events", ht_grouped(text, number(info, "events")));
    print_line("file", ht_bytes(text, (double)number(info, "file_bytes")));
    print_processes(processes);
    json_array_foreach(json_object_get(info, "moments"), i, moment) print_moment(processes, i, moment);
    if (!json_array_size(json_object_get(info, "moments")))
        printf("no snapshots: what it took in all, and which pages were shared, is not known\n");
}
