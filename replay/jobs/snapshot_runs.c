// SPDX-License-Identifier: Apache-2.0
#include "snapshot_runs.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "all_bytes.h"
#include "json_values.h"
#include "now.h"
#include "output_file.h"
#include "print.h"
#include "results_line.h"
#include "talk.h"

enum { STRETCHES = 200 };
// A jump is at least so much of the peak.
static const double JUMP_SHARE_MIN = 0.01;

struct choosing {
    struct ht_snapshot_moment *moment;
    uint32_t count;
};

// The first reason that is given for a sample stays.
static void add(struct choosing *choosing, uint32_t sample, const char *why) {
    uint32_t at = choosing->count;
    for (uint32_t i = 0; i < choosing->count; i++) {
        if (choosing->moment[i].sample == sample) return;
    }
    if (choosing->count == HT_SNAPSHOTS_MAX) return;
    for (; at > 0 && choosing->moment[at - 1].sample > sample; at--)
        choosing->moment[at] = choosing->moment[at - 1];
    choosing->moment[at] = (struct ht_snapshot_moment){sample, why};
    choosing->count++;
}

static int64_t above_live(const struct ht_built_form *built, const uint64_t *rss_bytes, uint32_t sample) {
    return (int64_t)rss_bytes[sample] - (int64_t)built->points[sample].live_bytes;
}

// Rises of RSS less live bytes over stretches of so many samples each: stretch i ends with sample (i + 1) * step.
struct rises {
    const struct ht_built_form *built;
    const uint64_t *rss_bytes;
    uint32_t step, stretches;
};

static int64_t rise_of(const struct rises *rises, uint32_t stretch) {
    return above_live(rises->built, rises->rss_bytes, (stretch + 1) * rises->step) -
           above_live(rises->built, rises->rss_bytes, stretch * rises->step);
}

// The stretch with the largest rise, of those that no jump has; none: `stretches`.
static uint32_t largest_rise(const struct rises *rises, const bool *taken, int64_t least_bytes) {
    uint32_t best = rises->stretches;
    for (uint32_t i = 0; i < rises->stretches; i++) {
        if (taken[i] || rise_of(rises, i) <= least_bytes) continue;
        least_bytes = rise_of(rises, i);
        best = i;
    }
    return best;
}

// After the largest rises. One that goes on through stretches beside it, at a quarter of its pace or more, is one jump.
static void add_jumps(struct choosing *choosing, const struct ht_built_form *built, const uint64_t *rss_bytes,
                      uint64_t peak_bytes) {
    uint32_t samples = built->form->samples, step = samples / STRETCHES + 1;
    bool taken[STRETCHES] = {false};
    const struct rises rises = {built, rss_bytes, step, (samples - 1) / step};
    const int64_t least_bytes = (int64_t)((double)peak_bytes * JUMP_SHARE_MIN);
    assert(rises.stretches <= STRETCHES);
    for (uint32_t jump = 0; jump < HT_SNAPSHOT_JUMPS; jump++) {
        uint32_t best = largest_rise(&rises, taken, least_bytes);
        if (best == rises.stretches) return;
        uint32_t last = best;
        const int64_t pace = rise_of(&rises, best) / 4;
        taken[best] = true;
        for (uint32_t i = best; i-- > 0 && rise_of(&rises, i) > pace;) taken[i] = true;
        while (last + 1 < rises.stretches && rise_of(&rises, last + 1) > pace) taken[++last] = true;
        add(choosing, (last + 1) * step, "jump");
    }
}

// In which of so many equal parts a value is.
static uint32_t part_of(uint64_t value, uint64_t last, uint32_t parts) {
    return value < last ? (uint32_t)((double)value / (double)last * parts) : parts - 1;
}

uint32_t ht_stretches_choose(const struct ht_built_form *built, uint32_t sample[HT_STRETCHES_MAX]) {
    enum { PARTS = STRETCHES / 2, PARTS_LEAST = 10, SLOTS_MAX = 200000000 };
    static_assert((int)STRETCHES <= (int)HT_STRETCHES_MAX, "room for the last ones of all parts");
    uint32_t count = 0, samples = built->form->samples, parts = SLOTS_MAX / (built->form->slots + 1);
    parts = parts > PARTS ? PARTS : parts < PARTS_LEAST ? PARTS_LEAST : parts;
    for (uint32_t i = 0; i < samples && count < HT_STRETCHES_MAX; i++) {
        const struct ht_sample_point *here = &built->points[i], *last = &built->points[samples - 1];
        if (i + 1 == samples ||
            part_of(here->time_ns, last->time_ns, parts) != part_of(here[1].time_ns, last->time_ns, parts) ||
            part_of(here->event, last->event, parts) != part_of(here[1].event, last->event, parts))
            sample[count++] = i;
    }
    return count;
}

// The last sample that is not later.
static uint32_t sample_at(const struct ht_built_form *built, uint64_t at_ns) {
    uint32_t sample = 0;
    for (uint32_t i = 0; i < built->form->samples && built->points[i].time_ns <= at_ns; i++) sample = i;
    return sample;
}

// The peak is there, or next to it.
static uint32_t peak_of(const struct ht_built_form *built, struct ht_rss_samples rss) {
    uint32_t peak = (uint32_t)ht_peak_sample(built, rss.high_bytes, built->form->samples);
    return peak > 0 && rss.at_bytes[peak - 1] > rss.at_bytes[peak] ? peak - 1 : peak;
}

uint32_t ht_snapshot_choose(const struct ht_snapshot_times *times, const struct ht_built_form *built,
                            struct ht_rss_samples rss, struct ht_snapshot_moment moment[HT_SNAPSHOTS_MAX]) {
    struct choosing choosing = {.moment = moment};
    if (!built->form->samples) return 0;
    uint32_t peak = peak_of(built, rss);
    if (times->peak) add(&choosing, peak, "peak");
    if (times->end) add(&choosing, built->form->samples - 1, "end");
    for (uint32_t i = 0; i < times->count; i++) add(&choosing, sample_at(built, times->at_ns[i]), "time");
    if (times->jumps) add_jumps(&choosing, built, rss.at_bytes, rss.at_bytes[peak]);
    return choosing.count;
}

static json_t *whole_numbers(const uint64_t *values, uint32_t count) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++) json_array_append_new(list, json_integer((json_int_t)values[i]));
    return list;
}

static json_t *curve_json(const struct ht_runner *r, const struct ht_snapshot_index *index) {
    const struct ht_built_form *built = r->built;
    json_t *time = json_array(), *live = json_array();
    for (uint32_t i = 0; i < built->form->samples; i++) {
        json_array_append_new(time, json_integer((json_int_t)built->points[i].time_ns));
        json_array_append_new(live, json_integer((json_int_t)built->points[i].live_bytes));
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "time_ns", time, "live_bytes", live, "rss_bytes",
                     whole_numbers(index->rss_bytes, built->form->samples), "high_bytes",
                     whole_numbers(index->high_bytes, built->form->samples));
}

// A list for each round.
static json_t *costs_json(const struct ht_stretch_costs *costs, uint32_t stretches) {
    json_t *calls = json_array(), *ns = json_array();
    for (uint32_t round = 0; round < costs->rounds; round++) {
        json_t *list = json_array();
        json_array_append_new(calls, whole_numbers(costs->calls[round], stretches));
        for (uint32_t i = 0; i < stretches; i++) json_array_append_new(list, json_real(costs->ns[round][i]));
        json_array_append_new(ns, list);
    }
    return json_pack("{s:o, s:o}", "calls", calls, "ns", ns);
}

static json_t *stretches_json(const struct ht_runner *r, const struct ht_snapshot_index *index) {
    static const char *const names[] = {"sample",
                                        "time_ns",
                                        "event",
                                        "null_rss_bytes",
                                        "rss_bytes",
                                        "live",
                                        "rounding",
                                        "headers",
                                        "holes",
                                        "free_pages",
                                        "tables",
                                        "untouched",
                                        "not_resident_bytes"};
    enum { COLUMNS = sizeof names / sizeof *names };
    json_t *whole = json_object(), *columns[COLUMNS];
    for (size_t i = 0; i < COLUMNS; i++) columns[i] = json_array();
    for (uint32_t i = 0; i < index->stretches; i++) {
        uint32_t sample = index->stretch_sample[i];
        const struct ht_sample_point *point = &r->built->points[sample];
        const struct ht_stretch_accounts *of = &index->accounts[i];
        const uint64_t row[COLUMNS] = {sample,
                                       point->time_ns,
                                       point->event,
                                       index->null_bytes[sample],
                                       of->rss_bytes,
                                       of->live_bytes,
                                       of->rounding_bytes,
                                       of->headers_bytes,
                                       of->holes_bytes,
                                       of->free_pages_bytes,
                                       of->tables_bytes,
                                       of->untouched_bytes,
                                       of->not_resident_bytes};
        for (size_t k = 0; k < COLUMNS; k++)
            json_array_append_new(columns[k], json_integer((json_int_t)row[k]));
    }
    for (size_t i = 0; i < COLUMNS; i++) json_object_set_new(whole, names[i], columns[i]);
    json_object_set_new(whole, "timed", costs_json(index->costs, index->stretches));
    json_object_set_new(whole, "null_timed", costs_json(index->null_costs, index->stretches));
    return whole;
}

// Which of the moments that have none yet it is of; index->moments: of none. Threads come to theirs in any order.
static uint32_t moment_of(const struct ht_snapshot_index *index, const struct ht_snapshot_head *head,
                          const json_t *all) {
    uint32_t number = 0;
    while (number < index->moments &&
           (index->moment[number].sample != head->sample || !json_is_null(json_array_get(all, number))))
        number++;
    return number;
}

// One snapshot, whose head the child wrote at the offset. NULL: it is not one.
static json_t *snapshot_json(const struct ht_runner *r, const struct ht_snapshot_index *index,
                             uint32_t number, const struct ht_snapshot_head *head, uint64_t offset,
                             uint64_t file_bytes) {
    if (head->magic != HT_SNAPSHOT_MAGIC || number == index->moments) return NULL;
    const struct ht_snapshot_moment *moment = &index->moment[number];
    const struct ht_sample_point *point = &r->built->points[moment->sample];
    uint64_t left = file_bytes - offset - sizeof *head;
    if (head->blocks > left / sizeof(struct ht_snapshot_block) ||
        head->runs >
            (left - head->blocks * sizeof(struct ht_snapshot_block)) / sizeof(struct ht_snapshot_run))
        return NULL;
    return json_pack("{s:s, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "why", moment->why, "sample",
                     (int)moment->sample, "time_ns", (json_int_t)point->time_ns, "event",
                     (json_int_t)point->event, "live_bytes", (json_int_t)point->live_bytes, "rss_bytes",
                     (json_int_t)head->rss_bytes, "null_rss_bytes",
                     (json_int_t)index->null_bytes[moment->sample], "offset", (json_int_t)offset, "blocks",
                     (json_int_t)head->blocks, "runs", (json_int_t)head->runs);
}

static json_t *snapshots_json(const struct ht_runner *r, const struct ht_snapshot_index *index, int fd,
                              uint64_t file_bytes, char *problem, size_t room) {
    json_t *all = json_array();
    uint64_t offset = 0;
    for (uint32_t i = 0; i < index->moments; i++) json_array_append_new(all, json_null());
    for (uint32_t i = 0; i < index->moments; i++) {
        struct ht_snapshot_head head;
        json_t *one = NULL;
        uint32_t number = index->moments;
        if (pread(fd, &head, sizeof head, (off_t)offset) == sizeof head) {
            number = moment_of(index, &head, all);
            one = snapshot_json(r, index, number, &head, offset, file_bytes);
        }
        if (one && head.problem) {
            snprintf(problem, room, "/proc/self/pagemap: %s", strerror((int)head.problem));
            json_decref(one);
            one = NULL;
        } else if (!one) {
            snprintf(problem, room, "snapshot %u of %u is not whole", i + 1, index->moments);
        }
        if (!one) {
            json_decref(all);
            return NULL;
        }
        json_array_set_new(all, number, one);
        offset += sizeof head + head.blocks * sizeof(struct ht_snapshot_block) +
                  head.runs * sizeof(struct ht_snapshot_run);
    }
    return all;
}

static json_t *check_json(const struct ht_runner *r, const struct ht_snapshot_index *index) {
    uint32_t samples = r->built->form->samples;
    if (!samples || !ht_recorded_served(r->program, index->choice->name, index->choice->version))
        return json_null();
    const uint64_t *rss_bytes = index->rss_bytes;
    uint64_t peak_bytes = rss_bytes[ht_peak_sample(r->built, rss_bytes, samples)];
    struct ht_baseline_check check = ht_baseline_check(r->program, r->built, rss_bytes, (double)peak_bytes,
                                                       (double)rss_bytes[samples - 1]);
    return ht_baseline_json(&check, r->program, r->built, index->choice->version, r->huge_pages.mode);
}

static json_t *known_number(uint64_t value) {
    return value < INT64_MAX ? json_integer((json_int_t)value) : json_null();
}

static json_t *spacing_json(const struct ht_block_spacing *spacing) {
    return json_pack("{s:I, s:o, s:o}", "header_bytes", (json_int_t)spacing->header_bytes,
                     "own_pages_from_bytes", known_number(spacing->own_pages_from_bytes), "own_pages_offset",
                     known_number(spacing->own_pages_offset));
}

static json_t *index_json(const struct ht_runner *r, const struct ht_snapshot_index *index,
                          json_t *snapshots) {
    const struct ht_choice *choice = index->choice;
    return json_pack(
        "{s:i, s:{s:o, s:s}, s:{s:o, s:o, s:o, s:o, s:o}, s:b, s:o, s:o, s:o, s:o, s:o}", "schema", 1,
        "trace", "path", json_text(r->plan->trace_path), "sha256", r->trace_sha256, "allocator", "name",
        json_known_text(choice->name), "version", json_known_text(choice->version), "kind",
        json_known_text(choice->kind ? choice->kind->name : ""), "settings", ht_settings_json(choice),
        "left_out", ht_left_out_json(choice), "one_thread", r->plan->one_thread, "spacing",
        spacing_json(&index->spacing), "snapshots", snapshots, "baseline_check", check_json(r, index),
        "curve", curve_json(r, index), "stretches", stretches_json(r, index));
}

bool ht_snapshot_index_write(const struct ht_runner *r, const struct ht_snapshot_index *index, int fd,
                             char *problem, size_t room) {
    char path[64], *text = NULL;
    struct stat status;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int reading = open(path, O_RDONLY | O_CLOEXEC);
    json_t *snapshots = NULL, *whole = NULL;
    if (reading < 0 || fstat(reading, &status))
        snprintf(problem, room, "second reading: %s", strerror(errno));
    else snapshots = snapshots_json(r, index, reading, (uint64_t)status.st_size, problem, room);
    if (reading >= 0) close(reading);
    if (!snapshots) return false;
    whole = index_json(r, index, snapshots);
    text = whole ? json_dumps(whole, JSON_COMPACT | HT_JSON_REALS) : NULL;
    json_decref(whole);
    uint64_t tail[2] = {text ? strlen(text) : 0, HT_SNAPSHOT_MAGIC};
    bool done = text && ht_write_all(fd, text, tail[0]) && ht_write_all(fd, tail, sizeof tail);
    if (!done)
        snprintf(problem, room, "the index cannot be written: %s", text ? strerror(errno) : "no memory");
    free(text);
    return done;
}

enum { PROBLEM_BYTES = 512 };
static const double LONG_S = 10;

// What all files have in common, and what becomes another for each allocator.
struct curves {
    // RSS at each sample: of the null replayer, and of the allocator without it; and its highest since the sample before.
    uint64_t *null, *of_memory, *high;
    uint32_t stretch_sample[HT_STRETCHES_MAX], stretches;
    struct ht_stretch_costs null_costs, costs;
};

static bool run(struct ht_runner *r, const struct ht_choice *choice, const struct ht_job *job,
                char problem[PROBLEM_BYTES]) {
    struct ht_random same = {1};  // addresses count: the padding of the environment is the same in each run
    if (!r->plan->quiet && ht_progress_due(&r->progress))
        ht_progress_draw(&r->progress, "%s: %s",
                         job->pass == HT_PASS_MEMORY  ? "reading RSS"
                         : job->pass == HT_PASS_TIMED ? "timing calls"
                                                      : "taking snapshots",
                         choice->name);
    return ht_child_run(&r->channel, choice, job, -1, &same, problem, PROBLEM_BYTES);
}

// null_bytes, high_bytes: NULL for the null replayer itself.
static bool read_memory(struct ht_runner *r, const struct ht_choice *choice, const uint64_t *null_bytes,
                        uint64_t *rss_bytes, uint64_t *high_bytes, char problem[PROBLEM_BYTES]) {
    struct ht_job job = ht_runner_job_at_once(r, HT_PASS_MEMORY);
    if (!run(r, choice, &job, problem)) return false;
    for (uint32_t i = 0; i < r->built->form->samples; i++) {
        uint64_t bytes = r->channel.rss_bytes[i], off = null_bytes ? null_bytes[i] : 0;
        uint64_t high = r->channel.high_bytes[i] > bytes ? r->channel.high_bytes[i] : bytes;
        rss_bytes[i] = bytes > off ? bytes - off : 0;
        if (high_bytes) high_bytes[i] = high > off ? high - off : 0;
    }
    return true;
}

// In a process of its own: what it allocates is in no snapshot.
static bool measure_spacing(struct ht_runner *r, const struct ht_choice *choice,
                            struct ht_block_spacing *spacing, char problem[PROBLEM_BYTES]) {
    struct ht_job job = ht_runner_job_at_once(r, HT_PASS_DESCRIBE);
    job.asks_spacing = 1;
    if (!run(r, choice, &job, problem)) return false;
    *spacing = r->channel.exchange->outcome.spacing;
    return true;
}

static bool time_calls(struct ht_runner *r, const struct ht_choice *choice, const struct curves *curves,
                       struct ht_stretch_costs *costs, char problem[PROBLEM_BYTES]) {
    struct ht_job job = ht_runner_job_at_once(r, HT_PASS_TIMED);
    double begun_s = ht_now_s();
    costs->rounds = 0;
    while (costs->rounds < HT_STRETCH_ROUNDS_LEAST ||
           (costs->rounds < HT_STRETCH_ROUNDS && ht_now_s() - begun_s < LONG_S)) {
        if (!run(r, choice, &job, problem)) return false;
        ht_stretch_costs_add(costs, r->built, curves->stretch_sample, curves->stretches, r->channel.readings,
                             &r->channel.exchange->outcome);
    }
    return true;
}

static bool take(struct ht_runner *r, const struct ht_choice *choice, struct ht_snapshot_index *index, int fd,
                 char problem[PROBLEM_BYTES]) {
    struct ht_job job = ht_runner_job_at_once(r, HT_PASS_SNAPSHOT);
    job.snapshot_fd = dup(fd);  // this one is the child's, too
    job.spacing = index->spacing;
    job.snapshots = index->moments;
    for (uint32_t i = 0; i < index->moments; i++) job.snapshot_sample[i] = index->moment[i].sample;
    job.stretches = index->stretches;
    memcpy(job.stretch_sample, index->stretch_sample, index->stretches * sizeof *index->stretch_sample);
    bool done = job.snapshot_fd >= 0 && run(r, choice, &job, problem);
    if (job.snapshot_fd < 0) snprintf(problem, PROBLEM_BYTES, "no descriptor: %s", strerror(errno));
    else close(job.snapshot_fd);
    int failed = r->channel.exchange->outcome.snapshot_problem;
    if (done && failed) snprintf(problem, PROBLEM_BYTES, "a snapshot cannot be taken: %s", strerror(failed));
    return done && !failed;
}

static bool write_file(struct ht_runner *r, const struct ht_choice *choice, struct curves *curves,
                       const char *path, char problem[PROBLEM_BYTES]) {
    struct output_file file;
    struct ht_snapshot_index index = {.choice = choice,
                                      .stretch_sample = curves->stretch_sample,
                                      .stretches = curves->stretches,
                                      .accounts = r->channel.exchange->figures.stretch,
                                      .costs = &curves->costs,
                                      .null_costs = &curves->null_costs,
                                      .rss_bytes = curves->of_memory,
                                      .high_bytes = curves->high,
                                      .null_bytes = curves->null};
    const char *failed = NULL;
    const struct ht_rss_samples rss = {curves->of_memory, curves->high};
    index.moments = ht_snapshot_choose(&r->plan->snapshot_times, r->built, rss, index.moment);
    if (output_file_open_private(&file, path)) {
        snprintf(problem, PROBLEM_BYTES, "%s: cannot be created: %s", path, strerror(errno));
        return false;
    }
    bool done = measure_spacing(r, choice, &index.spacing, problem) &&
                take(r, choice, &index, file.fd, problem) &&
                ht_snapshot_index_write(r, &index, file.fd, problem, PROBLEM_BYTES);
    if (done && (failed = output_file_finish(&file)))
        snprintf(problem, PROBLEM_BYTES, "%s: %s: %s", path, failed, strerror(errno));
    output_file_abandon(&file);
    return done && !failed;
}

static char *path_of(const char *folder, const char *name) {
    char *path;
    if (asprintf(&path, "%s/%s.snapshots", folder, name) < 0) return NULL;
    for (char *at = path + strlen(folder) + 1; *at; at++) *at = *at == '/' ? '_' : *at;
    return path;
}

static bool snapshot_one(struct ht_runner *r, const struct ht_choice *choice, struct curves *curves) {
    char problem[PROBLEM_BYTES] = "", *path = path_of(r->plan->snapshots_folder, choice->name);
    bool done = path && read_memory(r, choice, curves->null, curves->of_memory, curves->high, problem) &&
                time_calls(r, choice, curves, &curves->costs, problem) &&
                write_file(r, choice, curves, path, problem);
    ht_progress_end(&r->progress);
    if (done) printf("%s\n", path);
    else if (!ht_child_interrupted())
        ht_print(stderr, "heaptape replay: %s: --snapshots: %s\n", choice->name, problem);
    free(path);
    return done;
}

size_t ht_snapshot_all(struct ht_runner *r) {
    const struct ht_choices *choices = &r->plan->choices;
    const char *folder = r->plan->snapshots_folder;
    size_t bytes = (r->built->form->samples + 1) * sizeof(uint64_t), failed = 0;
    static struct curves curves;  // too large for a stack
    curves.null = malloc(bytes);
    curves.of_memory = malloc(bytes);
    curves.high = malloc(bytes);
    curves.stretches = ht_stretches_choose(r->built, curves.stretch_sample);
    char problem[PROBLEM_BYTES] = "no memory";
    struct stat found;
    bool made = !mkdir(folder, 0777);
    if (!made && errno == EEXIST && !stat(folder, &found)) {
        made = S_ISDIR(found.st_mode);
        errno = ENOTDIR;
    }
    // A folder that was there may be one that takes no files.
    char *first = made && choices->count ? path_of(folder, choices->list[0].name) : NULL;
    if (first && output_file_check(first)) made = false;
    free(first);
    if (!made) {
        ht_print(stderr, "heaptape replay: --snapshots: %s: cannot create: %s\n", folder, strerror(errno));
        failed = 1;
    } else if (!curves.null || !curves.of_memory || !curves.high ||
               !read_memory(r, r->null_choice, NULL, curves.null, NULL, problem) ||
               !time_calls(r, r->null_choice, &curves, &curves.null_costs, problem)) {
        ht_print(stderr, "heaptape replay: null: --snapshots: %s\n", problem);
        failed = 1;
    }
    bool ready = !failed;
    ht_progress_start(&r->progress);
    for (size_t i = 0; i < choices->count && ready && !ht_child_interrupted(); i++)
        failed += !snapshot_one(r, &choices->list[i], &curves);
    ht_progress_end(&r->progress);
    free(curves.null);
    free(curves.of_memory);
    free(curves.high);
    return failed;
}
