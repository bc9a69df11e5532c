#include "instruction_count.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "experiment_state.h"
#include "kernel_numbers.h"
#include "print.h"

enum { PATH_ROOM = 512, PROBLEM_ROOM = 512 };

// The instructions of one replay, harness included. NaN with a problem.
static double count_one(struct ht_experiment *x, const struct ht_choice *choice, const char *path,
                        char problem[PROBLEM_ROOM]) {
    struct ht_job job = ht_experiment_job(x, HT_PASS_FLAT);
    job.repeats = 1;
    x->channel.callgrind_path = path;
    bool done = ht_child_run(&x->channel, choice, &job, -1, &x->random, problem, PROBLEM_ROOM);
    x->channel.callgrind_path = NULL;
    if (!done) return NAN;
    double count = ht_number_in_file(path, "totals:");
    if (count > 0) return count;
    snprintf(problem, PROBLEM_ROOM, "callgrind counted nothing");
    return NAN;
}

static void complain(struct ht_experiment *x, const char *name, const char *problem) {
    ht_progress_end(&x->progress);
    if (!ht_child_interrupted()) ht_print(stderr, "heaptape replay: --instructions: %s: %s\n", name, problem);
}

static void count_all(struct ht_experiment *x, const char *path) {
    char problem[PROBLEM_ROOM] = "";
    double null_count = count_one(x, x->null_choice, path, problem);
    if (isnan(null_count)) complain(x, x->null_choice->name, problem);
    for (size_t i = 0; i < x->plan->choices.count && !isnan(null_count); i++) {
        const struct ht_choice *choice = &x->plan->choices.list[i];
        if (!x->plan->quiet && ht_progress_due(&x->progress)) {
            ht_progress_draw(&x->progress, "counting instructions: %s", choice->name);
        }
        double count = count_one(x, choice, path, problem);
        if (isnan(count)) complain(x, choice->name, problem);
        x->instructions[i] = count - null_count;
        if (ht_child_interrupted()) return;
    }
}

bool ht_instructions_count(struct ht_experiment *x) {
    const char *temporary = getenv("TMPDIR");
    char path[PATH_ROOM];
    snprintf(path, sizeof path, "%s/heaptape-callgrind-XXXXXX", temporary && *temporary ? temporary : "/tmp");
    int fd = mkstemp(path);
    if (fd < 0) {
        complain(x, path, "can't be created");
        return true;
    }
    close(fd);
    count_all(x, path);
    unlink(path);
    return !ht_child_interrupted();
}
