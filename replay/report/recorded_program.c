// SPDX-License-Identifier: Apache-2.0
#include "recorded_program.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context_words.h"
#include "json_values.h"
#include "machine_facts.h"
#include "replay_form.h"
#include "sorted.h"

bool ht_own_memory_take(const struct ht_trace_facts *facts, struct ht_own_memory *own) {
    size_t count = facts->samples_count;
    *own = (struct ht_own_memory){0};
    if (!count) return true;
    own->time_ns = malloc(count * sizeof *own->time_ns);
    own->bytes = malloc(count * sizeof *own->bytes);
    own->heap_bytes = malloc(count * sizeof *own->heap_bytes);
    if (!own->time_ns || !own->bytes || !own->heap_bytes) {
        ht_own_memory_free(own);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        own->time_ns[i] = facts->samples[i].time_ns;
        own->bytes[i] = facts->samples[i].own_rss_bytes;
        own->heap_bytes[i] = ht_sample_heap_bytes(&facts->samples[i]);
    }
    own->count = count;
    return true;
}

void ht_own_memory_free(struct ht_own_memory *own) {
    free(own->time_ns);
    free(own->bytes);
    free(own->heap_bytes);
    *own = (struct ht_own_memory){0};
}

// at: the last sample not behind time_ns, or the first of all.
static uint64_t between(const struct ht_own_memory *own, size_t at, uint64_t time_ns) {
    if (at + 1 == own->count || time_ns <= own->time_ns[at]) return own->bytes[at];
    double span_ns = (double)(own->time_ns[at + 1] - own->time_ns[at]);
    double share = (double)(time_ns - own->time_ns[at]) / span_ns;
    return (uint64_t)((1 - share) * (double)own->bytes[at] + share * (double)own->bytes[at + 1]);
}

uint64_t *ht_own_memory_at(const struct ht_own_memory *own, const struct ht_built_form *built) {
    size_t samples = built->form->samples, at = 0;
    if (!own->count) return NULL;
    uint64_t *bytes = malloc((samples ? samples : 1) * sizeof *bytes);
    for (size_t i = 0; bytes && i < samples; i++) {
        uint64_t time_ns = built->points[i].time_ns;
        while (at + 1 < own->count && own->time_ns[at + 1] <= time_ns) at++;
        bytes[i] = between(own, at, time_ns);
    }
    return bytes;
}

static void take_text(const json_t *object, const char *key, char *text, size_t room) {
    const char *value = json_string_value(json_object_get(object, key));
    snprintf(text, room, "%s", value ? value : "");
    for (char *at = text; *at; at++) {
        if ((unsigned char)*at < 32) *at = ' ';  // it goes to a terminal
    }
}

// Named by its functions, or only by the file that was preloaded.
static const struct ht_allocator *kind_of(const json_t *context) {
    const char *name = json_string_value(json_object_get(context, "allocator_name")),
               *path = json_string_value(json_object_get(context, "allocator"));
    const struct ht_allocator *named = name ? ht_allocator_named(name) : NULL;
    return named || name || !path ? named : ht_allocator_of_file(path);
}

// The variables whose names are, or are not, as the allocator's library has them.
static void add_settings(const json_t *context, bool renamed, struct ht_recorded_settings *settings) {
    static const char before[] = "env.";
    const char *own = settings->kind->knobs_variable, *key;
    json_t *value;
    json_object_foreach((json_t *)context, key, value) {
        const char *name = key + sizeof before - 1, *text = json_string_value(value);
        if (strncmp(key, before, sizeof before - 1) || !text) continue;
        if ((own && strcmp(name, own) && strstr(name, own)) == renamed)
            ht_recorded_settings_add(settings, name, text, renamed);
    }
}

static void take_settings(const json_t *context, struct ht_recorded_settings *settings) {
    *settings = (struct ht_recorded_settings){.kind = kind_of(context)};
    if (!settings->kind) return;
    // What is compiled into a program has other names for them, and then reads those alone.
    if (json_object_get(context, "linked_allocator")) add_settings(context, true, settings);
    if (!settings->count) add_settings(context, false, settings);
}

int ht_recorded_settings_read(const char *path, struct ht_recorded_settings *settings,
                              struct ht_error *error) {
    struct ht_trace_reader *reader = ht_trace_open(path, error);
    json_t *context = reader ? trace_json_read_context(reader, error) : NULL;
    if (context) take_settings(context, settings);
    ht_trace_close(reader);
    json_decref(context);
    return context ? 0 : -1;
}

// Of a size that a program can have: a damaged context may hold any number.
static double figure_or_nan(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    double figure = json_is_number(value) ? json_number_value(value) : NAN;
    return fabs(figure) < 0x1p62 ? figure : NAN;
}

static void take_samples(const struct ht_trace_facts *facts, struct ht_recorded_program *program) {
    double rss = 0, heap = 0, cpu = 0, own = 0;
    for (size_t i = 0; i < facts->samples_count; i++) {
        const struct ht_sample *sample = &facts->samples[i];
        rss = fmax(rss, (double)sample->rss_anon_bytes);
        heap = fmax(heap, (double)ht_sample_heap_bytes(sample));
        cpu = fmax(cpu, (double)sample->cpu_ns);
        own = fmax(own, (double)sample->own_rss_bytes);
    }
    program->has_samples = facts->samples_count > 0;
    program->rss_peak_bytes = rss > 0 ? rss : NAN;
    program->heap_peak_bytes = heap > 0 ? heap : NAN;
    program->cpu_ns = cpu > 0 ? cpu : NAN;
    program->share = (struct ht_heap_share){.anon_bytes = (uint64_t)rss,
                                            .explained_bytes = (uint64_t)heap,
                                            .own_bytes = (uint64_t)own,
                                            .inside = program->inside};
}

// The samples of an unknown heap are guesses.
static void take_range(const json_t *totals, struct ht_recorded_program *program) {
    uint64_t low_bytes, high_bytes;
    const json_t *explained = json_object_get(totals, "recorded_explained_bytes");
    if (!trace_json_heap_range(totals, &low_bytes, &high_bytes)) return;
    program->heap_peak_bytes = NAN;
    program->heap_low_bytes = (double)low_bytes;
    program->heap_high_bytes = (double)high_bytes;
    program->share.own_bytes = 0;
    program->share.explained_bytes =
        json_is_integer(explained) ? (uint64_t)json_integer_value(explained) : high_bytes;
}

static uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }

// What the recording missed, and the last that is known of the program, be it a call, a sample of its memory
// or the end of a thread.
static int take_totals(struct ht_trace_reader *reader, const json_t *context,
                       const struct ht_trace_facts *facts, struct ht_recorded_program *program,
                       struct ht_error *error) {
    json_t *totals = trace_json_read_totals(reader, error);
    if (!totals) return -1;
    program->forked = trace_json_forked(context, totals);
    json_int_t duration_ns = json_integer_value(json_object_get(totals, "duration_ns"));
    program->lost_calls = (uint64_t)json_integer_value(json_object_get(totals, "lost_calls"));
    program->anomalies = (uint64_t)json_integer_value(json_object_get(totals, "anomalies"));
    program->foreign_frees = (uint64_t)json_integer_value(json_object_get(totals, "foreign_frees"));
    program->repairs = (uint64_t)json_integer_value(json_object_get(totals, "repairs"));
    if (!trace_json_damage(totals, program->damage)) program->damage[0] = 0;
    program->was_checked = run_check_read(context, &program->check);
    program->sliced = json_is_object(json_object_get(context, "sliced_from"));
    program->prelude = trace_json_prelude(context, totals);
    const json_t *ops = json_object_get(totals, "ops");
    program->has_aligned = !json_is_object(ops) ||
                           json_object_get(ops, ht_functions[HT_ALIGNED_ALLOC].name) ||
                           json_object_get(ops, ht_functions[HT_MEMALIGN].name);
    json_int_t probed = json_integer_value(json_object_get(totals, "freed_looked_at"));
    const json_t *explained = json_object_get(totals, "recorded_explained_bytes");
    if (json_is_integer(explained) && json_integer_value(explained) >= 0 &&
        (uint64_t)json_integer_value(explained) < program->share.explained_bytes) {
        program->share.explained_bytes = (uint64_t)json_integer_value(explained);
    }
    json_int_t live = json_integer_value(json_object_get(totals, "peak_live_bytes"));
    program->live_peak_bytes = live > 0 ? (uint64_t)live : 0;
    take_range(totals, program);
    json_int_t warm = json_integer_value(json_object_get(totals, "freed_warm"));
    program->freed_warm_share = probed > 0 && warm >= 0 && warm <= probed ? (double)warm / (double)probed : 1;
    json_decref(totals);
    if (duration_ns > 0) program->end_ns = (uint64_t)duration_ns;
    if (facts->samples_count) {
        program->end_ns = later(program->end_ns, facts->samples[facts->samples_count - 1].time_ns);
    }
    for (size_t i = 0; i < facts->threads_count; i++) {
        if (facts->threads[i].ended) program->end_ns = later(program->end_ns, facts->threads[i].end_ns);
    }
    if (program->end_ns >= HT_TIME_LIMIT_NS) program->end_ns = 0;  // unknown, since it cannot be right
    return 0;
}

// 0 for want of memory too: it is not worth failing for.
static uint64_t median_life_ns(const struct ht_trace_facts *facts) {
    uint64_t *lives_ns = malloc((facts->threads_count + 1) * sizeof *lives_ns), median_ns = 0;
    size_t count = 0;
    for (size_t i = 0; lives_ns && i < facts->threads_count; i++) {
        const struct ht_thread *thread = &facts->threads[i];
        if (thread->ended && thread->end_ns >= thread->start_ns)
            lives_ns[count++] = thread->end_ns - thread->start_ns;
    }
    if (count) {
        qsort(lives_ns, count, sizeof *lives_ns, ht_by_word);
        median_ns = lives_ns[count / 2];
    }
    free(lives_ns);
    return median_ns;
}

static void take_extended(const json_t *context, struct ht_extended_part *extended) {
    const json_t *part = json_object_get(context, "extended");
    if (!extended_words(context, extended->words)) return;
    extended->from_ns = (uint64_t)json_integer_value(json_object_get(part, "from_ns"));
    extended->until_ns = (uint64_t)json_integer_value(json_object_get(part, "until_ns"));
    extended->to_ns = (uint64_t)json_integer_value(json_object_get(part, "to_ns"));
    extended->knows_growth = json_is_boolean(json_object_get(part, "grows"));
    extended->grows = json_is_true(json_object_get(part, "grows"));
    extended->live_to_bytes = figure_or_nan(part, "live_to_bytes");
    extended->live_slope_bytes_per_hour = figure_or_nan(part, "live_slope_bytes_per_hour");
}

static void forget_memory(struct ht_recorded_program *program) {
    program->rss_peak_bytes = program->heap_peak_bytes = NAN;
    program->heap_low_bytes = program->heap_high_bytes = NAN;
    program->share = (struct ht_heap_share){0};
    ht_own_memory_free(&program->own);
}

int ht_recorded_program_read(struct ht_trace_reader *reader, struct ht_recorded_program *program,
                             struct ht_error *error) {
    *program = (struct ht_recorded_program){.rss_peak_bytes = NAN,
                                            .heap_peak_bytes = NAN,
                                            .heap_low_bytes = NAN,
                                            .heap_high_bytes = NAN,
                                            .cpu_ns = NAN};
    char thp[64];
    struct coarsening coarsening;
    json_t *context = trace_json_read_context(reader, error);
    if (!context) return -1;
    take_text(context, "command", program->command, sizeof program->command);
    take_text(context, "allocator_name", program->allocator, sizeof program->allocator);
    take_text(context, "allocator_version", program->allocator_version, sizeof program->allocator_version);
    program->linked = json_object_get(context, "linked_allocator") != NULL;
    take_settings(context, &program->settings);
    if (!program->allocator[0] && program->settings.kind)
        snprintf(program->allocator, sizeof program->allocator, "%s", program->settings.kind->name);
    take_text(context, "inner_allocators", program->inside, sizeof program->inside);
    take_text(context, "thp", thp, sizeof thp);
    ht_chosen_word(thp, program->thp, sizeof program->thp);
    program->pid = (uint32_t)json_integer_value(json_object_get(context, "pid"));
    program->page_bytes = (uint32_t)json_integer_value(json_object_get(context, "page_bytes"));
    take_extended(context, &program->extended);
    shared_coarsening(context, &coarsening);
    struct ht_trace_facts facts = {0};
    if (ht_trace_facts(reader, &facts, error)) {
        json_decref(context);
        return -1;
    }
    take_samples(&facts, program);
    if (program->extended.to_ns) program->extended.thread_lives_ns = median_life_ns(&facts);
    int failed = take_totals(reader, context, &facts, program, error);
    json_decref(context);
    if (!failed && isnan(program->heap_high_bytes) && !ht_own_memory_take(&facts, &program->own)) {
        errno = ENOMEM;
        failed = ht_error_system(error, "trace", "samples of memory");
    }
    ht_trace_facts_free(&facts);
    // It was measured for a part of the time only.
    if (program->extended.words[0]) ht_recorded_program_other(program);
    // The blocks are not those that it held.
    if (coarsening.size_bits) forget_memory(program);
    return failed;
}

void ht_recorded_program_elsewhere(struct ht_recorded_program *program) {
    program->rss_peak_bytes = program->heap_peak_bytes = program->cpu_ns = NAN;
    program->heap_low_bytes = program->heap_high_bytes = NAN;
}

void ht_recorded_program_other(struct ht_recorded_program *program) {
    ht_recorded_program_elsewhere(program);
    ht_own_memory_free(&program->own);
}

const char *ht_version_number(const char *version) { return version + strcspn(version, "0123456789"); }

bool ht_recorded_served(const struct ht_recorded_program *program, const char *name, const char *version) {
    if (!program->allocator[0] || strcmp(name, program->allocator)) return false;
    const char *number = ht_version_number(program->allocator_version);
    return !program->linked || (*number && !strcmp(number, ht_version_number(version)));
}

void ht_recorded_program_free(struct ht_recorded_program *program) { ht_own_memory_free(&program->own); }
