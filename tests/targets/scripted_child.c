// SPDX-License-Identifier: Apache-2.0
// A measured child that replays nothing and reports the figures of a script, so that what is made of figures can be compared
// to the byte. It is started by the name replay-NAME; the file "script" beside it has a line for what it is to report:
//
//   NAME <tab> PASS <tab> RUN [<tab> KEY=VALUE...]
//
// NAME, PASS and RUN may be *. RUN counts the runs of NAME in PASS, from 0. All lines that fit are obeyed, in their order.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "replay_form.h"
#include "replay_job.h"

enum { LINE_BYTES = 4096, POINTS_MAX = 16 };

static const char *const pass_names[] = {
    [HT_PASS_DESCRIBE] = "describe", [HT_PASS_FLAT] = "flat",       [HT_PASS_TIMED] = "timed",
    [HT_PASS_MEMORY] = "memory",     [HT_PASS_ACCOUNT] = "account", [HT_PASS_SNAPSHOT] = "snapshot",
    [HT_PASS_LIMIT] = "limit",       [HT_PASS_VERIFY] = "verify",   [HT_PASS_TORTURE] = "torture"};

// Values along the samples: straight between the points, in whole bytes.
struct curve {
    uint64_t point[POINTS_MAX];
    uint32_t points;
};

struct scripted {
    struct ht_exchange *exchange;
    const struct ht_form *form;  // NULL: it is only described
    struct curve rss, high, second;
    uint64_t call_ticks, touch_ticks, tick_spread, dropped_one_in;
    uint64_t sleep_ms;
    int signal, status;
    bool refuses;
};

static void *map(const char *descriptor, int protection) {
    struct stat status;
    int fd = atoi(descriptor);
    if (fstat(fd, &status)) exit(3);
    void *mapped = mmap(NULL, (size_t)status.st_size, protection, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) exit(3);
    return mapped;
}

static uint64_t number(const char *text) { return strtoull(text, NULL, 0); }

static void read_curve(const char *text, struct curve *curve) {
    curve->points = 0;
    for (const char *at = text; at && curve->points < POINTS_MAX; at = strchr(at, ':'), at = at ? at + 1 : at)
        curve->point[curve->points++] = number(at);
}

static uint64_t value_at(const struct curve *curve, uint32_t sample, uint32_t samples) {
    if (curve->points < 2 || samples < 2) return curve->point[0];
    uint64_t way = (uint64_t)sample * (curve->points - 1), whole = samples - 1;
    uint64_t before = way / whole, rest = way % whole;
    if (before + 1 >= curve->points) return curve->point[curve->points - 1];
    uint64_t from = curve->point[before], to = curve->point[before + 1];
    return to >= from ? from + (to - from) / whole * rest : from - (from - to) / whole * rest;
}

// Where a plain number or text goes.
struct place {
    const char *key;
    size_t offset, bytes;
    bool is_text;
};
#define NUMBER(key, member)                                                                                  \
    {key, offsetof(struct ht_exchange, member), sizeof(((struct ht_exchange *)0)->member), false}
#define TEXT(key, member)                                                                                    \
    {key, offsetof(struct ht_exchange, member), sizeof(((struct ht_exchange *)0)->member), true}
static const struct place places[] = {TEXT("kind", outcome.kind),
                                      TEXT("version", outcome.version),
                                      TEXT("path", outcome.path),
                                      TEXT("build_id", outcome.build_id),
                                      TEXT("message", outcome.message),
                                      TEXT("first_failure", outcome.first_failure),
                                      TEXT("cycle_counter_reader", outcome.cycle_counter_reader),
                                      TEXT("purge_call", figures.purge_call),
                                      NUMBER("refused", outcome.refused),
                                      NUMBER("skips_queries", outcome.skips_queries),
                                      NUMBER("lacks_operators", outcome.lacks_operators),
                                      NUMBER("cpu_ns", outcome.cpu_ns),
                                      NUMBER("first_cpu_ns", outcome.first_cpu_ns),
                                      NUMBER("wait_ns", outcome.wait_ns),
                                      NUMBER("wall_ns", outcome.wall_ns),
                                      NUMBER("operations", outcome.operations),
                                      NUMBER("samples_taken", outcome.samples_taken),
                                      NUMBER("failures", outcome.failures),
                                      NUMBER("known_failures", outcome.known_failures),
                                      NUMBER("minor_faults", outcome.minor_faults),
                                      NUMBER("major_faults", outcome.major_faults),
                                      NUMBER("rss_start", outcome.rss_start_bytes),
                                      NUMBER("rss_end", outcome.rss_end_bytes),
                                      NUMBER("clock_cost_ticks", outcome.clock_cost_ticks),
                                      NUMBER("ticks", outcome.ticks),
                                      NUMBER("ticks_ns", outcome.ticks_ns),
                                      NUMBER("background_threads", outcome.background_threads),
                                      NUMBER("background_cpu_ns", outcome.background_cpu_ns),
                                      NUMBER("cycle_counter_watched", outcome.cycle_counter_watched),
                                      NUMBER("processors_asked", outcome.processors_asked),
                                      NUMBER("snapshot_problem", outcome.snapshot_problem),
                                      NUMBER("voluntary_switches", figures.voluntary_switches),
                                      NUMBER("involuntary_switches", figures.involuntary_switches),
                                      NUMBER("watched", figures.watched),
                                      NUMBER("watch_refusal", figures.watch_refusal),
                                      NUMBER("purged", figures.purged),
                                      NUMBER("after_free", figures.rss_after_free_bytes),
                                      NUMBER("after_purge", figures.rss_after_purge_bytes),
                                      NUMBER("arenas", figures.arenas.used),
                                      NUMBER("arenas_max", figures.arenas.most),
                                      NUMBER("swap_end", figures.residency_end.swap_bytes),
                                      NUMBER("lazyfree_end", figures.residency_end.lazyfree_bytes),
                                      NUMBER("huge_end", figures.residency_end.anon_huge_bytes),
                                      NUMBER("rss_kernel_end", figures.residency_end.rss_bytes),
                                      NUMBER("knows_usable", figures.knows_usable),
                                      NUMBER("filter_refusal", figures.filter_refusal),
                                      NUMBER("peak_live", figures.peak_live_bytes),
                                      NUMBER("peak_usable", figures.peak_usable_bytes),
                                      NUMBER("untouched_end", figures.untouched_end_bytes),
                                      NUMBER("end_live", figures.report_end.live_bytes),
                                      NUMBER("end_usable", figures.report_end.usable_bytes),
                                      NUMBER("violations", findings.violations),
                                      NUMBER("known_violations", findings.known),
                                      NUMBER("usable_unknown", findings.usable_unknown),
                                      NUMBER("blocks_checked", findings.blocks_checked),
                                      NUMBER("largest_bytes", findings.largest_bytes),
                                      NUMBER("largest_alignment", findings.largest_alignment)};

static bool put(struct ht_exchange *exchange, const char *key, const char *value) {
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char *at = (char *)exchange + places[i].offset;
        uint64_t whole = number(value);
        if (strcmp(places[i].key, key)) continue;
        if (places[i].is_text) snprintf(at, places[i].bytes, "%s", value);
        else memcpy(at, &whole, places[i].bytes);
        return true;
    }
    return false;
}

static const uint64_t *numbers(const char *value, uint64_t list[8]) {
    memset(list, 0, 8 * sizeof *list);
    for (int i = 0; i < 8 && value; i++, value = strchr(value, ':'), value = value ? value + 1 : value)
        list[i] = number(value);
    return list;
}

// Keys that stand for more than one number.
static bool put_list(struct ht_exchange *exchange, const char *key, const char *value) {
    struct ht_child_figures *figures = &exchange->figures;
    struct ht_verify_findings *findings = &exchange->findings;
    uint64_t list[8];
    const uint64_t *of = numbers(value, list);
    if (!strcmp(key, "counter")) {  // event, value, whether it lacks the kernel's part, errno
        figures->perf[of[0]] = (struct ht_perf_count){of[1], (uint32_t)of[2], (uint32_t)of[3]};
    } else if (!strcmp(key, "resident")) {  // sample, rss, lazyfree, huge, swap
        figures->residency[figures->residencies++] =
            (struct ht_kernel_view){of[0], of[1], of[2], of[3], of[4]};
    } else if (!strcmp(key, "report")) {  // sample, live, usable, the allocator's own values
        figures->report[figures->reports++] =
            (struct ht_report_row){of[0], of[1], of[2], {of[3], of[4], of[5], of[6]}};
    } else if (!strcmp(key, "reported")) {
        snprintf(figures->report_names[figures->report_values++], HT_REPORT_NAME_BYTES, "%s", value);
    } else if (!strcmp(key, "class")) {  // size class, blocks, requested, usable
        figures->at_peak[of[0]] = (struct ht_size_account){of[1], of[2], of[3]};
    } else if (!strcmp(key, "knob")) {  // number: value
        struct ht_knob_report *knob = &figures->knobs[of[0]];
        knob->state = HT_KNOB_REPORTED;
        snprintf(knob->value, sizeof knob->value, "%s", strchr(value, ':') + 1);
    } else if (!strcmp(key, "found")) {  // kind, stream, call, slot, bytes, offset, expected, found
        for (size_t i = 0; i < HT_VIOLATIONS_REPORTED; i++) {
            struct ht_violation *v = &findings->first[i];
            if (v->written) continue;
            *v = (struct ht_violation){.written = 1,
                                       .kind = (uint32_t)of[0],
                                       .slot = (uint32_t)of[3],
                                       .found_at = {(uint32_t)of[1], of[2]},
                                       .made_at = {(uint32_t)of[1], of[2] / 2},
                                       .other_made_at = {(uint32_t)of[1], of[2] / 3},
                                       .bytes = of[4],
                                       .offset = of[5],
                                       .expected = of[6],
                                       .found = of[7]};
            break;
        }
        findings->counts[of[0]]++;
        findings->violations++;
    } else if (!strcmp(key, "blocks_by")) {
        for (int i = 0; i < HT_VERIFIED_TRACE; i++) findings->blocks_by[i] = of[i];
    } else {
        return false;
    }
    return true;
}

static void obey(struct scripted *s, const char *key, const char *value) {
    if (put(s->exchange, key, value) || put_list(s->exchange, key, value)) return;
    if (!strcmp(key, "rss")) read_curve(value, &s->rss);
    else if (!strcmp(key, "high")) read_curve(value, &s->high);
    else if (!strcmp(key, "second")) read_curve(value, &s->second);
    else if (!strcmp(key, "call_ticks")) s->call_ticks = number(value);
    else if (!strcmp(key, "touch_ticks")) s->touch_ticks = number(value);
    else if (!strcmp(key, "tick_spread")) s->tick_spread = number(value);
    else if (!strcmp(key, "dropped_one_in")) s->dropped_one_in = number(value);
    else if (!strcmp(key, "sleep_ms")) s->sleep_ms = number(value);
    else if (!strcmp(key, "signal")) s->signal = atoi(value);
    else if (!strcmp(key, "status")) s->status = atoi(value);
    else if (!strcmp(key, "refuses")) s->refuses = number(value);
    else fprintf(stderr, "scripted child: %s: unknown key\n", key);
}

static bool fits(const char *wanted, const char *is) { return !strcmp(wanted, "*") || !strcmp(wanted, is); }

// How often NAME has run in this pass before.
static uint64_t count_run(int folder, const char *name, const char *pass) {
    char path[256];
    struct stat status;
    snprintf(path, sizeof path, "runs.%s.%s", name, pass);
    int fd = openat(folder, path, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (fd < 0 || write(fd, "x", 1) != 1 || fstat(fd, &status)) exit(3);
    close(fd);
    return (uint64_t)status.st_size - 1;
}

static void read_script(struct scripted *s, const char *program) {
    char folder_path[4096], line[LINE_BYTES], run_text[32];
    const char *slash = strrchr(program, '/'), *name = slash + sizeof "/replay-" - 1;
    const char *pass = pass_names[s->exchange->job.pass];
    snprintf(folder_path, sizeof folder_path, "%.*s", (int)(slash - program), program);
    int folder = open(folder_path, O_RDONLY | O_DIRECTORY);
    snprintf(run_text, sizeof run_text, "%llu", (unsigned long long)count_run(folder, name, pass));
    FILE *script = fdopen(openat(folder, "script", O_RDONLY), "r");
    if (!script) exit(3);
    while (fgets(line, sizeof line, script)) {
        char *rest = line, *word;
        line[strcspn(line, "\n")] = 0;
        bool meant = fits(strsep(&rest, "\t"), name) && rest && fits(strsep(&rest, "\t"), pass) && rest &&
                     fits(strsep(&rest, "\t"), run_text);
        while (meant && (word = strsep(&rest, "\t"))) {
            char *equals = strchr(word, '=');
            if (!equals) continue;
            *equals = 0;
            obey(s, word, equals + 1);
        }
    }
    fclose(script);
    close(folder);
}

static void write_samples(const struct scripted *s) {
    uint32_t samples = s->form->samples, pass = s->exchange->job.pass;
    uint64_t *rss = (uint64_t *)((char *)s->exchange + HT_EXCHANGE_RSS_OFFSET), *second = rss + samples;
    for (uint32_t i = 0; i < samples; i++) {
        uint64_t high = value_at(&s->high, i, samples);
        rss[i] = value_at(&s->rss, i, samples);
        second[i] = pass == HT_PASS_ACCOUNT ? value_at(&s->second, i, samples)
                    : high > rss[i]         ? high
                                            : rss[i];
    }
}

static void write_readings(const struct scripted *s) {
    uint64_t *rss = (uint64_t *)((char *)s->exchange + HT_EXCHANGE_RSS_OFFSET);
    struct ht_reading *readings = (struct ht_reading *)(rss + 2ull * s->form->samples);
    for (uint32_t i = 0; i < s->form->readings; i++) {
        uint64_t more = s->tick_spread ? (i * 2654435761u >> 8) % s->tick_spread : 0;
        readings[i] = (struct ht_reading){(uint32_t)(s->call_ticks + more * more / 16),
                                          (uint32_t)(s->touch_ticks + more)};
        if (s->dropped_one_in && i % s->dropped_one_in == 0) readings[i].call_ticks = HT_READING_DROPPED;
    }
}

// Accounts that add up to RSS, and snapshots without a block.
static void write_snapshots(const struct scripted *s) {
    const struct ht_job *job = &s->exchange->job;
    for (uint32_t i = 0; i < job->stretches; i++) {
        uint64_t rss = value_at(&s->rss, job->stretch_sample[i], s->form->samples);
        s->exchange->figures.stretch[i] = (struct ht_stretch_accounts){
            .rss_bytes = rss,
            .live_bytes = rss / 2,
            .rounding_bytes = rss / 16,
            .holes_bytes = rss / 8,
            .free_pages_bytes = rss / 8,
            .untouched_bytes = rss / 16,
            .tables_bytes = rss - rss / 2 - rss / 16 - rss / 8 - rss / 8 - rss / 16};
    }
    for (uint32_t i = 0; i < job->snapshots; i++) {
        struct ht_snapshot_head head = {.magic = HT_SNAPSHOT_MAGIC,
                                        .sample = job->snapshot_sample[i],
                                        .rss_bytes =
                                            value_at(&s->rss, job->snapshot_sample[i], s->form->samples)};
        if (write(job->snapshot_fd, &head, sizeof head) != sizeof head) exit(3);
    }
}

static void report(struct scripted *s) {
    const struct ht_job *job = &s->exchange->job;
    struct ht_outcome *outcome = &s->exchange->outcome;
    uint64_t scale = job->scale ? job->scale : 1, repeats = job->repeats ? job->repeats : 1;
    outcome->operations = s->form->operations * scale * (job->pass == HT_PASS_FLAT ? repeats : 1);
    outcome->samples_taken = s->form->samples;
    s->exchange->figures.repeats = job->pass == HT_PASS_FLAT ? repeats : 1;
}

// What the script gives is of one repeat.
static void multiply_by_repeats(struct ht_exchange *exchange) {
    uint64_t repeats = exchange->figures.repeats ? exchange->figures.repeats : 1;
    exchange->outcome.cpu_ns *= repeats;
    exchange->outcome.wall_ns *= repeats;
    exchange->outcome.wait_ns *= repeats;
    exchange->outcome.minor_faults *= repeats;
    exchange->outcome.major_faults *= repeats;
}

static void end(const struct scripted *s) {
    const struct timespec time = {(time_t)(s->sleep_ms / 1000), (long)(s->sleep_ms % 1000) * 1000000};
    const struct rlimit no_core = {0, 0};
    if (s->sleep_ms) nanosleep(&time, NULL);
    if (s->signal) {
        setrlimit(RLIMIT_CORE, &no_core);
        raise(s->signal);
    }
    if (s->refuses) s->exchange->outcome.state = HT_OUTCOME_REFUSED;
    if (s->refuses || s->status) _exit(s->refuses ? 1 : s->status);
}

int main(int argc, char **argv) {
    static struct scripted s;
    if (argc != 3) return 2;
    s.exchange = map(argv[2], PROT_READ | PROT_WRITE);
    if (s.exchange->job.pass != HT_PASS_DESCRIBE) s.form = map(argv[1], PROT_READ);
    s.exchange->outcome.state = HT_OUTCOME_RUNNING;
    if (s.form) report(&s);
    read_script(&s, argv[0]);
    multiply_by_repeats(s.exchange);
    end(&s);
    if (s.form) write_samples(&s);
    if (s.form && s.exchange->job.pass == HT_PASS_TIMED) write_readings(&s);
    if (s.exchange->job.pass == HT_PASS_SNAPSHOT) write_snapshots(&s);
    s.exchange->outcome.state = HT_OUTCOME_DONE;
    _exit(0);
}
