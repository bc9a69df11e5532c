// SPDX-License-Identifier: Apache-2.0
#include "trace_json.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "context_words.h"
#include "inner_allocators.h"
#include "json_values.h"
#include "raw_state.h"
#include "site_table.h"
#include "talk.h"

// Strings of the recorded program may be any bytes; JSON wants UTF-8.
static json_t *any_string(const char *bytes, size_t length) {
    json_t *string = json_stringn(bytes, length);
    if (string) return string;
    char *clean = malloc(length + 1);
    if (!clean) return NULL;
    for (size_t i = 0; i < length; i++) clean[i] = (unsigned char)bytes[i] < 0x80 ? bytes[i] : '?';
    clean[length] = 0;
    string = json_stringn(clean, length);
    free(clean);
    return string;
}

json_t *trace_json_string(const char *text) { return any_string(text, strlen(text)); }

// What malloc's library is is of no use where the program's calls went to an allocator of its own.
static void put_linked_allocator(json_t *context) {
    json_t *linked = json_object_get(context, "linked_allocator");
    if (!linked) return;
    json_object_set(context, "allocator_name", linked);
    json_t *version = json_object_get(context, "linked_version");
    if (version) json_object_set(context, "allocator_version", version);
    else json_object_del(context, "allocator_version");
    json_object_del(context, "allocator_build_id");
    json_t *executable = json_object_get(context, "executable");
    if (executable) json_object_set(context, "allocator", executable);
    else json_object_del(context, "allocator");
}

static void put_inner_allocators(json_t *context) {
    char words[HT_INNER_ALLOCATORS_BYTES];
    const char *files = json_string_value(json_object_get(context, "inner_allocators"));
    if (!files) return;
    ht_inner_allocators_words(words, files);
    json_object_set_new(context, "inner_allocators", trace_json_string(words));
}

json_t *trace_json_context(const struct ht_raw_log *log) {
    json_t *context = json_object();
    const char *at = log->context, *end = at + log->header.context_bytes;
    while (at < end && *at) {
        size_t length = strlen(at);
        const char *equals = memchr(at, '=', length);
        if (equals) {
            char key[128];
            size_t key_length = (size_t)(equals - at);
            if (key_length < sizeof key) {
                memcpy(key, at, key_length);
                key[key_length] = 0;
                // A key that is not UTF-8 is refused by the library and left out.
                json_object_set_new(context, key, any_string(equals + 1, length - key_length - 1));
            }
        }
        at += length + 1;
    }
    put_linked_allocator(context);
    put_inner_allocators(context);
    run_check_make_object(context);
    const struct ht_raw_header *header = &log->header;
    json_set_number(context, "pid", header->pid);
    if (header->parent_pid) json_set_number(context, "parent_pid", header->parent_pid);
    json_set_number(context, "page_bytes", header->page_bytes);
    json_set_number(context, "start_realtime_ns", header->start_realtime_ns);
    double stamp_ns = ht_raw_ns_per_stamp(log);
    json_object_set_new(context, "clock_hz",
                        json_real(1e9 / stamp_ns * (double)(UINT64_C(1) << header->clock_shift)));
    char words[HT_STOP_TEXT_BYTES];
    if ((header->state == HT_RAW_STOPPED || header->state == HT_RAW_PAUSED) && ht_stop_words(header, words))
        json_object_set_new(context, "stopped", json_string(words));
    return context;
}

// A load that is answered within this time comes from a cache that is near; from memory it takes 60 and more.
static const double warm_ns = 25;

static void set_known(json_t *object, const char *key, bool known, uint64_t value) {
    if (known) json_set_number(object, key, value);
    else json_object_set_new(object, key, json_null());
}

// Says how many blocks were probed when they were freed, and how many of them the program had used just before.
static void put_freed_probes(json_t *object, const struct ht_raw_log *log) {
    const struct ht_raw_header *header = &log->header;
    bool known = header->freed_probe_step_counts && header->clock_shift < 64;
    double count_ns = known ? ht_raw_ns_per_stamp(log) / (double)(UINT64_C(1) << header->clock_shift) : 0;
    uint64_t probes = 0, warm = 0;
    for (unsigned i = 0; i < HT_RAW_FREED_PROBES; i++) {
        probes += header->freed_probes[i];
        if ((i + 1.0) * header->freed_probe_step_counts * count_ns <= warm_ns)
            warm += header->freed_probes[i];
    }
    set_known(object, "freed_looked_at", probes > 0, probes);
    set_known(object, "freed_warm", probes > 0, warm);
}

static uint64_t known_number(const json_t *info, const char *key) {
    const json_t *value = json_object_get(info, key);
    return json_is_integer(value) && json_integer_value(value) > 0 ? (uint64_t)json_integer_value(value) : 0;
}

static void put_damage(json_t *object, const struct ht_raw_damage *damage) {
    if (!damage->places) return;
    json_t *put = json_object();
    json_set_number(put, "places", damage->places);
    json_set_number(put, "lost_calls", damage->lost_calls);
    json_object_set_new(put, "at_least", json_boolean(damage->end_lost));
    json_object_set_new(put, "first", trace_json_string(damage->first));
    json_object_set_new(object, "damage", put);
}

bool trace_json_damage(const json_t *totals, char words[TRACE_DAMAGE_BYTES]) {
    const json_t *damage = json_object_get(totals, "damage");
    char lost[32], all[HT_NUMBER_OF_BYTES], more[64] = "", part[128];
    if (!json_is_object(damage)) return false;
    const char *first = json_string_value(json_object_get(damage, "first"));
    uint64_t calls = known_number(damage, "lost_calls"), places = known_number(damage, "places");
    if (places > 1) snprintf(more, sizeof more, ", the first of %s places", ht_grouped(all, places));
    ht_number_of(all, known_number(totals, "events") + calls, "call");
    bool at_least = json_is_true(json_object_get(damage, "at_least"));
    if (calls)
        snprintf(part, sizeof part, "%s%s of %s %s lost", at_least ? "at least " : "",
                 ht_grouped(lost, calls), all, calls == 1 ? "is" : "are");
    else snprintf(part, sizeof part, at_least ? "perhaps some of %s are lost" : "none of %s is lost", all);
    snprintf(words, TRACE_DAMAGE_BYTES, "%s%s%s%s%s", part, first ? " (" : "", first ? first : "",
             first ? more : "", first ? ")" : "");
    return true;
}

static void put_controls(json_t *object, const struct ht_control_counts *counts) {
    json_t *calls = json_object();
    for (unsigned i = 0; i < HT_CONTROL_COUNTS && counts->count[i].calls; i++) {
        const struct ht_control_call call = {.number = counts->count[i].number,
                                             .first = counts->count[i].first,
                                             .second = counts->count[i].second};
        char text[HT_CONTROL_TEXT_BYTES];
        json_set_number(calls, ht_control_name(&call, text), counts->count[i].calls);
    }
    if (counts->others) json_set_number(calls, "others", counts->others);
    if (json_object_size(calls)) json_object_set(object, "control_calls", calls);
    json_decref(calls);
}

json_t *trace_json_totals(const struct merge_totals *totals, const struct ht_raw_log *log) {
    json_t *object = json_object(), *ops = json_object();
    json_set_number(object, "events", totals->events);
    json_set_number(object, "records", totals->records);
    for (unsigned i = 0; i < HT_CALLS_END; i++)
        if (totals->ops[i]) json_set_number(ops, ht_functions[i].name, totals->ops[i]);
    json_object_set_new(object, "ops", ops);
    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {
        {"threads", totals->threads},
        {"slots", totals->slots},
        {"peak_live_bytes", totals->peak_live_bytes},
        {"peak_live_objects", totals->peak_live_objects},
        {"end_live_bytes", totals->end_live_bytes},
        {"end_live_objects", totals->end_live_objects},
        {"inherited_objects", totals->inherited_objects},
        {"inherited_bytes", totals->inherited_bytes},
        {"repairs", totals->repairs},
        {"anomalies", totals->anomalies},
        {"foreign_frees", totals->foreign_frees},
        {"unfinished", totals->unfinished},
        {"failed_calls", totals->failed_calls},
        {"lost_calls", log->header.lost_calls + totals->damage.lost_calls},
        {"duration_ns", totals->duration_ns},
        {"recorded_rss_peak_bytes", totals->rss_peak_bytes},
        {"recorded_own_peak_bytes", totals->own_peak_bytes},
        {"recorded_heap_rss_peak_bytes", totals->heap_rss_peak_bytes},
        {"recorded_explained_bytes", merge_heap_share(totals).explained_bytes},
        {"recorded_cpu_ns", totals->cpu_ns},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        json_set_number(object, numbers[i].key, numbers[i].value);
    if (merge_heap_is_unknown(totals))
        trace_json_set_heap_range(object, totals->heap_rss_low_bytes, totals->heap_rss_high_bytes);
    if (totals->foreign_queries) json_set_number(object, "foreign_queries", totals->foreign_queries);
    put_controls(object, &totals->controls);
    put_freed_probes(object, log);
    put_damage(object, &totals->damage);
    return object;
}

json_t *trace_json_import_totals(const struct merge_totals *totals, uint64_t skipped) {
    const struct ht_raw_log none = {.fd = -1};
    json_t *object = trace_json_totals(totals, &none);
    totals_make_unknown(object, TOTALS_RECORDED);
    json_object_set_new(object, "lost_calls", json_null());
    json_set_number(object, "skipped", skipped);
    return object;
}

static char *dumped(json_t *object) {
    char *text = json_dumps(object, JSON_COMPACT | HT_JSON_REALS);
    json_decref(object);
    return text;
}

void trace_json_put_context(struct ht_trace_writer *writer, json_t *context) {
    char *text = dumped(context);
    ht_trace_put_context(writer, text ? text : "{}");
    free(text);
}

int trace_json_finish(struct ht_trace_writer *writer, const struct ht_thread *threads, size_t threads_count,
                      json_t *totals, uint64_t *file_bytes, struct ht_error *error) {
    char *text = dumped(totals);
    int status = ht_trace_finish(writer, threads, threads_count, text ? text : "{}", file_bytes, error);
    free(text);
    return status;
}

// A trace cut short has no totals: what can be counted is counted.
static json_t *count_totals(struct ht_trace_reader *reader, struct ht_error *error) {
    struct merge_totals totals = {0};
    struct ht_trace_facts facts;
    if (ht_trace_facts(reader, &facts, error)) return NULL;
    totals.threads = facts.threads_count;
    for (size_t i = 0; i < facts.samples_count; i++) {
        if (facts.samples[i].rss_anon_bytes > totals.rss_peak_bytes)
            totals.rss_peak_bytes = facts.samples[i].rss_anon_bytes;
        totals.cpu_ns = facts.samples[i].cpu_ns;
    }
    ht_trace_facts_free(&facts);
    for (size_t i = 0; i < ht_trace_sections(reader); i++) {
        struct ht_events events;
        if (ht_trace_section(reader, i)->kind != HT_SECTION_EVENTS) continue;
        if (ht_trace_events(reader, i, &events, error)) return NULL;
        for (uint32_t row = 0; row < events.rows; row++) {
            totals.records++;
            totals.duration_ns = events.time_ns[row];
            if (events.slot[row] > totals.slots) totals.slots = events.slot[row];
            if (ht_op_function(events.op[row]) == HT_INHERIT) {
                totals.inherited_objects++;
                totals.inherited_bytes += events.size[row];
            }
            if (ht_op_shape(events.op[row]).control) {
                const struct ht_control_call call =
                    ht_control_of_event(events.op[row], events.size[row], events.extra[row]);
                ht_control_counts_add(&totals.controls, &call, 1);
            }
            if (!ht_op_is_call(events.op[row])) continue;
            totals.events++;
            totals.ops[ht_op_function(events.op[row])]++;
            totals.failed_calls += ht_op_variant(events.op[row]) == HT_FAILED;
            totals.foreign_frees += ht_op_variant(events.op[row]) == HT_FOREIGN;
        }
    }
    const struct ht_raw_log none = {.fd = -1};
    json_t *object = trace_json_totals(&totals, &none);
    // These need the whole heap followed from the start; a cut trace does not say them.
    const char *const unknown[] = {"peak_live_bytes",
                                   "peak_live_objects",
                                   "end_live_bytes",
                                   "end_live_objects",
                                   "repairs",
                                   "anomalies",
                                   "unfinished",
                                   "lost_calls",
                                   "recorded_own_peak_bytes",
                                   "recorded_heap_rss_peak_bytes",
                                   "recorded_explained_bytes"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        json_object_set_new(object, unknown[i], json_null());
    return object;
}

static json_t *object_of(struct ht_trace_reader *reader, enum ht_section_kind kind, char *text,
                         const char *expected, struct ht_error *error) {
    json_t *object = text ? json_parsed(text) : error->status ? NULL : json_object();
    if (text && !object) ht_trace_bad_section(reader, kind, error, expected);
    return object;
}

json_t *trace_json_read_context(struct ht_trace_reader *reader, struct ht_error *error) {
    return object_of(reader, HT_SECTION_CONTEXT, ht_trace_context_json(reader, error),
                     "expected a context in JSON", error);
}

static json_t *totals_of(struct ht_trace_reader *reader, char *text, struct ht_error *error) {
    return object_of(reader, HT_SECTION_TOTALS, text, "expected totals in JSON", error);
}

json_t *trace_json_read_totals(struct ht_trace_reader *reader, struct ht_error *error) {
    return totals_of(reader, ht_trace_totals_json(reader, error), error);
}

int trace_json_drops_expected(struct ht_trace_reader *reader, bool *expected, struct ht_error *error) {
    json_t *context = trace_json_read_context(reader, error);
    *expected = false;
    if (!context) return -1;
    for (const json_t *cut = json_object_get(context, "sliced_from"); cut && !*expected;
         cut = json_object_get(cut, "sliced_from"))
        *expected = json_object_get(cut, "threads") != NULL;
    json_decref(context);
    return 0;
}

int trace_json_sliced(struct ht_trace_reader *reader, bool *sliced, struct ht_error *error) {
    json_t *context = trace_json_read_context(reader, error);
    *sliced = json_object_get(context, "sliced_from") != NULL;
    json_decref(context);
    return context ? 0 : -1;
}

// Older slices with blocks from before have none, and do not say so.
const char *trace_json_prelude(const json_t *context, const json_t *totals) {
    static const char *const words[] = {"whole", "part", "none"};
    const char *word = json_string_value(json_object_get(context, "prelude"));
    for (size_t i = 0; word && i < sizeof words / sizeof *words; i++)
        if (!strcmp(word, words[i])) return words[i];
    bool lacking = json_object_get(context, "sliced_from") && known_number(totals, "inherited_objects");
    return lacking ? words[2] : NULL;
}

bool trace_json_forked(const json_t *context, const json_t *totals) {
    if (known_number(context, "parent_pid")) return true;
    return known_number(totals, "inherited_objects") && !json_object_get(context, "sliced_from");
}

// Older traces without that count have only the part of RssAnon that is not the program's own.
struct ht_heap_share trace_json_heap_share(const json_t *totals) {
    bool counted = json_is_integer(json_object_get(totals, "recorded_explained_bytes"));
    const char *explained = counted ? "recorded_explained_bytes" : "recorded_heap_rss_peak_bytes";
    if (!json_is_integer(json_object_get(totals, explained))) return (struct ht_heap_share){0};
    return (struct ht_heap_share){.anon_bytes = known_number(totals, "recorded_rss_peak_bytes"),
                                  .explained_bytes = known_number(totals, explained),
                                  .own_bytes = known_number(totals, "recorded_own_peak_bytes")};
}

void trace_json_set_heap_range(json_t *totals, uint64_t low_bytes, uint64_t high_bytes) {
    json_object_set_new(totals, "recorded_own_peak_bytes", json_null());
    json_object_set_new(totals, "recorded_heap_rss_peak_bytes", json_null());
    json_set_number(totals, "recorded_heap_rss_low_bytes", low_bytes);
    json_set_number(totals, "recorded_heap_rss_high_bytes", high_bytes);
}

bool trace_json_heap_range(const json_t *totals, uint64_t *low_bytes, uint64_t *high_bytes) {
    *low_bytes = known_number(totals, "recorded_heap_rss_low_bytes");
    *high_bytes = known_number(totals, "recorded_heap_rss_high_bytes");
    return json_is_integer(json_object_get(totals, "recorded_heap_rss_high_bytes"));
}

// How many call sites are known, and modules with code of theirs.
static int set_sites(json_t *info, struct ht_trace_reader *reader, struct ht_error *error) {
    struct ht_site_table table;
    if (ht_trace_site_table(reader, &table, error)) return -1;
    json_t *root = table.modules_json ? json_loads(table.modules_json, 0, NULL) : NULL;
    json_set_number(info, "sites", table.sites_count);
    json_set_number(info, "site_modules", json_array_size(json_object_get(root, "modules")));
    json_decref(root);
    ht_site_table_free(&table);
    return 0;
}

json_t *trace_json_info(struct ht_trace_reader *reader, struct ht_error *error) {
    char *text = ht_trace_totals_json(reader, error);
    json_t *info = text || error->status ? totals_of(reader, text, error) : count_totals(reader, error);
    if (!info) return NULL;
    bool damaged = set_sites(info, reader, error);
    json_t *context = damaged ? NULL : trace_json_read_context(reader, error);
    if (!context) {
        json_decref(info);
        return NULL;
    }
    uint64_t bytes = ht_trace_file_bytes(reader);
    json_int_t events = json_integer_value(json_object_get(info, "events"));
    struct ht_heap_share share = trace_json_heap_share(info);
    json_object_set_new(info, "mostly_unseen",
                        share.anon_bytes ? json_boolean(ht_heap_share_is_small(&share)) : json_null());
    json_object_set_new(info, "truncated", json_boolean(ht_trace_truncated(reader)));
    json_set_number(info, "valid_bytes", ht_trace_valid_bytes(reader));
    json_set_number(info, "file_bytes", bytes);
    json_set_figure(info, "bytes_per_event", events ? (double)bytes / (double)events : NAN);
    json_set_number(info, "time_unit_ns", ht_trace_time_unit_ns(reader));
    json_t *command = json_object_get(context, "command"),
           *allocator = json_object_get(context, "allocator_name");
    if (!allocator) allocator = json_object_get(context, "allocator");
    json_t *parent = json_object_get(context, "parent_pid");
    json_object_set(info, "command", command ? command : json_null());
    json_object_set(info, "parent_pid", parent ? parent : json_null());
    json_object_set_new(info, "forked", json_boolean(trace_json_forked(context, info)));
    json_object_set(info, "recorded_allocator", allocator ? allocator : json_null());
    json_object_set_new(info, "context", context);
    return info;
}

// ---- which totals come from what ----

static const struct {
    const char *key;
    enum totals_kind kind;
} keys[] = {
    {"events", TOTALS_COUNTED},
    {"records", TOTALS_COUNTED},
    {"ops", TOTALS_COUNTED},
    {"control_calls", TOTALS_COUNTED},
    {"threads", TOTALS_COUNTED},
    {"slots", TOTALS_COUNTED},
    {"peak_live_bytes", TOTALS_COUNTED},
    {"peak_live_objects", TOTALS_COUNTED},
    {"end_live_bytes", TOTALS_COUNTED},
    {"end_live_objects", TOTALS_COUNTED},
    {"inherited_objects", TOTALS_COUNTED},
    {"inherited_bytes", TOTALS_COUNTED},
    {"foreign_frees", TOTALS_COUNTED},
    {"failed_calls", TOTALS_COUNTED},
    {"foreign_queries", TOTALS_DROPPED},
    {"recorded_rss_peak_bytes", TOTALS_RECORDED},
    {"recorded_own_peak_bytes", TOTALS_RECORDED},
    {"recorded_heap_rss_peak_bytes", TOTALS_RECORDED},
    {"recorded_heap_rss_low_bytes", TOTALS_RECORDED},
    {"recorded_heap_rss_high_bytes", TOTALS_RECORDED},
    {"recorded_explained_bytes", TOTALS_RECORDED},
    {"recorded_cpu_ns", TOTALS_RECORDED},
};
enum { KEYS = sizeof keys / sizeof *keys };

void totals_make_unknown(json_t *totals, unsigned kinds) {
    for (size_t i = 0; i < KEYS; i++)
        if ((keys[i].kind & kinds) && json_object_get(totals, keys[i].key))
            json_object_set_new(totals, keys[i].key, json_null());
}

void totals_put_counted(json_t *totals, const json_t *other) {
    for (size_t i = 0; i < KEYS; i++)
        if (keys[i].kind == TOTALS_COUNTED)
            json_object_set(totals, keys[i].key, json_object_get(other, keys[i].key));
}
