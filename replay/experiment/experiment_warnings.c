// SPDX-License-Identifier: Apache-2.0
#include "experiment_warnings.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "talk.h"

enum { FEW_CALLS = 10000, SUGGESTED_ROUNDS = 12 };
static const double busy_cores_max = 0.2, stolen_share_max = 0.02, repaired_share_max = 0.001;
static const double dropped_share_max = 0.01, control_error_max = 0.01, short_run_ns = 500e3;
static const double zeroed_share_max = 0.05, unmeasured_share_max = 0.05;

static void warn_of_machine(const struct ht_experiment *x, const struct ht_activity *before,
                            struct ht_warnings *warnings) {
    struct ht_activity now;
    char text[HT_NUMBER_OF_BYTES];
    ht_activity_read(&now);
    double wall_s = now.wall_s - before->wall_s;
    double others = (now.busy_s - before->busy_s - (now.own_s - before->own_s)) / wall_s;
    double stolen = (now.stolen_s - before->stolen_s) / wall_s / x->machine.cores;
    double throttled_s = now.throttled_s - before->throttled_s;
    double swapped_bytes = now.swapped_bytes - before->swapped_bytes;
    if (others > busy_cores_max) {
        ht_warn(warnings, HT_WARNING_BUSY, "end them, or use a larger --budget for narrower intervals",
                "other processes kept %.1f of the machine's %s busy", others,
                ht_number_of(text, (uint64_t)x->machine.cores, "processor"));
    }
    if (stolen > stolen_share_max) {
        ht_warn(warnings, HT_WARNING_STEAL, "use a larger --budget, or a machine of your own",
                "the hypervisor gave %.0f %% of the processors' time to other machines", 100 * stolen);
    }
    if (throttled_s > 0) {
        ht_warn(warnings, HT_WARNING_THROTTLED, "raise cpu.max of this control group",
                "the control group's quota stopped the replays for %.2f s in all", throttled_s);
    }
    if (swapped_bytes > 0) {
        ht_warn(warnings, HT_WARNING_SWAP, "free memory: RSS does not include swapped pages",
                "the machine swapped %.1f MB", swapped_bytes / 1e6);
    }
}

// An option where that does, else what only root can do.
static void suggest_thp(const struct ht_experiment *x, const char *mode, char *remedy, size_t room) {
    struct ht_huge_pages chosen;
    char problem[256];
    snprintf(remedy, room, "echo %s > /sys/kernel/mm/transparent_hugepage/enabled", mode);
    for (int i = HT_THP_NEVER; i < HT_THPS; i++) {
        if (strcmp(mode, ht_thp_names[i])) continue;
        if (ht_huge_pages_here((enum ht_thp)i, x->machine.thp, &chosen, problem, sizeof problem)) {
            snprintf(remedy, room, "--thp %s", mode);
        }
    }
}

static void warn_of_settings(const struct ht_experiment *x, const struct ht_recorded_program *program,
                             struct ht_warnings *warnings) {
    const struct ht_machine *machine = &x->machine;
    if (machine->governor[0] && strcmp(machine->governor, "performance")) {
        ht_warn(warnings, HT_WARNING_GOVERNOR, "cpupower frequency-set -g performance",
                "the processors' frequency governor is %s", machine->governor);
    }
    if (machine->turbo == 1) {
        ht_warn(warnings, HT_WARNING_TURBO, machine->turbo_off,
                "turbo is on: the clock rate depends on other processes");
    }
    const char *thp = x->huge_pages.mode;
    if (!x->plan->memory_pass || !thp[0] || x->plan->thp != HT_THP_AS_IS) return;  // chosen is known
    if (program->thp[0] ? strcmp(program->thp, thp) != 0 : !strcmp(thp, "always")) {
        char remedy[160];
        suggest_thp(x, program->thp[0] ? program->thp : "madvise", remedy, sizeof remedy);
        ht_warn(warnings, HT_WARNING_THP, remedy, "transparent huge pages are \"%s\" here%s%s%s", thp,
                program->thp[0] ? ", and were \"" : "", program->thp,
                program->thp[0] ? "\" where recorded" : "");
    }
}

static void warn_of_trace(const struct ht_experiment *x, const struct ht_recorded_program *program,
                          struct ht_warnings *warnings) {
    uint64_t calls = x->built->calls_total;
    char text[4][HT_NUMBER_OF_BYTES];
    if (calls < FEW_CALLS) {
        ht_warn(warnings, HT_WARNING_FEW_EVENTS, "record a longer workload",
                "the trace has only %s: startup dominates", ht_number_of(text[0], calls, "call"));
    }
    if (program->lost_calls || program->anomalies || program->foreign_frees ||
        (double)program->repairs > repaired_share_max * (double)calls) {
        ht_warn(warnings, HT_WARNING_LOSSY_TRACE,
                "see `heaptape info`; record again, from the program's start, to a disk with enough space",
                "the recording is incomplete: %s lost, %s, %s, %s",
                ht_number_of(text[0], program->lost_calls, "call"),
                ht_number_of(text[1], program->anomalies, "anomaly"),
                ht_number_of(text[2], program->foreign_frees, "foreign free"),
                ht_number_of(text[3], program->repairs, "repair"));
    }
}

static void warn_of_fresh_heap(const struct ht_experiment *x, const struct ht_recorded_program *program,
                               struct ht_warnings *warnings) {
    char text[HT_NUMBER_OF_BYTES];
    uint64_t blocks = ht_form_fresh_objects(x->built);
    if (!program->sliced || !blocks) return;
    ht_warn(warnings, HT_WARNING_FRESH_HEAP, "cut the slice from the whole recording, without --fresh",
            "%s from before the slice %s in a fresh heap, without the holes and arenas that they had",
            ht_number_of(text, blocks, "block"), blocks == 1 ? "lies" : "lie");
}

// The recording has them as resident, and so has the prediction.
static void warn_of_zeroed(const struct ht_experiment *x, struct ht_warnings *warnings) {
    const struct ht_built_form *built = x->built;
    double share = (double)built->zeroed_peak_bytes / (double)built->touched_peak_bytes;
    if (!x->plan->memory_pass || x->plan->touch != HT_TOUCH_RECORDED) return;
    if (!(share > zeroed_share_max)) return;
    ht_warn(
        warnings, HT_WARNING_ZEROED,
        "record under the allocator in question, too; --touch none is a lower bound",
        "%.0f %% of the memory at the peak (%.1f MB) is what calloc wrote while recording; whether the program touched it "
        "is not known: under an allocator that takes such blocks from the kernel, RSS may be lower by that",
        100 * share, (double)built->zeroed_peak_bytes / 1e6);
}

static void warn_of_unmeasured(const struct ht_experiment *x, struct ht_warnings *warnings) {
    const struct ht_built_form *built = x->built;
    double share = (double)built->unmeasured_peak_bytes / (double)built->touched_peak_bytes;
    if (!x->plan->memory_pass || x->plan->touch != HT_TOUCH_RECORDED || !(share > unmeasured_share_max))
        return;
    ht_warn(
        warnings, HT_WARNING_UNMEASURED, "--touch none and --touch pages are the bounds",
        "%.0f %% of the memory at the peak (%.1f MB) is in large blocks whose pages the recorder had no time to count: they "
        "are filled as others of their size",
        100 * share, (double)built->unmeasured_peak_bytes / 1e6);
}

// One line for all of them: what does not permit it to one hardly permits it to another.
static void warn_of_unwatched(const struct ht_comparison *c, struct ht_warnings *warnings) {
    char names[200] = "";
    int refusal = 0;
    for (size_t i = 0, used = 0; i < c->count; i++) {
        if (!c->allocators[i].unwatched || used >= sizeof names) continue;
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "",
                                 c->plan->choices.list[i].name);
        refusal = c->allocators[i].watch_refusal;
    }
    if (!names[0]) return;
    ht_warn(warnings, HT_WARNING_UNWATCHED,
            refusal ? "permit seccomp filters here" : "nothing: their peaks may be higher than shown",
            "RSS was not read within calls, so that of a realloc that copies is missed: %s (%s)", names,
            refusal == EBUSY ? "SIGSYS is blocked or taken"
            : refusal        ? strerrordesc_np(refusal)
                             : "a thread blocks SIGSYS");
}

// Where former blocks of a growing buffer are still resident at its peak, because no time passes while it is copied.
static void warn_of_copying(const struct ht_comparison *c, struct ht_warnings *warnings) {
    for (size_t i = 0; i < c->count; i++) {
        const struct ht_choice *choice = &c->plan->choices.list[i];
        if (!choice->kind || !choice->kind->purges_soon || !ht_peak_within_call(&c->allocators[i])) continue;
        if (c->plan->paces.memory.real_ns_per_trace_ns > 0) continue;
        ht_warn(warnings, HT_WARNING_COPYING, "use --pace memory=real",
                "%s gives memory back some ms after it is freed, but no trace time passes while a realloc "
                "copies: its peak within a call may be too high",
                choice->name);
    }
}

static void warn_of_operators(const struct ht_experiment *x, struct ht_warnings *warnings) {
    for (size_t i = 0; i < x->plan->choices.count; i++) {
        if (!x->plan->choices.list[i].lacks_operators) continue;
        ht_warn(
            warnings, HT_WARNING_NO_CXX_LIBRARY,
            "install libstdc++6: its time excludes that library's own work",
            "libstdc++.so.6 cannot be loaded: operator new and delete of %s are replayed as malloc and free",
            x->plan->choices.list[i].name);
    }
}

static void warn_of_queries(const struct ht_experiment *x, struct ht_warnings *warnings) {
    uint64_t queries = x->built->calls[HT_USABLE_SIZE];
    char text[HT_NUMBER_OF_BYTES];
    for (size_t i = 0; queries && i < x->plan->choices.count; i++) {
        const struct ht_choice *choice = &x->plan->choices.list[i];
        if (!choice->skips_queries || (choice->kind && choice->kind->is_floor)) continue;
        ht_warn(warnings, HT_WARNING_SKIPPED_QUERIES,
                "its time lacks them, and the program would not run with it",
                "%s has no malloc_usable_size: %s of it %s skipped", choice->name,
                ht_number_of(text, queries, "call"), queries == 1 ? "was" : "were");
    }
}

// Whether any allocator has spent less than the harness took.
static bool harness_prevails(const struct ht_comparison *c) {
    for (size_t i = 0; i < c->count; i++) {
        if (c->allocators[i].time_ns.median < c->harness_ns) return true;
    }
    return false;
}

static void warn_of_time(const struct ht_experiment *x, const struct ht_comparison *c,
                         struct ht_warnings *warnings) {
    double least_ns = INFINITY, readings = (double)(x->readings_taken + x->readings_dropped);
    for (size_t i = 0; i < c->count; i++) least_ns = fmin(least_ns, c->allocators[i].time_ns.median);
    double run_ns = (least_ns + c->harness_ns) * x->repeats;
    if (isfinite(run_ns) && run_ns < short_run_ns) {
        ht_warn(warnings, HT_WARNING_SHORT_RUN, "record a longer workload",
                "a run takes only %.2f ms of CPU time, much of it startup", run_ns / 1e6);
    }
    if (readings > 0 && (double)x->readings_dropped > dropped_share_max * readings) {
        ht_warn(warnings, HT_WARNING_DROPPED, "run fewer other processes, or use --threads 1",
                "%.1f %% of the timed calls were dropped because their thread was switched out",
                100 * (double)x->readings_dropped / readings);
    }
    if (harness_prevails(c)) {
        ht_warn(warnings, HT_WARNING_HARNESS, "use --instructions, which counts exactly",
                "the harness takes longer than the allocator: small differences are uncertain");
    }
}

// The process's control is the heap's with the same added to both: it differs less.
static void warn_of_control(const struct ht_comparison *c, struct ht_warnings *warnings) {
    for (int figure = 0; figure < HT_FIGURE_PROCESS; figure++) {
        const struct ht_interval *control = &c->controls[figure];
        if (!(control->low > 1 + control_error_max) && !(control->high < 1 - control_error_max)) continue;
        ht_warn(warnings, HT_WARNING_CONTROL,
                "verdicts include it; a larger --budget on an idle machine reduces it",
                "the A/A control of %s is %.3f [%.3f, %.3f]: the baseline differs from itself",
                ht_figure_words[figure].name, control->estimate, control->low, control->high);
    }
}

static size_t most_rounds_needed(const struct ht_comparison *c) {
    double most = 0;
    for (size_t i = 0; i < c->count; i++) {
        for (int figure = 0; figure <= HT_FIGURE_PEAK; figure++) {
            double more = ht_estimate_of(&c->allocators[i], (enum ht_figure)figure)->more_rounds;
            most = fmax(most, more);  // NaN is none
        }
    }
    return (size_t)most;
}

static void warn_of_rounds(const struct ht_experiment *x, const struct ht_comparison *c,
                           struct ht_warnings *warnings) {
    size_t more = most_rounds_needed(c);
    char remedy[160], text[HT_NUMBER_OF_BYTES];
    if (c->count < 2) return;
    if (c->rounds < HT_BOOTSTRAP_ROUNDS_MIN) {
        snprintf(remedy, sizeof remedy,
                 x->plan->rounds ? "use --rounds auto, or %d and more" : "use a larger --budget",
                 SUGGESTED_ROUNDS);
        ht_warn(warnings, HT_WARNING_FEW_ROUNDS, remedy,
                "%s %s too few to resample: intervals assume log-normal ratios",
                ht_number_of(text, c->rounds, "round"), c->rounds == 1 ? "is" : "are");
    }
    if (x->end == HT_END_BUDGET && more > 0) {
        double minutes = ceil(x->spent_s / (double)c->rounds * (double)(c->rounds + more) / 60);
        if (more <= HT_MORE_ROUNDS_MAX && minutes <= 24 * 60)
            snprintf(remedy, sizeof remedy, "use --budget %.0fm", minutes);
        else snprintf(remedy, sizeof remedy, "none: the difference is too small for this trace and machine");
        ht_warn(warnings, HT_WARNING_BUDGET, remedy, "the budget ended before all verdicts were clear");
    }
}

void ht_experiment_warnings(const struct ht_experiment *x, const struct ht_comparison *c,
                            const struct ht_activity *before, struct ht_warnings *warnings) {
    warn_of_trace(x, c->program, warnings);
    warn_of_queries(x, warnings);
    warn_of_operators(x, warnings);
    warn_of_fresh_heap(x, c->program, warnings);
    warn_of_zeroed(x, warnings);
    warn_of_unmeasured(x, warnings);
    warn_of_unwatched(c, warnings);
    warn_of_copying(c, warnings);
    warn_of_machine(x, before, warnings);
    warn_of_settings(x, c->program, warnings);
    if (x->plan->time_pass) warn_of_time(x, c, warnings);
    warn_of_control(c, warnings);
    warn_of_rounds(x, c, warnings);
}
