// SPDX-License-Identifier: Apache-2.0
// Replays traces of random shape, streamed through pools from the least to ample, in windows of any width,
// under limits, and after decodings that were given up half way. Each has a deadline: one that is not met, and
// any result other than the held form's, is a finding.
//
//     streamed_stress REPLAYS SEED [FOLDER]
//
// SEED is the first trace's; each next trace has the next. FOLDER: where replay-null and others are.
// Prints what it did, and exits with 1 and the seed of the trace if something is wrong.
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "child_run.h"
#include "form_streamed.h"
#include "random_trace.h"

enum { STREAMED_PER_TRACE = 10, DEADLINE_S = 60, PROBLEM_BYTES = 512 };

static const char *const allocators[] = {"null", "bump", "glibc"};
enum { ALLOCATORS = 3 };

struct stress {
    struct ht_choice choices[ALLOCATORS];
    size_t choices_count;
    struct ht_random random;  // for environments
    char path[512];
    uint64_t replays, abandoned, refused, calls;
};

struct loaded {
    struct ht_trace_reader *reader;
    struct ht_form_options options;
    struct ht_built_form built;
};

static bool load(struct loaded *loaded, const char *path, const struct ht_form_options *options) {
    struct ht_error error = {0};
    *loaded = (struct loaded){.options = *options, .reader = ht_trace_open(path, &error)};
    if (loaded->reader && !ht_form_build(loaded->reader, path, &loaded->options, &loaded->built, &error))
        return true;
    fprintf(stderr, "streamed_stress: %s\n", error.message);
    if (loaded->reader) ht_trace_close(loaded->reader);
    return false;
}

static void unload(struct loaded *loaded) {
    ht_form_free(&loaded->built);
    ht_trace_close(loaded->reader);
}

// What a run came to, as far as it must be the same however the trace gets to the child.
struct came_to {
    uint64_t operations, samples, failures, violations, blocks_checked;
};

static bool same(const struct came_to *a, const struct came_to *b) { return !memcmp(a, b, sizeof *a); }

static bool run(struct stress *stress, struct loaded *loaded, const struct ht_choice *choice,
                const struct ht_job *job, struct came_to *came_to, char *problem) {
    struct ht_child_channel channel;
    struct ht_error error = {0};
    if (ht_child_channel_open(&channel, &loaded->built, 0, &error)) {
        snprintf(problem, PROBLEM_BYTES, "%.400s", error.message);
        return false;
    }
    channel.watch = (struct ht_child_watch){.timeout_ns = DEADLINE_S * UINT64_C(1000000000)};
    bool done = ht_child_run(&channel, choice, job, -1, &stress->random, problem, PROBLEM_BYTES);
    const struct ht_exchange *exchange = channel.exchange;
    *came_to = (struct came_to){.operations = exchange->outcome.operations,
                                .samples = exchange->outcome.samples_taken,
                                .failures = exchange->outcome.failures,
                                .violations = exchange->findings.violations,
                                .blocks_checked = exchange->findings.blocks_checked};
    ht_child_channel_close(&channel);
    return done;
}

static struct ht_job job_of(uint64_t *random, const struct trace_shape *shape, uint32_t scale) {
    static const enum ht_pass passes[] = {HT_PASS_FLAT, HT_PASS_TIMED, HT_PASS_MEMORY, HT_PASS_ACCOUNT,
                                          HT_PASS_VERIFY};
    static const uint64_t windows_ns[] = {1, 100000, 150000, 1000000, 10000000, UINT64_C(1) << 40};
    return (struct ht_job){.pass = passes[stress_below(random, 5)],
                           .touch = stress_chance(random, 50) ? HT_TOUCH_RECORDED : HT_TOUCH_FIRST,
                           .syscall_socket = -1,
                           .virtual_time = stress_chance(random, 70),
                           .end_ns = shape->end_ns,
                           .scale = scale,
                           .repeats = 1,
                           // So short that nothing waits long: what counts is that decoding runs beside it.
                           .real_ns_per_trace_ns = stress_chance(random, 25) ? 1e-4 : 0,
                           .window_ns = windows_ns[stress_below(random, 6)]};
}

static void limit_space(rlim_t bytes) {
    struct rlimit limit;
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_AS, &limit);
}

// A child that ends early leaves a decoding half way, at any point: so does this, without the child.
static bool abandon_decoding(struct stress *stress, struct loaded *loaded, uint64_t *random) {
    struct ht_error error = {0};
    const struct timespec moment = {.tv_nsec = stress_below(random, 300000)};
    struct ht_decoder *decoder =
        ht_decoder_start(&loaded->built, loaded->built.side_by_side, stress_chance(random, 50), &error);
    if (!decoder) return false;
    nanosleep(&moment, NULL);
    stress->abandoned++;
    return ht_decoder_stop(decoder, &error) == 0;
}

static bool finding(const char *what, const struct trace_shape *shape, const struct ht_job *job,
                    const struct ht_choice *choice, uint64_t pool_bytes, const char *said) {
    char text[512];
    trace_shape_text(shape, text, sizeof text);
    fprintf(stderr,
            "streamed_stress: %s\n  trace of seed %" PRIu64 ": %s\n  %s, pass %u, window %" PRIu64
            " ns, %u copies, mapped %" PRIu64 " bytes%s\n  %s\n",
            what, shape->seed, text, choice->executable, job->pass, job->window_ns, job->scale, pool_bytes,
            job->real_ns_per_trace_ns > 0 ? ", decoding beside it" : "", said);
    return false;
}

static void say_difference(char *text, const struct came_to *a, const struct came_to *b) {
    snprintf(text, PROBLEM_BYTES,
             "%" PRIu64 " calls, %" PRIu64 " samples, %" PRIu64 " failures, %" PRIu64
             " violations, blocks checked %" PRIu64 " times; %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64
             " and %" PRIu64 " expected",
             a->operations, a->samples, a->failures, a->violations, a->blocks_checked, b->operations,
             b->samples, b->failures, b->violations, b->blocks_checked);
}

// One run of the streamed form, beside what the held one came to.
static bool streamed_run(struct stress *stress, struct loaded *streamed, const struct trace_shape *shape,
                         const struct ht_job *job, const struct ht_choice *choice,
                         const struct came_to *expected, uint64_t space_bytes) {
    struct came_to came_to;
    char problem[PROBLEM_BYTES] = "";
    if (space_bytes) limit_space(space_bytes);
    bool done = run(stress, streamed, choice, job, &came_to, problem);
    if (space_bytes) limit_space(RLIM_INFINITY);
    stress->replays++;
    stress->calls += came_to.operations;
    uint64_t mapped = streamed->built.mapped_bytes;
    if (strstr(problem, "had not ended") || strstr(problem, "hangs"))
        return finding("a replay that does not end", shape, job, choice, mapped, problem);
    if (space_bytes && (!done || came_to.violations > expected->violations)) {
        stress->refused++;  // a thread cannot be started, or an allocator has no memory to give
        return done || problem[0] || finding("a failure without a word", shape, job, choice, mapped, "");
    }
    if (!done) return finding("a replay that fails", shape, job, choice, mapped, problem);
    if (same(&came_to, expected)) return true;
    say_difference(problem, &came_to, expected);
    return finding("another result than the held form's", shape, job, choice, mapped, problem);
}

// What the held form comes to, by pass: the same under every allocator and in every window.
struct expected {
    struct loaded *loaded;
    bool known[HT_PASS_VERIFY + 1];
    struct came_to came_to[HT_PASS_VERIFY + 1];
};

static const struct came_to *held_run(struct stress *stress, struct expected *expected,
                                      const struct trace_shape *shape, const struct ht_job *job,
                                      const struct ht_choice *choice) {
    char problem[PROBLEM_BYTES] = "";
    struct came_to *came_to = &expected->came_to[job->pass];
    if (!expected->known[job->pass] && !run(stress, expected->loaded, choice, job, came_to, problem)) {
        finding("a held replay that fails", shape, job, choice, expected->loaded->built.mapped_bytes,
                problem);
        return NULL;
    }
    expected->known[job->pass] = true;
    return came_to;
}

// Held once for each pass; then streamed, into which decodings that are given up and limits may come.
static bool one_pool(struct stress *stress, const struct trace_shape *shape, uint64_t *random) {
    static const uint64_t pools_bytes[] = {1, 1, 20000, 200000, 4 << 20, 128 << 20};
    struct loaded held, streamed;
    struct expected expected = {.loaded = &held};
    uint32_t scale = stress_chance(random, 15) ? 2 + stress_below(random, 2) : 1;
    struct ht_form_options options = {.seed = shape->seed,
                                      .timed_one_in = 16,
                                      .end_ns = stress_chance(random, 70) ? shape->end_ns : 0,
                                      .scale = scale,
                                      .initial_tid = stress_chance(random, 50) ? 100 : 0,
                                      .one_thread = stress_chance(random, 5)};
    if (!load(&held, stress->path, &options)) return false;
    options.held_bytes_max = 1;
    options.pool_bytes = pools_bytes[stress_below(random, 6)];
    if (!load(&streamed, stress->path, &options)) return false;
    bool good = streamed.built.form->streamed;
    for (int i = 0; good && i < STREAMED_PER_TRACE; i++) {
        struct ht_job job = job_of(random, shape, held.built.side_by_side);
        uint32_t drawn = stress_below(random, (uint32_t)stress->choices_count);
        const struct ht_choice *choice = &stress->choices[drawn];
        // The null replayer's blocks are all one page, and the order of threads tells which of them overlap.
        if (choice == &stress->choices[0] && job.pass == HT_PASS_VERIFY) job.pass = HT_PASS_FLAT;
        uint64_t space_mib = 4 + stress_below(random, 20 + 4 * shape->threads);
        uint64_t space_bytes = stress_chance(random, 12) ? space_mib << 20 : 0;
        const struct came_to *of_held = held_run(stress, &expected, shape, &job, choice);
        good = of_held != NULL;
        if (good && stress_chance(random, 40)) good = abandon_decoding(stress, &streamed, random);
        good = good && streamed_run(stress, &streamed, shape, &job, choice, of_held, space_bytes);
    }
    unload(&streamed);
    unload(&held);
    return good;
}

static bool one_trace(struct stress *stress, uint64_t seed) {
    struct ht_error error = {0};
    struct trace_shape shape = trace_shape_of(seed);
    uint64_t random = seed ^ 0xdecade;
    if (trace_of_shape(stress->path, &shape, &error)) {
        fprintf(stderr, "streamed_stress: %s\n", error.message);
        return false;
    }
    return one_pool(stress, &shape, &random);
}

// Not every build has every one.
static void find_allocators(struct stress *stress, const char *folder) {
    for (size_t i = 0; i < ALLOCATORS; i++) {
        struct ht_choice *choice = &stress->choices[stress->choices_count];
        snprintf(choice->executable, sizeof choice->executable, "%s/replay-%s", folder, allocators[i]);
        if (access(choice->executable, X_OK) == 0) stress->choices_count++;
    }
}

int main(int argc, char **argv) {
    static struct stress stress;
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: streamed_stress REPLAYS SEED [FOLDER]\n");
        return 2;
    }
    uint64_t wanted = strtoull(argv[1], NULL, 10), seed = strtoull(argv[2], NULL, 10), traces = 0;
    const char *folder = getenv("TMPDIR");
    mallopt(M_ARENA_MAX, 1);  // as the launcher does
    find_allocators(&stress, argc > 3 ? argv[3] : HEAPTAPE_BUILD);
    if (stress.choices_count == 0) {
        fprintf(stderr, "streamed_stress: no replay-null to run\n");
        return 2;
    }
    // In memory where that can be had: each section is synced.
    if (!folder) folder = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(stress.path, sizeof stress.path, "%.400s/heaptape-stress-%d.bin", folder, (int)getpid());
    bool good = true;
    while (good && stress.replays < wanted) {
        good = one_trace(&stress, seed + traces++);
        if (isatty(STDERR_FILENO)) fprintf(stderr, "\r%" PRIu64 " of %" PRIu64, stress.replays, wanted);
    }
    unlink(stress.path);
    printf("%" PRIu64 " streamed replays of %" PRIu64 " traces, %" PRIu64 " calls; %" PRIu64
           " decodings were given up before; limits ended %" PRIu64 "; %s\n",
           stress.replays, traces, stress.calls, stress.abandoned, stress.refused,
           good ? "all others came to what the held form comes to" : "the last one is wrong");
    return !good;
}
