// SPDX-License-Identifier: Apache-2.0
// `replay`, the launcher: decodes a trace once, replays it against each allocator in processes of their own,
// and compares. It is never measured itself.
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "allocator_list.h"
#include "call_times.h"
#include "context_words.h"
#include "count_runs.h"
#include "extension.h"
#include "file_digest.h"
#include "group_program.h"
#include "group_runs.h"
#include "group_trace.h"
#include "json_values.h"
#include "judged_runs.h"
#include "limit_runs.h"
#include "machine_memory.h"
#include "now.h"
#include "option_values.h"
#include "output_file.h"
#include "plain_rounds.h"
#include "prelude_form.h"
#include "print.h"
#include "replay_values.h"
#include "results_line.h"
#include "simulation.h"
#include "snapshot_runs.h"
#include "talk.h"
#include "trace_aging.h"
#include "verbs.h"
#include "verify_runs.h"

// A day is not held, although the machine may have the memory: it is made anew for each run.
enum { EXTENDED_BYTES = 64 << 20 };

// Seldom enough for the caches to be as without timing, often enough for the rarer functions; more seldom
// where running through a polluting working set takes longer than a thousand calls.
enum { TIMED_ONE_IN = 64, TIMED_ONE_IN_POLLUTED = 256 };

static int complain(const struct ht_error *error) {
    ht_print(stderr, "heaptape replay: %s\n", error->message);
    return error->status ? error->status : HT_EXIT_FAILED;
}

// Removes those that cannot prove which library their calls reach: there must be no figures of them.
static size_t describe_all(struct ht_runner *r, struct ht_plan *plan, struct ht_choice *null_choice) {
    char problem[512];
    size_t kept = 0, refused = 0;
    if (!ht_runner_describe(r, null_choice, problem, sizeof problem) && !ht_child_interrupted()) {
        ht_print(stderr, "heaptape replay: null: %s\n", problem);
        refused++;
    }
    for (size_t i = 0; i < plan->choices.count && !ht_child_interrupted(); i++) {
        struct ht_choice *choice = &plan->choices.list[i];
        if (ht_runner_describe(r, choice, problem, sizeof problem)) {
            if (kept != i) plan->choices.list[kept] = *choice;
            kept++;
        } else if (!ht_child_interrupted()) {
            ht_print(stderr, "heaptape replay: %s: %s\n", choice->name, problem);
            refused++;
        }
    }
    plan->choices.count = kept;
    return refused;
}

static int find_choice(const struct ht_choices *choices, const char *name) {
    for (size_t i = 0; i < choices->count; i++) {
        if (!strcmp(choices->list[i].name, name)) return (int)i;
    }
    return -1;
}

// Its place is found before anything runs: a typing error must not cost an hour of replays.
static int check_baseline(const struct ht_plan *plan) {
    if (!plan->baseline || find_choice(&plan->choices, plan->baseline) >= 0) return HT_EXIT_DONE;
    struct ht_meant meant = {.word = plan->baseline};
    char words[HT_MEANT_BYTES];
    for (size_t i = 0; i < plan->choices.count; i++) ht_meant_try(&meant, plan->choices.list[i].name);
    ht_print(stderr, "heaptape replay: --baseline %s: expected one of the allocators to replay%s\n",
             plan->baseline, ht_meant_words(&meant, words));
    return HT_EXIT_USAGE;
}

static int check_written(const struct ht_plan *plan) {
    if (!plan->write_baseline || !output_file_check(plan->write_baseline)) return HT_EXIT_DONE;
    ht_print(stderr, "heaptape replay: %s: cannot be created: %s\n", plan->write_baseline, strerror(errno));
    return HT_EXIT_FAILED;
}

// What measures the condition's figure, if that is not asked for.
static const char *missing_pass(const struct ht_plan *plan, const struct ht_condition *condition) {
    if (!condition->counted) {
        bool of_time = condition->figure == HT_FIGURE_TIME;
        if (of_time ? plan->time_pass : plan->memory_pass) return NULL;
        return of_time ? "the time pass" : "the memory pass";
    }
    if (!condition->counted->takes_simulation)
        return plan->count_pass || plan->instructions ? NULL : "--instructions, or --pass count";
    return plan->count_pass && !plan->instructions ? NULL : "--pass count, without --instructions";
}

// A condition that nothing can meet would pass for ever.
static int check_conditions(const struct ht_plan *plan) {
    for (size_t i = 0; i < plan->conditions.count; i++) {
        const struct ht_condition *condition = &plan->conditions.list[i];
        const char *expected = missing_pass(plan, condition);
        if (plan->baseline_file && condition->figure == HT_FIGURE_TIME)
            expected = "no --baseline-file: times of another run say nothing of this one";
        else if (plan->choices.count < 2 && !plan->baseline_file)
            expected = "a baseline and another allocator in --alloc, or --baseline-file";
        if (!expected) continue;
        ht_print(stderr, "heaptape replay: --fail-if %s: expected %s\n", condition->text, expected);
        return HT_EXIT_USAGE;
    }
    return HT_EXIT_DONE;
}

// The one asked for; else the one that the program ran under; else glibc; else the first.
static size_t baseline_of(const struct ht_plan *plan, const struct ht_recorded_program *program) {
    const struct ht_choices *choices = &plan->choices;
    for (size_t i = 0; i < choices->count && !plan->baseline; i++) {
        if (ht_recorded_served(program, choices->list[i].name, choices->list[i].version)) return i;
    }
    int found = find_choice(choices, plan->baseline ? plan->baseline : "glibc");
    return found < 0 ? 0 : (size_t)found;
}

// What the allocator refuses of the calls that `refused` has a bit for. Returns how many.
static uint64_t write_refusal(const struct ht_built_form *built, uint32_t refused, char *text, size_t room) {
    uint64_t calls = 0;
    size_t used = 0;
    text[0] = 0;
    for (unsigned i = 0; i < HT_ODD_CALLS_MAX; i++) {
        const struct ht_counted_odd_call *odd = &built->odd[i];
        char count[32], of[HT_NUMBER_OF_BYTES];
        if (!(refused >> i & 1) || !odd->count) continue;
        int more = snprintf(text + used, room - used, "%s%s of %s of %s (such as alignment %llu, size %llu)",
                            calls ? ", " : "refuses ", ht_grouped(count, odd->count),
                            ht_number_of(of, odd->of, "call"),
                            odd->first.function == HT_ODD_MEMALIGN ? "memalign" : "aligned_alloc",
                            (unsigned long long)odd->first.alignment, (unsigned long long)odd->first.size);
        calls += odd->count;
        if (more < 0 || (size_t)more >= room - used) break;
        used += (size_t)more;
    }
    return calls;
}

// An allocator that refuses what the program got was not that program's: it is not replayed. What the baseline refuses, too,
// which the program may have run under in another version, tells nobody apart.
static void settle_refusals(struct ht_plan *plan, const struct ht_built_form *built, size_t baseline) {
    char text[sizeof((struct ht_choice *)NULL)->refusal];
    for (size_t i = 0; i < plan->choices.count; i++) {
        struct ht_choice *choice = &plan->choices.list[i];
        if (i == baseline) {
            if (write_refusal(built, choice->refused, text, sizeof text))
                ht_print(stderr, "heaptape replay: warning: %s %s: they are replayed as posix_memalign\n",
                         choice->name, text);
            continue;
        }
        uint32_t refused = choice->refused & ~plan->choices.list[baseline].refused;
        choice->refused_calls = write_refusal(built, refused, choice->refusal, sizeof choice->refusal);
        if (choice->refused_calls)
            ht_print(stderr, "heaptape replay: %s %s: it is not replayed\n", choice->name, choice->refusal);
    }
}

struct loaded_trace {
    struct ht_trace_reader *reader;  // a streamed form is decoded again for each child
    struct ht_recorded_program program;
    struct ht_form_options form_options;
    struct ht_prelude_form prelude;
    struct ht_built_form built;
    char sha256[HT_DIGEST_TEXT_BYTES];
    uint64_t *own_bytes;  // the program's own memory by sample; NULL: not known
};

// The amounts are in results, and so is what they come from on the terminal.
static int pollute_by_trace(struct ht_plan *plan, struct ht_trace_reader *reader, struct ht_error *error) {
    double gap_ns;
    if (!plan->pollution_by_trace) return 0;
    if (ht_median_gap_ns(reader, &gap_ns, error)) return -1;
    plan->pollution = ht_pollution_of_gap(gap_ns);
    if (!plan->quiet)
        ht_print(
            stderr,
            "heaptape replay: a thread's calls are %.0f ns apart: --pollute data=%lluB,code=%lluB,tlb=%llu\n",
            gap_ns, (unsigned long long)plan->pollution.data_bytes,
            (unsigned long long)plan->pollution.code_bytes, (unsigned long long)plan->pollution.pages);
    return 0;
}

static int age_by_trace(struct ht_plan *plan, struct ht_trace_reader *reader, struct ht_error *error) {
    if (plan->age_occupancy == 0) return 0;
    return ht_aging_of_trace(reader, plan->age_occupancy, plan->age_multiple, plan->scale, &plan->aging,
                             error);
}

static int read_trace(struct ht_plan *plan, struct ht_trace_reader *reader, struct loaded_trace *trace,
                      struct ht_error *error) {
    if (ht_trace_truncated(reader)) {
        // The peak may be in what is missing: better no figures than those of half a program.
        return ht_error_input(
            error, plan->trace_path, ht_trace_valid_bytes(reader),
            "expected a whole section or the footer, found the file cut short or damaged: replay takes "
            "whole traces only");
    }
    if (ht_recorded_program_read(reader, &trace->program, error) || pollute_by_trace(plan, reader, error))
        return -1;
    if (plan->scale > 1 || plan->age_occupancy > 0) ht_recorded_program_other(&trace->program);
    if (plan->processors) ht_recorded_program_elsewhere(&trace->program);
    uint64_t memory_bytes = plan->decoded_memory_bytes;
    if (!memory_bytes && plan->extend_to_ns) memory_bytes = EXTENDED_BYTES;
    if (!memory_bytes) memory_bytes = ht_memory_available_bytes() / 4;
    trace->form_options = (struct ht_form_options){
        .one_thread = plan->one_thread,
        .in_order = plan->splice_path != NULL,
        .page_bytes = trace->program.page_bytes,
        .initial_tid = trace->program.pid,
        .timed_one_in = ht_pollutes(&plan->pollution) ? TIMED_ONE_IN_POLLUTED : TIMED_ONE_IN,
        .seed = plan->seed,
        .samples = plan->points,
        .end_ns = trace->program.end_ns,
        .scale = plan->scale,
        .has_aligned = trace->program.has_aligned,
        .held_bytes_max = memory_bytes};
    if (ht_prelude_form_build(reader, plan->trace_path, &trace->form_options, &trace->prelude, error))
        return -1;
    if (trace->prelude.reader) trace->form_options.before = &trace->prelude.built;
    if (ht_form_build(reader, plan->trace_path, &trace->form_options, &trace->built, error) ||
        age_by_trace(plan, reader, error))
        return -1;
    trace->own_bytes = ht_own_memory_at(&trace->program.own, &trace->built);
    return 0;
}

static int extend_trace(const struct ht_plan *plan, struct loaded_trace *trace, struct ht_error *error) {
    const struct extension_request request = {
        .to_ns = plan->extend_to_ns, .from_ns = plan->extend_from_ns, .until_ns = plan->extend_until_ns};
    // What is cut short is refused in any case.
    if (!plan->extend_to_ns || ht_trace_truncated(trace->reader)) return 0;
    struct ht_trace_reader *extended = extension_open(trace->reader, plan->trace_path, &request, NULL, error);
    if (!extended) return -1;
    trace->reader = extended;
    return 0;
}

static int load_trace(struct ht_plan *plan, struct loaded_trace *trace, struct ht_error *error) {
    if (plan->purge_at_fork) {
        errno = 0;
        ht_error_system(error, plan->trace_path, "--purge fork is for the trace of a group of processes");
        error->status = HT_EXIT_USAGE;
        return -1;
    }
    trace->reader = ht_trace_open(plan->trace_path, error);
    if (!trace->reader || extend_trace(plan, trace, error)) return -1;
    int failed = read_trace(plan, trace->reader, trace, error);
    if (!failed && ht_file_sha256(plan->trace_path, trace->sha256)) {
        failed = ht_error_system(error, plan->trace_path, "second reading");
    }
    return failed;
}

// Of a signal handler, which has no argument.
static char late_words[128];
static int late_status;

static void end_late(int number) {
    (void)number;
    bool said = write(STDERR_FILENO, late_words, strlen(late_words)) > 0;
    _exit(said ? late_status : HT_EXIT_FAILED);  // there is nothing to keep yet
}

// Ends the program when the budget has passed while the trace is read. latest_ns: 0: it is read in time.
static void limit_loading(const struct ht_plan *plan, uint64_t latest_ns) {
    struct itimerval timer = {.it_value = {.tv_sec = (time_t)(latest_ns / 1000000000u),
                                           .tv_usec = (suseconds_t)(latest_ns % 1000000000u / 1000)}};
    if (!plan->budget_given) return;
    snprintf(
        late_words, sizeof late_words,
        "heaptape replay: to read the trace takes longer than --budget %.0fs allows: nothing is compared; "
        "use more\n",
        ceil((double)plan->budget_ns / 1e9));
    late_status = plan->conditions.count ? HT_EXIT_UNDECIDED : HT_EXIT_FAILED;
    signal(SIGALRM, latest_ns ? end_late : SIG_DFL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

// Before anything is simulated: the accesses have to be those between this trace's calls.
static int check_accesses(const struct ht_plan *plan, const struct ht_built_form *built,
                          struct ht_error *error) {
    uint64_t allocations = 0;
    if (!plan->splice_path) return 0;
    for (int i = 0; i < HT_FUNCTIONS; i++)
        if (ht_functions[i].kind == HT_KIND_ALLOC || ht_functions[i].kind == HT_KIND_REALLOC)
            allocations += built->calls[i];
    return ht_accesses_check(plan->splice_path, allocations, error);
}

// A snapshot of a later time would pass for one of the end. What is as late as the end in three digits, as times are
// printed, is meant to be the end.
static int check_moments(const struct ht_plan *plan, const struct loaded_trace *trace,
                         struct ht_error *error) {
    const struct ht_snapshot_times *times = &plan->snapshot_times;
    uint32_t samples = trace->built.form->samples;
    uint64_t end_ns = trace->program.end_ns, last_ns = samples ? trace->built.points[samples - 1].time_ns : 0;
    if (last_ns > end_ns) end_ns = last_ns;
    for (uint32_t i = 0; i < times->count; i++) {
        if (times->at_ns[i] <= end_ns + end_ns / 100) continue;
        char end[EXTENDED_TIME_BYTES], at[EXTENDED_TIME_BYTES];
        errno = 0;
        ht_error_system(error, plan->trace_path,
                        "--at: expected times up to the end of the trace, %s, found %s",
                        extended_time(end, end_ns), extended_time(at, times->at_ns[i]));
        error->status = HT_EXIT_USAGE;
        return -1;
    }
    return 0;
}

static int stopped(const char *where) {
    ht_print(stderr, "heaptape replay: stopped %s\n", where);
    return HT_EXIT_FAILED;
}

// Whether anything is to be judged: rounds, or counts against a condition or another run, or for who started us.
static bool needs_judge(const struct ht_plan *plan, const struct ht_judge *judge) {
    bool of_counts = judge->attached || plan->conditions.count || plan->baseline_file || plan->write_baseline;
    return plan->time_pass || plan->memory_pass || (plan->count_pass && of_counts);
}

static size_t count_unjudged(struct ht_runner *r) {
    size_t failed;
    json_t *print = ht_count_all(r, &failed);
    if (!print) return failed;
    json_dumpf(print, stdout, JSON_INDENT(1) | HT_JSON_REALS);
    putchar('\n');
    json_decref(print);
    return failed;
}

// The option that nobody obeys where nobody judges, or NULL.
static const char *unjudged_option(const struct ht_plan *plan) {
    return plan->conditions.count ? "--fail-if"
           : plan->baseline_file  ? "--baseline-file"
           : plan->write_baseline ? "--write-baseline"
           : plan->instructions   ? "--instructions"
           : plan->json           ? "--json"
                                  : NULL;
}

// A condition is not passed in silence.
static int measure_unjudged(struct ht_runner *r, size_t refused, const char *missing) {
    const char *option = unjudged_option(r->plan);
    ht_print(stderr, "heaptape replay: no verdicts: %s\n", missing);
    if (option) ht_print(stderr, "heaptape replay: %s: needs verdicts: nothing was measured\n", option);
    if (option) return HT_EXIT_FAILED;
    refused += ht_plain_rounds(r);
    return ht_stdout_status("heaptape replay", refused || r->results_failed ? HT_EXIT_FAILED : HT_EXIT_DONE);
}

static int measure(struct ht_runner *r, const struct loaded_trace *trace, struct ht_judge *judge,
                   const char *missing, size_t refused) {
    if (ht_child_interrupted())
        return stopped(r->plan->verify ? "while verifying" : "before the first round");
    bool compares = r->plan->time_pass || r->plan->memory_pass;
    // The comparison prints it, too.
    if (trace->program.extended.words[0] && !compares && !r->plan->quiet)
        ht_print(stderr, "heaptape replay: %s\n", trace->program.extended.words);
    if (r->plan->limit_pass) refused += ht_limit_all(r);
    if (r->plan->limit_pass && ht_child_interrupted()) return stopped("in the limit pass");
    if (r->plan->snapshots_folder) refused += ht_snapshot_all(r);
    if (needs_judge(r->plan, judge)) {
        return *missing ? measure_unjudged(r, refused, missing) : ht_judge_serve(judge, r, refused);
    }
    if (r->plan->count_pass) refused += count_unjudged(r);
    return refused || r->results_failed || fflush(stdout) ? HT_EXIT_FAILED : HT_EXIT_DONE;
}

// A user who asked for real time should know for how much of it.
static void say_waiting(const struct ht_plan *plan, uint64_t end_ns) {
    enum { RUNS_OF_TIME_PASS = 2 };
    double ns = plan->time_pass ? RUNS_OF_TIME_PASS * plan->paces.time.real_ns_per_trace_ns : 0;
    if (plan->memory_pass) ns += plan->paces.memory.real_ns_per_trace_ns;
    double seconds =
        ns * (double)end_ns / 1e9 * (double)(plan->choices.count + 1 + (plan->choices.count > 1));
    if (seconds < 1 || plan->quiet) return;
    ht_print(stderr, "heaptape replay: at this pace a round takes %.0f s", seconds);
    if (plan->rounds > 1) ht_print(stderr, ", all %u take %.0f s", plan->rounds, seconds * plan->rounds);
    fputc('\n', stderr);
}

// While there is time to replay what matters instead.
static void say_idle_ends(const struct ht_plan *plan, const struct loaded_trace *trace) {
    char words[HT_IDLE_ENDS_BYTES];
    if (!plan->quiet && ht_idle_ends(trace->reader, plan->trace_path, trace->program.end_ns, words))
        ht_print(stderr, "heaptape replay: %s\n", words);
}

// At once, and not only after a minute: what comes is about little of the program.
static void caution(struct ht_runner *r) {
    char words[HT_HEAP_SHARE_TEXT_BYTES], swollen[HT_HEAP_SWOLLEN_TEXT_BYTES];
    const struct ht_recorded_program *program = r->program;
    bool is_small = ht_heap_share_is_small(&program->share);
    bool is_swollen = !is_small && program->heap_peak_bytes > 0 && program->live_peak_bytes &&
                      ht_heap_is_swollen((uint64_t)program->heap_peak_bytes, program->live_peak_bytes);
    if (is_small)
        ht_warn(&r->warnings, HT_WARNING_MOSTLY_UNSEEN, "the comparison is of malloc's part only", "%s",
                ht_heap_share_words(words, &program->share));
    if (is_swollen)
        ht_warn(&r->warnings, HT_WARNING_SWOLLEN_HEAP,
                "hold the replay under the recorded allocator against it", "%s",
                ht_heap_swollen_words(swollen, (uint64_t)program->heap_peak_bytes, program->live_peak_bytes));
    if (!isnan(program->heap_high_bytes))
        ht_warn(&r->warnings, HT_WARNING_UNKNOWN_HEAP, "no replay is held against the recorded program",
                "how much of the recorded program's memory was in its heap is unknown: %.1f to %.1f MB",
                program->heap_low_bytes / 1e6, program->heap_high_bytes / 1e6);
    ht_warnings_print(stderr, &r->warnings, 0);
}

// What the program's allocator was set to and that of the replay is not: before the figures, because they are of another.
static void warn_of_settings(struct ht_runner *r) {
    const struct ht_recorded_settings *settings = r->settings;
    char left[HT_SETTINGS_TEXT_BYTES];
    size_t before = r->warnings.count;
    ht_settings_text(settings->list, settings->count, HT_SETTING_LEFT_OUT, left);
    if (!*left) return;
    ht_warn(&r->warnings, HT_WARNING_SETTINGS, "it is no knob of the allocator, or no value of one",
            "the program ran with %s, which no replay has", left);
    ht_warnings_print(stderr, &r->warnings, before);
}

// The bytes that the replay makes resident at once, before anything that the allocator adds.
static uint64_t resident_peak_bytes(const struct ht_plan *plan, const struct ht_built_form *built) {
    bool all = plan->touch == HT_TOUCH_PAGES || plan->touch == HT_TOUCH_ALL ||
               plan->touch_free == HT_TOUCH_FREE_WRITE;
    if (all) return built->live_peak_bytes;
    return plan->touch == HT_TOUCH_NONE && !plan->verify ? 0 : built->touched_peak_bytes;
}

// Three quarters: allocators keep more than what is live, and the rest of the machine wants to live, too. A
// limit of address space counts the form, which every child maps.
static uint64_t usual_limit_bytes(const struct ht_built_form *built) {
    struct rlimit space;
    uint64_t bytes = ht_memory_available_bytes();
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) {
        uint64_t left = space.rlim_cur > built->mapped_bytes ? space.rlim_cur - built->mapped_bytes : 0;
        if (left < bytes) bytes = left;
    }
    return bytes / 4 * 3;
}

// Refuses a replay that would take more memory than the machine can give: a trace may hold anything, and what
// comes of touching it is other programs' death, not only ours. Called once the form is built, so that its memory is among
// what is taken already. Returns 0, or -1 with error.
static int guard_memory(const struct ht_plan *plan, const struct ht_built_form *built,
                        struct ht_error *error) {
    char peak[32], limit[32];
    uint64_t peak_bytes = resident_peak_bytes(plan, built) + plan->aging.bytes;
    uint64_t limit_bytes = plan->max_live_bytes ? plan->max_live_bytes : usual_limit_bytes(built);
    if (peak_bytes <= limit_bytes) return 0;
    errno = 0;
    return ht_error_system(error, plan->trace_path,
                           "its blocks%s need %s of memory at their peak, and the limit is %s%s; change it "
                           "by --max-live SIZE or none%s",
                           plan->aging.bytes ? ", with those of --age," : "",
                           ht_bytes(peak, (double)peak_bytes), ht_bytes(limit, (double)limit_bytes),
                           plan->max_live_bytes ? "" : " (three quarters of the available memory)",
                           plan->verify ? "" : ", or use --touch none, which needs no memory");
}

static int replay_all(struct ht_runner *r, struct ht_plan *plan, struct ht_choice *null_choice,
                      struct ht_judge *judge) {
    static struct loaded_trace trace;
    char missing[256] = "";
    struct ht_error error = {0};
    ht_machine_read(&r->machine);
    if (!ht_huge_pages_here(plan->thp, r->machine.thp, &r->huge_pages, error.message, sizeof error.message))
        return complain(&error);
    limit_loading(plan, plan->latest_ns);
    if (load_trace(plan, &trace, &error) || guard_memory(plan, &trace.built, &error) ||
        (trace.prelude.reader && guard_memory(plan, &trace.prelude.built, &error)) ||
        check_accesses(plan, &trace.built, &error) || check_moments(plan, &trace, &error))
        return complain(&error);
    limit_loading(plan, 0);
    ht_child_catch_signals();  // until here there is nothing to keep
    r->built = &trace.built;
    r->trace_sha256 = trace.sha256;
    r->program = &trace.program;
    r->settings = &trace.program.settings;
    caution(r);
    say_idle_ends(plan, &trace);
    r->own_bytes = trace.own_bytes;
    if (ht_child_channel_open(&r->channel, &trace.built, judge->pid, &error)) return complain(&error);
    r->channel.watch = (struct ht_child_watch){.timeout_ns = plan->timeout_ns};
    r->channel.wrap = plan->wrap;
    r->channel.thp_disable = r->huge_pages.disable;
    if (plan->wrap && !plan->quiet) {
        ht_print(stderr, "heaptape replay: times and memory include those of %s\n", plan->wrap);
    }
    size_t refused = describe_all(r, plan, null_choice);
    if (ht_child_interrupted()) return HT_EXIT_FAILED;
    if (refused && plan->baseline && find_choice(&plan->choices, plan->baseline) < 0) {
        ht_print(stderr, "heaptape replay: the baseline %s failed: nothing can be compared\n",
                 plan->baseline);
        return HT_EXIT_FAILED;
    }
    if (refused && (plan->choices.count == 0 || !null_choice->path[0])) return HT_EXIT_FAILED;
    r->baseline = baseline_of(plan, r->program);
    settle_refusals(plan, &trace.built, r->baseline);
    warn_of_settings(r);
    if (plan->results_path) {
        r->results_fd = ht_results_open(plan->results_path, &error);
        if (r->results_fd < 0) return complain(&error);
    }
    int refusal = HT_EXIT_DONE;
    r->warnings_told = 0;
    if (needs_judge(plan, judge) && !ht_judge_meet(judge, r, missing, sizeof missing, &refusal) && refusal)
        return refusal;
    refused += plan->verify ? ht_verify_all(r) : 0;
    say_waiting(plan, trace.program.end_ns);
    for (size_t i = 0; i < HT_CHOICES_MAX; i++) r->instructions[i] = NAN;
    r->of_choices = ht_choice_figures_new(plan->choices.count);
    r->null_rss_bytes = malloc((trace.built.form->samples + 1) * sizeof(uint64_t));
    if (!r->of_choices || !r->null_rss_bytes) return HT_EXIT_FAILED;
    int status = measure(r, &trace, judge, missing, refused);
    if (r->results_fd >= 0) close(r->results_fd);
    ht_form_free(&trace.built);
    ht_prelude_form_free(&trace.prelude);
    free(trace.own_bytes);
    ht_recorded_program_free(&trace.program);
    ht_trace_close(trace.reader);
    ht_runner_free(r);
    return status;
}

// ---- a group of processes ----

enum { UNFIT_BYTES = 64 };

// The trace as a whole has no events: what is asked of a single process's makes no sense of it. NULL: nothing such is.
static const char *unfit_for_group(const struct ht_replay_options *options, char room[UNFIT_BYTES]) {
    const struct ht_plan *plan = &options->plan;
    const char *option = ht_option_unfit_for_group(&options->given);
    if (option) snprintf(room, UNFIT_BYTES, "--%s", option);
    return option                                        ? room
           : plan->count_pass                            ? "--pass count"
           : plan->limit_pass                            ? "--pass limit"
           : plan->verify                                ? "--pass verify"
           : !plan->memory_pass                          ? "--pass time"
           : plan->one_thread                            ? "--threads 1"
           : plan->purge_ns                              ? "--purge TIME"
           : plan->paces.memory.real_ns_per_trace_ns > 0 ? "--pace real"
                                                         : NULL;
}

static int load_group(const struct ht_replay_options *options, struct ht_group_trace *trace,
                      struct ht_group_program *program, struct ht_recorded_program *recorded,
                      struct ht_error *error) {
    const struct ht_plan *plan = &options->plan;
    char room[UNFIT_BYTES];
    uint64_t memory_bytes =
        plan->decoded_memory_bytes ? plan->decoded_memory_bytes : ht_memory_available_bytes() / 2;
    const char *unfit = unfit_for_group(options, room);
    if (unfit) {
        errno = 0;
        ht_error_system(error, plan->trace_path, "%s is not for the trace of a group of processes", unfit);
        error->status = HT_EXIT_USAGE;
        return -1;
    }
    if (ht_group_program_load(trace, memory_bytes, plan->seed, program, error)) return -1;
    return ht_recorded_program_read(program->part[0].reader, recorded, error);
}

static int run_group(struct ht_runner *r, struct ht_plan *plan, struct ht_choice *null_choice,
                     const struct ht_group_program *program) {
    struct ht_error error = {0};
    ht_child_catch_signals();
    r->built = &program->part[0].built;
    if (ht_child_channel_open(&r->channel, ht_group_program_largest(program), 0, &error))
        return complain(&error);
    r->channel.watch = (struct ht_child_watch){.timeout_ns = plan->timeout_ns};
    r->channel.thp_disable = r->huge_pages.disable;
    size_t refused = describe_all(r, plan, null_choice);
    if (ht_child_interrupted() || plan->choices.count == 0 || !null_choice->path[0]) return HT_EXIT_FAILED;
    warn_of_settings(r);
    if (plan->results_path && (r->results_fd = ht_results_open(plan->results_path, &error)) < 0)
        return complain(&error);
    refused += ht_group_runs(r, program);
    if (r->results_fd >= 0) close(r->results_fd);
    return ht_stdout_status("heaptape replay", refused || r->results_failed ? HT_EXIT_FAILED : HT_EXIT_DONE);
}

static int replay_group(struct ht_runner *r, struct ht_replay_options *options, struct ht_choice *null_choice,
                        struct ht_group_trace *trace) {
    static char sha256[HT_DIGEST_TEXT_BYTES];
    struct ht_plan *plan = &options->plan;
    struct ht_group_program program = {.slots_fd = -1};
    struct ht_recorded_program recorded = {0};
    struct ht_error error = {0};
    ht_machine_read(&r->machine);
    bool loaded =
        ht_huge_pages_here(plan->thp, r->machine.thp, &r->huge_pages, error.message, sizeof error.message) &&
        !load_group(options, trace, &program, &recorded, &error);
    if (loaded && ht_file_sha256(plan->trace_path, sha256)) {
        ht_error_system(&error, plan->trace_path, "second reading");
        loaded = false;
    }
    r->program = &recorded;
    r->settings = &recorded.settings;
    r->trace_sha256 = sha256;
    int status = loaded ? run_group(r, plan, null_choice, &program) : complain(&error);
    if (loaded) ht_runner_free(r);
    ht_group_program_free(&program);
    ht_recorded_program_free(&recorded);
    return status;
}

// Returns the exit status, or -1 where the trace is of a single process.
static int replay_if_group(struct ht_runner *r, struct ht_replay_options *options,
                           struct ht_choice *null_choice) {
    struct ht_error error = {0};
    struct ht_group_trace *trace = ht_group_open(options->plan.trace_path, &error);
    // What is wrong with a single trace, its own reader says.
    if (!trace) return error.status ? complain(&error) : -1;
    int status = replay_group(r, options, null_choice, trace);
    ht_group_close(trace);
    return status;
}

// Occupies standard input, output and error where they are closed: what is opened first would get their
// numbers, and what is printed would go into it. Printing there still fails, and is reported as such.
static void occupy_standard_streams(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
        // For the other direction, so that using it fails.
        if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) return;
    }
}

int ht_verb_replay(int argc, char **argv) {
    static struct ht_replay_options options;
    static struct ht_choices null_choices;
    struct ht_error error = {0};
    occupy_standard_streams();
    signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit fails instead, and that is reported
    ht_replay_options_parse(argc, argv, &options);
    options.plan.begun_ns = ht_now_ns(CLOCK_MONOTONIC);
    struct ht_judge judge;
    if (ht_judge_attach(&judge, &error)) return complain(&error);
    options.plan.json |= judge.attached;  // no text
    static struct ht_runner r;            // too large for a small stack
    static const struct ht_recorded_program none;
    r = (struct ht_runner){
        .plan = &options.plan, .program = &none, .results_fd = -1, .random = {options.plan.seed}};
    mallopt(M_ARENA_MAX, 1);  // one for the decoder would take 64 MiB of address space, which may be limited
    if (options.list) return ht_allocator_list(&r, &options);
    int status = check_baseline(&options.plan);
    if (!status) status = check_conditions(&options.plan);
    if (!status) status = check_written(&options.plan);
    if (status) return status;
    if (ht_choices_add_name(&null_choices, "null", &error)) {
        error.status = HT_EXIT_FAILED;
        return complain(&error);
    }
    r.null_choice = &null_choices.list[0];
    status = replay_if_group(&r, &options, &null_choices.list[0]);
    if (status >= 0) {
        ht_judge_end(&judge);
        ht_child_end_as_interrupted();
        return status;
    }
    // While the trace is read: it takes a while to start.
    if (!judge.attached && needs_judge(&options.plan, &judge)) ht_judge_start(&judge);
    status = replay_all(&r, &options.plan, &null_choices.list[0], &judge);
    ht_judge_end(&judge);
    ht_child_end_as_interrupted();
    return status;
}
