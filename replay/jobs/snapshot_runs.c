// SPDX-License-Identifier: Apache-2.0
#include "snapshot_runs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "now.h"
#include "output_file.h"
#include "print.h"
#include "results_line.h"
#include "snapshot_choice.h"
#include "snapshot_index.h"
#include "talk.h"

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
