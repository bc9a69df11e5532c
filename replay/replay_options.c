// SPDX-License-Identifier: Apache-2.0
#include "replay_options.h"

#include <argp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "error.h"
#include "form_builder.h"
#include "option_values.h"
#include "output_file.h"
#include "print.h"
#include "processor_number.h"
#include "replay_values.h"
#include "verbs.h"

// clang-format off
enum key {
    KEY_ALLOC = 256, KEY_ROUNDS, KEY_SEED, KEY_PASS, KEY_THREADS, KEY_TOUCH, KEY_PACE, KEY_BASELINE,
    KEY_WINDOW, KEY_JSON, KEY_LIST, KEY_TOUCH_FREE, KEY_POLLUTE, KEY_DECODED_MEMORY, KEY_SCALE,
    KEY_BUDGET, KEY_FAIL_IF, KEY_INSTRUCTIONS, KEY_REPEATS, KEY_VERIFY, KEY_MAX_LIVE, KEY_TIMEOUT, KEY_WRAP,
    KEY_POINTS, KEY_THP, KEY_SPLICE, KEY_SNAPSHOTS, KEY_AT, KEY_LAYOUT, KEY_PURGE,
    KEY_CPUS, KEY_MEMORY_MAX, KEY_AGE, KEY_EXTEND, KEY_BASELINE_FILE,
    KEY_WRITE_BASELINE, KEY_PROFILE
};

enum { ROUNDS_MAX = 1000000, POINTS_MAX = 10000000, AGE_MULTIPLE_MAX = 1000 };
// As long as one waits for an answer; enough to resolve a few per cent on traces of up to some million calls.
static const uint64_t budget_default_ns = 60000000000;
// With what is still computed and printed then, all ends within 1.2 times the budget and 10 s.
static const uint64_t late_ns = 5000000000;

static const struct argp_option table[] = {
    {"alloc", KEY_ALLOC, "ALLOCATOR,...", 0,
     "Replay under these allocators: names that --list shows, such as mimalloc, or mimalloc@3.6.0 (heaptape allocators add), all (those built in), the path of a shared library, LABEL=PATH, LABEL=NAME, NAME@LOADER "
     "(NAME under the C library of that ld.so); null, the replay's own cost, always runs. Knobs may follow any name but null, as in "
     "NAME:KNOB=VALUE,KNOB=VALUE, by their own names or the environment's; the recorded program's allocator has the settings that it "
     "had there, NAME:default has none (default: all)", 0},
    {"output", 'o', "FILE", 0, "Append one line of JSON for each run to FILE", 0},
    {"rounds", KEY_ROUNDS, "auto|N", 0,
     "Replay each allocator N times, in random order within each round; auto: until every verdict is clear or the "
     "budget is spent (default: auto)", 0},
    {"budget", KEY_BUDGET, "TIME", 0,
     "Begin no round that would end later than TIME from now, such as 90s, 5m, 1h; where not even the first would, say what "
     "it takes and end (default: 1m with --rounds auto, else none)", 0},
    {"repeats", KEY_REPEATS, "auto|N", 0,
     "Replay the trace N times, one after the other, in each process of the time pass, and report their mean: what "
     "it costs once the heap is warm; auto: only as often as a run takes to last 0.1 ms (default: auto)", 1},
    {"seed", KEY_SEED, "N", 0, "Repeat the schedule of an earlier run (default: random, and printed)", 1},
    {"layout", KEY_LAYOUT, "drawn|fixed", 0,
     "drawn: each run has other addresses, also of its code, so that intervals include their effect; fixed: all runs have the "
     "same, as the memory pass of the first round and count passes always have (default: drawn)", 1},
    {"pass", KEY_PASS, "time|memory|both|verify|limit|count", 0,
     "Measure time, memory or both; verify: check the allocator only; limit: only what --memory-max asks; count: time nothing, but run each allocator once under "
     "simulation, and print exact counts of instructions, misses and page faults (default: both)", 0},
    {"splice", KEY_SPLICE, "FILE", 0,
     "Simulate the program's accesses in FILE too, at the addresses that each allocator gives; with --pass count, and a "
     "trace of the same recording (heaptape record --accesses) (default: none)", 3},
    {"snapshots", KEY_SNAPSHOTS, "FOLDER", 0,
     "Measure nothing, but write FOLDER/NAME.snapshots for each allocator: where each live block lies and which pages are "
     "resident, and along the trace what RSS consists of and what calls cost (default: none)", 4},
    {"at", KEY_AT, "peak,end,jumps,TIME,...", 0,
     "Take snapshots at the peak of RSS, at the end, after the three largest rises of RSS less live bytes, and at these "
     "times from the start, such as 90s (default: peak,end,jumps)", 4},
    {"verify", KEY_VERIFY, NULL, 0,
     "First check what each allocator does: contents, overlap, alignment, zeros, usable sizes; with calls of its own, too", 4},
    {"threads", KEY_THREADS, "trace|1", 0,
     "trace: a thread for each recorded one; 1: the whole trace, in order, on one thread (default: trace)", 2},
    {"scale", KEY_SCALE, "N", 0,
     "Replay N copies of the trace side by side in one process, as if the load grew; with --threads 1 "
     "interleaved, event by event (default: 1)", 2},
    {"cpus", KEY_CPUS, "N", 0,
     "Show allocators a machine with N processors, at most 1024: whatever they ask for their number or the current one. Replay threads "
     "run on N processors, or on those that there are (default: the machine as it is)", 2},
    {"memory-max", KEY_MEMORY_MAX, "SIZE|search", 0,
     "First replay under a limit of the process's memory, such as 512M: which allocators live, and where do the others run out of "
     "memory; search: the lowest limit that each lives under (default: none)", 4},
    {"extend", KEY_EXTEND, "TIME[,from=TIME][,until=TIME]", 0,
     "Continue the trace up to TIME since its start, such as 24h, by repeating the stretch that from and until give, or its "
     "longest steady one, as heaptape extend does, but without writing it (default: as recorded)", 2},
    {"touch", KEY_TOUCH, "recorded|none|first|pages|all", 0,
     "Write to newly allocated memory. recorded: as much as the program did; first: the first byte; pages: a byte of each "
     "page (default: recorded)", 2},
    {"touch-free", KEY_TOUCH_FREE, "recorded|none|read|write", 0,
     "Access a block just before it is freed. recorded: read the first byte of as many blocks as the program "
     "had recently used; read, write: each cache line, of large blocks each page (default: recorded; none with --touch none)", 2},
    {"pollute", KEY_POLLUTE, "SIZE|trace|all|data=SIZE,code=SIZE,tlb=PAGES", 0,
     "Time calls with cold caches: before each timed call access SIZE of data (in KiB without a unit), execute SIZE of "
     "code, and touch PAGES pages; trace: as much as the program does between two calls; all: twice the second-level "
     "cache, the instruction cache and the TLBs. The total is computed from the timed calls alone "
     "(default: 0, caches as the replay leaves them)", 2},
    {"pace", KEY_PACE, "none|virtual|real|xN|time=PACE,memory=PACE", 0,
     "none: do not wait; virtual: the same, but the allocator's clock shows the trace's time; real: every call waits "
     "for its recorded time; xN: N times as fast, and the allocator's clock shows the trace's time; or a pace for each "
     "pass (default: virtual)", 2},
    {"age", KEY_AGE, "SHARE[,TIMES]", 0,
     "Begin with a used heap: allocate blocks of the sizes that the trace has live, TIMES as many as it has live at most "
     "(default: 1/(1-SHARE), which leaves room for them all), and free all but SHARE of them in random order. The bytes of those "
     "that stay are subtracted from RSS (default: a fresh heap)", 2},
    {"thp", KEY_THP, "never|madvise|always", 0,
     "Set the mode of transparent huge pages for measured runs, as far as the kernel lets a process choose (default: the system's)", 2},
    {"purge", KEY_PURGE, "TIME|fork", 0,
     "In the memory pass make the allocator return free memory every TIME of the trace, such as 60s, as a program does that "
     "calls malloc_trim; of a group's trace, before each fork; -v and --list -v name the call (default: never)", 2},
    {"window-ns", KEY_WINDOW, "NS", 0,
     "Let a thread run at most NS ahead of the slowest, in trace time; the minimum is 100000 (default: 10000000 in the time pass, "
     "1000000 in the memory pass; with --extend, or of a trace that extend made, if it is longer, a 20000th of the time, but at most 100000000 and the median life of threads that end)",
     2},
    {"max-live", KEY_MAX_LIVE, "none|SIZE", 0,
     "Refuse a trace whose live blocks take more memory than SIZE, such as 8G; none: try it "
     "(default: three quarters of the memory that machine, control group and RLIMIT_AS leave)", 1},
    {"timeout", KEY_TIMEOUT, "none|TIME", 0,
     "Kill a run that takes longer than TIME, such as 90s or 5m, which then has failed (default: none, but a run that "
     "takes no CPU time for a minute is killed)", 1},
    {"wrap", KEY_WRAP, "COMMAND", 0,
     "Run each measured process under COMMAND, such as 'perf record -o $HEAPTAPE_ALLOCATOR.data'; the figures then include "
     "it", 1},
    {"decoded-memory", KEY_DECODED_MEMORY, "SIZE", 0,
     "Use at most SIZE of memory for the decoded trace, in MiB without a unit; a larger one is decoded during each replay "
     "(default: a quarter of the memory that machine, control group and RLIMIT_AS leave; with --extend 64 MiB)", 1},
    {"points", KEY_POINTS, "N", 0,
     "Put N points into the curves of memory in the results; above 10000, RSS is also read that often "
     "(default: 2000)", 1},
    {"baseline", KEY_BASELINE, "ALLOCATOR", 0,
     "Compare with this allocator (default: of those that take part the one that the program ran under, else glibc, else the "
     "first)", 0},
    {"fail-if", KEY_FAIL_IF, "CONDITION", 0,
     "Exit with status 4 if a ratio to the baseline clearly meets CONDITION, such as 'time>1.05', with 5 if that stays "
     "undecided. Figures: time, rss_peak, rss_mean, rss_end, process_rss_peak; with --instructions or --pass count "
     "instructions, instructions[FUNCTION], instructions[FUNCTION:SIZE], instructions[:SIZE] and mapping_calls; with --pass "
     "count faults, l1d_misses, l2_misses, l1i_misses, dtlb_misses, stlb_misses and branch_misses; > >= < <=. May be repeated", 0},
    {"baseline-file", KEY_BASELINE_FILE, "FILE", 0,
     "Compare with the figures in FILE, which --write-baseline wrote, instead of another allocator: instructions, other "
     "counts and memory, but no times. Another trace, other settings and another kind of machine are refused (default: "
     "none)", 1},
    {"write-baseline", KEY_WRITE_BASELINE, "FILE", 0,
     "Write what was counted and the memory of each round to FILE, for --baseline-file (default: none)", 1},
    {"instructions", KEY_INSTRUCTIONS, NULL, 0,
     "Also count the allocator's instructions exactly, in one more run of each under simulation; with --pass count: count "
     "only these, up to ten times faster", 3},
    {"profile", KEY_PROFILE, NULL, 0,
     "With the instructions (--instructions, which this implies) also count where in the allocator they are: functions, and a "
     "flame graph in the report. Exact samples of the stack, one in about 1000 instructions", 3},
    {"json", KEY_JSON, NULL, 0, "Print the comparison as JSON", 0},
    {"list", KEY_LIST, NULL, 0,
     "Print the allocators that there are, with version and library, and exit; with -v or --json all facts about "
     "each, built or not; with TRACE as they are replayed with it, with the settings of the recorded program", 0},
    {"quiet", 'q', NULL, 0, "Print only results, and what went wrong", 0},
    {"verbose", 'v', NULL, 0,
     "Also print times by function, latencies, counters, system calls, the parts of RSS, slop and outliers, and more "
     "findings of --verify", 0},
    {0},
};

static error_t parse_one(int key, char *text, struct argp_state *state);

static const struct argp parser = {
    .options = table,
    .parser = parse_one,
    .args_doc = "TRACE\n--list [TRACE]",
    .doc = "Replay a recorded trace against allocators, each in a process of its own, and compare them in time and memory."
           "\vThe comparison goes to standard output, all else to standard error. -h prints the options most used on one screen."};

const struct ht_page ht_page_replay = {
    .name = "replay",
    .groups = (const char *const[]){"Most used", "Runs and their number", "What is replayed", "Exact counts",
                                    "Instead of times and memory, or before them", NULL},
    .argp = &parser,
    .examples = (const struct ht_fact[]){
        {"heaptape replay --alloc all app.bin -o results.jsonl", "Until every verdict is clear, for at most a minute"},
        {"heaptape replay --alloc glibc,glibc:MALLOC_ARENA_MAX=2,jemalloc app.bin", "Some allocators, one also with a knob"},
        {"heaptape replay --alloc old=/a.so,new=/b.so --fail-if 'time>1.05' app.bin", "For CI: is the new one slower?"},
        {"heaptape replay --alloc /path/libfoo.so --verify app.bin", "Does the allocator make a mistake?"},
        {"heaptape replay --alloc all --scale 4 app.bin", "What if the load grew?"},
        {"heaptape replay --memory-max search --pass limit app.bin", "How small can its container be?"},
        {"heaptape replay --extend 24h --pass memory app.bin", "What is RSS after a day?"},
        {"heaptape replay --list -v", "Every allocator's knobs, statistics, faults"},
        {0}},
    .files = (const struct ht_fact[]){{"replay-NAME", "The program that measures allocator NAME: next to replay, or in libexec/heaptape"},
                                      {0}},
    .environment = (const struct ht_fact[]){
        {"LD_LIBRARY_PATH", "Where an allocator under another C library (NAME@LOADER) finds its libraries"},
        {"TMPDIR", "The folder for temporary files of --instructions"},
        {"HEAPTAPE_PYTHON", "The interpreter that compares the allocators; it needs numpy. Without it replay prints each allocator's own "
         "figures, but no ratio and no verdict (default: .venv beside the build, else python3)"},
        {"COLUMNS", "The width of tables (default: the terminal's)"},
        {0}},
    .statuses = (const struct ht_fact[]){{"0", "Done"},
                                         {"1", "A run failed"},
                                         {"2", "Wrong usage"},
                                         {"3", "The trace is damaged, cut short, or of another format"},
                                         {"4", "A condition of --fail-if holds"},
                                         {"5", "A condition stayed undecided, and none holds; or the trace cannot be extended (--extend)"},
                                         {0}},
    .see_also = "allocators compare report tune validate"};
// clang-format on

static uint64_t number(struct argp_state *state, const char *text, const char *option, uint64_t lowest,
                       uint64_t highest) {
    uint64_t value;
    if (!ht_parse_whole(text, lowest, highest, &value)) {
        argp_error(state, "--%s %s: expected a whole number from %llu to %llu", option, text,
                   (unsigned long long)lowest, (unsigned long long)highest);
    }
    return value;
}

static uint64_t budget_value(struct argp_state *state, const char *text) {
    uint64_t ns = 0;
    if (!ht_parse_duration(text, &ns) || ns == 0) {
        argp_error(state, "--budget %s: expected a time such as 90s, 5m or 1h", text);
    }
    return ns;
}

static void add_condition(struct argp_state *state, const char *text, struct ht_conditions *conditions) {
    const char *problem = ht_fail_if_add(conditions, text);
    if (problem) argp_error(state, "--fail-if %s: %s", text, problem);
}

static uint64_t size_value(struct argp_state *state, const char *text, const char *option,
                           uint64_t plain_bytes, uint64_t lowest) {
    uint64_t bytes = 0;
    if (!ht_parse_bytes(text, plain_bytes, &bytes) || bytes < lowest) {
        argp_error(state, "--%s %s: expected a size such as 512M or 8G", option, text);
    }
    return bytes;
}

static uint64_t timeout_value(struct argp_state *state, const char *text) {
    uint64_t ns = 0;
    if (!strcmp(text, "none")) return 0;
    if (!ht_parse_duration(text, &ns) || ns == 0) {
        argp_error(state, "--timeout %s: expected a time such as 90s or 5m, or none", text);
    }
    return ns;
}

enum pass_word { PASS_TIME, PASS_MEMORY, PASS_BOTH, PASS_VERIFY, PASS_LIMIT, PASS_COUNT };

static void set_memory_max(struct argp_state *state, const char *text, struct ht_plan *plan) {
    plan->limit_pass = true;
    plan->memory_max_search = !strcmp(text, "search");
    if (plan->memory_max_search) return;
    if (!ht_parse_bytes(text, 1, &plan->memory_max_bytes) || plan->memory_max_bytes < 4096)
        argp_error(state, "--memory-max %s: expected a size such as 512M or 2G, of 4K at least, or search",
                   text);
}

static void check_limit(struct argp_state *state, const struct ht_replay_options *options) {
    const struct ht_plan *plan = &options->plan;
    if (options->limit_alone && !plan->limit_pass)
        argp_error(state, "--pass limit: expected --memory-max with it");
    if (options->limit_alone && plan->conditions.count)
        argp_error(state, "--fail-if: expected a pass that measures time or memory");
    if (!plan->limit_pass) return;
    if (plan->wrap)
        argp_error(state, "--wrap: expected no --memory-max: the limit is for the allocator alone");
    if (plan->count_pass || plan->snapshots_folder)
        argp_error(state, "--memory-max: expected neither --pass count nor --snapshots");
}

static void set_age(struct argp_state *state, const char *text, struct ht_plan *plan) {
    char *end;
    plan->age_occupancy = strtod(text, &end);
    plan->age_multiple = 1 / (1 - plan->age_occupancy);
    if (*end == ',' && end > text) plan->age_multiple = strtod(end + 1, &end);
    // Not by its opposite, which NAN would pass.
    bool share = plan->age_occupancy > 0 && plan->age_occupancy < 1;
    if (*end || end == text || !share || !(plan->age_multiple > 0 && plan->age_multiple <= AGE_MULTIPLE_MAX))
        argp_error(
            state,
            "--age %s: expected a share between 0 and 1 such as 0.9, and after a comma how many times the "
            "blocks that the trace has live, at most %d",
            text, AGE_MULTIPLE_MAX);
}

static void check_age(struct argp_state *state, const struct ht_plan *plan) {
    if (plan->age_occupancy == 0) return;
    if (plan->count_pass || plan->snapshots_folder || plan->limit_pass || plan->instructions || plan->verify)
        argp_error(
            state,
            "--age: expected neither --pass count, --instructions, --snapshots, --memory-max nor --verify");
}

static void set_pass(struct ht_replay_options *options, int pass) {
    options->plan.time_pass = pass == PASS_TIME || pass == PASS_BOTH;
    options->plan.memory_pass = pass == PASS_MEMORY || pass == PASS_BOTH;
    options->plan.verify = options->plan.verify || pass == PASS_VERIFY;
    options->plan.count_pass = pass == PASS_COUNT;
    options->limit_alone = pass == PASS_LIMIT;
}

static int one_of(struct argp_state *state, const char *text, const char *option, const char *const *names,
                  size_t count) {
    char all[256] = "", words[HT_MEANT_BYTES];
    struct ht_meant meant = {.word = text};
    for (size_t i = 0; i < count; i++) {
        if (!strcmp(text, names[i])) return (int)i;
        ht_meant_try(&meant, names[i]);
        strcat(strcat(all, i ? ", " : ""), names[i]);
    }
    argp_error(state, "--%s %s: expected one of %s%s", option, text, all, ht_meant_words(&meant, words));
    return 0;
}

static void choose(struct argp_state *state, const char *spec, struct ht_choices *choices) {
    struct ht_error error = {0};
    if (ht_choices_add(choices, spec, &error) == 0) return;
    argp_failure(state, error.status, 0, "%s", error.message);
}

static void check_count(struct argp_state *state, const struct ht_replay_options *options) {
    const struct ht_plan *plan = &options->plan;
    bool touches =
        ht_option_given(&options->given, "touch") || ht_option_given(&options->given, "touch-free");
    if (plan->splice_path && !plan->count_pass) argp_error(state, "--splice: expected --pass count with it");
    if (plan->splice_path && plan->extend_to_ns)
        argp_error(state, "--splice: the accesses are those of the recording: expected no --extend");
    if (plan->splice_path && touches)
        argp_error(state,
                   "--splice: the program's own accesses touch memory: expected no --touch, no --touch-free");
    if (plan->splice_path && plan->instructions)
        argp_error(state, "--splice: counts misses: expected no --instructions");
    if (plan->profile && plan->count_pass && !plan->instructions)
        argp_error(state,
                   "--profile: of instructions, not of misses: expected --instructions with --pass count");
    if (!plan->count_pass) return;
    if (plan->baseline && !plan->splice_path && !plan->conditions.count)
        argp_error(state, "--baseline: expected --splice or --fail-if with --pass count");
    if (plan->wrap) argp_error(state, "--wrap: the simulation of --pass count takes its place");
}

static void check_snapshots(struct argp_state *state, const struct ht_replay_options *options) {
    const struct ht_plan *plan = &options->plan;
    if (ht_option_given(&options->given, "at") && !plan->snapshots_folder)
        argp_error(state, "--at: expected --snapshots with it");
    if (!plan->snapshots_folder) return;
    if (ht_option_given(&options->given, "pass"))
        argp_error(state, "--snapshots: expected no --pass; --verify checks the allocators first");
    if (plan->results_path) argp_error(state, "-o: --snapshots measures no runs to keep");
    if (plan->conditions.count) argp_error(state, "--fail-if: expected a pass that measures time or memory");
    if (plan->scale > 1) argp_error(state, "--snapshots: expected one copy of the trace, without --scale");
    if (plan->json) argp_error(state, "--json: --snapshots prints the names of its files alone");
}

static void check_baseline_file(struct argp_state *state, const struct ht_plan *plan) {
    const char *option = plan->baseline_file ? "--baseline-file" : "--write-baseline";
    if (!plan->baseline_file && !plan->write_baseline) return;
    if (plan->baseline_file && plan->baseline)
        argp_error(state, "--baseline-file: takes the place of --baseline: expected one of them");
    if (!plan->memory_pass && !plan->count_pass && !plan->instructions)
        argp_error(state,
                   "%s: expected a pass with figures that other runs can be compared with: memory, count or "
                   "--instructions",
                   option);
    if (plan->snapshots_folder || plan->wrap)
        argp_error(state, "%s: expected neither --snapshots nor --wrap", option);
}

static void check_written_baseline(struct argp_state *state, const struct ht_plan *plan) {
    const char *path = plan->write_baseline, *const others[] = {plan->trace_path, plan->results_path,
                                                                plan->splice_path};
    for (size_t i = 0; path && i < sizeof others / sizeof *others; i++)
        if (others[i] && (!strcmp(path, others[i]) || output_file_replaces(path, others[i])))
            argp_error(state, "--write-baseline: %s would be overwritten", others[i]);
}

// TIME, and from and until in any order.
static bool parse_extend(const char *text, struct ht_plan *plan) {
    plan->extend_from_ns = plan->extend_until_ns = UINT64_MAX;
    for (const char *word = text; word; word = ht_next_word(word, ',')) {
        uint64_t *to = word == text ? &plan->extend_to_ns : NULL;
        char time[32];
        size_t skipped = 0;
        if (!to && !strncmp(word, "from=", skipped = 5)) to = &plan->extend_from_ns;
        else if (!to && !strncmp(word, "until=", skipped = 6)) to = &plan->extend_until_ns;
        else if (!to) return false;
        else skipped = 0;
        size_t length = strcspn(word + skipped, ",");
        if (length >= sizeof time) return false;
        memcpy(time, word + skipped, length);
        time[length] = 0;
        if (!ht_parse_duration(time, to)) return false;
    }
    return plan->extend_to_ns &&
           (plan->extend_from_ns == UINT64_MAX || plan->extend_from_ns < plan->extend_until_ns);
}

// How often what runs, and what becomes of the figures. ARGP_ERR_UNKNOWN: another option.
static error_t experiment_option(int key, char *text, struct argp_state *state) {
    static const char *const passes[] = {"time", "memory", "both", "verify", "limit", "count"};
    static const char *const layouts[] = {"drawn", "fixed"};
    struct ht_replay_options *options = state->input;
    switch (key) {
    case KEY_ALLOC: choose(state, text, &options->plan.choices); break;
    case 'o': options->plan.results_path = text; break;
    case KEY_ROUNDS:
        options->plan.rounds =
            strcmp(text, "auto") ? (uint32_t)number(state, text, "rounds", 1, ROUNDS_MAX) : 0;
        break;
    case KEY_BUDGET:
        options->plan.budget_ns = budget_value(state, text);
        options->plan.budget_given = true;
        break;
    case KEY_REPEATS:
        options->plan.repeats =
            strcmp(text, "auto") ? (uint32_t)number(state, text, "repeats", 1, HT_REPEATS_MAX) : 0;
        break;
    case KEY_INSTRUCTIONS: options->plan.instructions = true; break;
    case KEY_PROFILE: options->plan.profile = true; break;
    case KEY_SEED: options->plan.seed = number(state, text, "seed", 0, INT64_MAX); break;
    case KEY_LAYOUT: options->plan.layout_fixed = one_of(state, text, "layout", layouts, 2); break;
    case KEY_PASS:
        set_pass(options, one_of(state, text, "pass", passes, sizeof passes / sizeof *passes));
        break;
    case KEY_VERIFY: options->plan.verify = true; break;
    case KEY_POINTS: options->plan.points = (uint32_t)number(state, text, "points", 2, POINTS_MAX); break;
    case KEY_SPLICE: options->plan.splice_path = text; break;
    case KEY_SNAPSHOTS: options->plan.snapshots_folder = text; break;
    case KEY_AT:
        if (ht_snapshot_times_parse(text, &options->plan.snapshot_times)) break;
        argp_error(state, "--at %s: expected peak, end, jumps or times such as 90s, at most %d", text,
                   HT_SNAPSHOT_TIMES_MAX);
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

// What of the trace is replayed, how fast, and what is touched. ARGP_ERR_UNKNOWN: another option.
static error_t load_option(int key, char *text, struct argp_state *state) {
    static const char *const threads[] = {"trace", "1"};
    struct ht_replay_options *options = state->input;
    const char *problem;
    switch (key) {
    case KEY_THREADS: options->plan.one_thread = one_of(state, text, "threads", threads, 2) == 1; break;
    case KEY_SCALE: options->plan.scale = (uint32_t)number(state, text, "scale", 1, HT_SCALE_MAX); break;
    case KEY_EXTEND:
        if (parse_extend(text, &options->plan)) break;
        argp_error(state,
                   "--extend %s: expected TIME[,from=TIME,until=TIME], such as 24h,from=60s,until=180s",
                   text);
        break;
    case KEY_AGE: set_age(state, text, &options->plan); break;
    case KEY_PURGE:
        options->plan.purge_at_fork = !strcmp(text, "fork");
        if (options->plan.purge_at_fork) break;
        if (ht_parse_duration(text, &options->plan.purge_ns) && options->plan.purge_ns) break;
        argp_error(state, "--purge %s: expected fork, or a time such as 60s or 500ms", text);
        break;
    case KEY_TOUCH:
        options->plan.touch = (enum ht_touch)one_of(state, text, "touch", ht_touch_names, HT_TOUCHES);
        break;
    case KEY_TOUCH_FREE:
        options->plan.touch_free =
            (enum ht_touch_free)one_of(state, text, "touch-free", ht_touch_free_names, HT_TOUCH_FREES);
        break;
    case KEY_POLLUTE:
        problem = ht_pollution_parse(text, &options->plan.pollution, &options->plan.pollution_by_trace);
        if (problem) argp_error(state, "--pollute %s: %s", text, problem);
        break;
    case KEY_PACE:
        options->given.pace = text;
        if (ht_paces_parse(text, &options->plan.paces)) break;
        argp_error(
            state,
            "--pace %s: expected none, virtual, real or x and how many times as fast, at most a million "
            "times, or time=PACE,memory=PACE",
            text);
        break;
    case KEY_WINDOW: options->plan.window_ns = number(state, text, "window-ns", 100000, INT64_MAX); break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

// The machine that the allocators get, and its limits. ARGP_ERR_UNKNOWN: another option.
static error_t machine_option(int key, char *text, struct argp_state *state) {
    struct ht_replay_options *options = state->input;
    switch (key) {
    case KEY_MEMORY_MAX: set_memory_max(state, text, &options->plan); break;
    case KEY_CPUS:
        options->plan.processors = (uint32_t)number(state, text, "cpus", 1, HT_PROCESSORS_MAX);
        break;
    case KEY_THP:
        options->plan.thp = (enum ht_thp)(
            HT_THP_NEVER + one_of(state, text, "thp", ht_thp_names + HT_THP_NEVER, HT_THPS - HT_THP_NEVER));
        break;
    case KEY_MAX_LIVE:
        options->plan.max_live_bytes =
            strcmp(text, "none") ? size_value(state, text, "max-live", 1, 1) : UINT64_MAX;
        break;
    case KEY_DECODED_MEMORY:
        options->plan.decoded_memory_bytes = size_value(state, text, "decoded-memory", 1 << 20, 1 << 20);
        break;
    case KEY_TIMEOUT: options->plan.timeout_ns = timeout_value(state, text); break;
    case KEY_WRAP:
        if (!text[strspn(text, " \t")] || strlen(text) > 4096) {
            argp_error(state, "--wrap: expected a command of at most 4096 bytes");
        }
        options->plan.wrap = text;
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

// What the figures are held against, and how they are printed. ARGP_ERR_UNKNOWN: another option.
static error_t comparison_option(int key, char *text, struct argp_state *state) {
    struct ht_replay_options *options = state->input;
    switch (key) {
    case KEY_BASELINE: options->plan.baseline = text; break;
    case KEY_BASELINE_FILE: options->plan.baseline_file = text; break;
    case KEY_WRITE_BASELINE: options->plan.write_baseline = text; break;
    case KEY_FAIL_IF: add_condition(state, text, &options->plan.conditions); break;
    case KEY_JSON: options->plan.json = true; break;
    case KEY_LIST: options->list = true; break;
    case 'q': options->plan.quiet = true; break;
    case 'v': options->plan.verbose = true; break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static void check_all(struct argp_state *state, const struct ht_replay_options *options) {
    if (!options->plan.trace_path && !options->list) {
        argp_error(state, "expected a trace, as heaptape convert writes it");
    }
    check_count(state, options);
    check_snapshots(state, options);
    check_limit(state, options);
    check_age(state, &options->plan);
    check_baseline_file(state, &options->plan);
    check_written_baseline(state, &options->plan);
    if (options->plan.processors && options->plan.wrap)
        argp_error(state, "--wrap: expected no --cpus: the command would see these processors, too");
    char problem[256];
    if (ht_option_without_pass(&options->given, &options->plan, problem, sizeof problem))
        argp_error(state, "%s", problem);
}

// One round, or one repeat, is what every pass runs that has no others.
static void note(struct ht_replay_options *options, int key, const char *text) {
    if ((key == KEY_ROUNDS || key == KEY_REPEATS) && !strcmp(text, "1")) return;
    for (const struct argp_option *option = table; option->name; option++)
        if (option->key == key) ht_option_note(&options->given, option->name);
}

static error_t parse_one(int key, char *text, struct argp_state *state) {
    static error_t (*const groups[])(int, char *, struct argp_state *) = {experiment_option, load_option,
                                                                          machine_option, comparison_option};
    struct ht_replay_options *options = state->input;
    error_t taken = ARGP_ERR_UNKNOWN;
    note(options, key, text);
    for (size_t i = 0; taken == ARGP_ERR_UNKNOWN && i < sizeof groups / sizeof *groups; i++)
        taken = groups[i](key, text, state);
    if (key == ARGP_KEY_END) check_all(state, options);
    if (key != ARGP_KEY_ARG) return key == ARGP_KEY_END ? 0 : taken;
    if (options->plan.trace_path) argp_error(state, "%s: expected one trace", text);
    options->plan.trace_path = text;
    return 0;
}

static uint64_t random_seed(void) {
    uint32_t seed;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed) seed = (uint32_t)time(NULL);
    return seed % 1000000;  // short enough to be typed again
}

void ht_replay_options_parse(int argc, char **argv, struct ht_replay_options *options) {
    *options =
        (struct ht_replay_options){.plan = {.seed = random_seed(),
                                            .points = 2000,
                                            .scale = 1,
                                            .time_pass = true,
                                            .memory_pass = true,
                                            .touch = HT_TOUCH_RECORDED,
                                            .touch_free = HT_TOUCH_FREES,
                                            .paces = HT_PACES_VIRTUAL,
                                            .snapshot_times = {.peak = true, .end = true, .jumps = true}}};
    argp_err_exit_status = HT_EXIT_USAGE;
    ht_page_parse(&ht_page_replay, argc, argv, 0, options);
    struct ht_plan *plan = &options->plan;
    plan->instructions |= plan->profile;
    if (plan->snapshots_folder) plan->time_pass = plan->memory_pass = false;
    // What is simulated repeats, if the form of the trace does; and so do snapshots.
    if ((plan->count_pass || plan->snapshots_folder) && !ht_option_given(&options->given, "seed"))
        plan->seed = 1;
    if (!plan->rounds && !plan->budget_ns) plan->budget_ns = budget_default_ns;
    if (plan->budget_ns) plan->latest_ns = plan->budget_ns + plan->budget_ns / 5 + late_ns;
    if (plan->touch_free == HT_TOUCH_FREES)
        plan->touch_free = plan->touch == HT_TOUCH_NONE ? HT_TOUCH_FREE_NONE : HT_TOUCH_FREE_RECORDED;
    bool chosen = plan->choices.count > 0 || plan->choices.null_only;
    struct ht_error error = {0};
    if (!chosen && ht_choices_add(&plan->choices, "all", &error) && !options->list) {
        ht_print(stderr, "heaptape replay: %s\n", error.message);
        exit(error.status);
    }
}
