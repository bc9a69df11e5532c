// heaptape convert: a raw log becomes a trace.
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "export.h"
#include "inheritance.h"
#include "merge.h"
#include "stop_reason.h"
#include "talk.h"
#include "trace_json.h"
#include "verbs.h"

struct options {
    const char *raw, *output, *parent;
    int level;
    uint32_t time_unit_ns;
    bool no_parent, quiet;
    const struct export_format *to;  // NULL: the result is a trace
};

enum { OPTION_NO_PARENT = 256, OPTION_TO };

static const struct argp_option option_table[] = {
    {"output", 'o', "FILE", 0, "Write the trace to FILE (default: beside the log, .bin for .mraw)", 0},
    {"level", 'l', "LEVEL", 0, "Compression: fast, default or max", 0},
    {"time-unit", 'u', "NS", 0, "Keep times in units of NS nanoseconds (default 32)", 0},
    {"parent", 'p', "FILE", 0,
     "For the log of a forked process: its parent's log, which tells what it inherited (default: looked for "
     "beside RAW)",
     0},
    {"no-parent", OPTION_NO_PARENT, NULL, 0, "Go without the parent's log: inherited blocks are unknown", 0},
    {"to", OPTION_TO, "FORMAT", 0,
     "Write FORMAT instead of a trace: " EXPORT_NAMES "; RAW may be a trace, FILE - for standard output", 0},
    {"quiet", 'q', NULL, 0, "Say nothing unless something is wrong", 0},
    {0}};

static error_t parse_option(int key, char *value, struct argp_state *state) {
    struct options *options = state->input;
    char *end;
    switch (key) {
    case 'o': options->output = value; return 0;
    case 'p': options->parent = value; return 0;
    case OPTION_NO_PARENT: options->no_parent = true; return 0;
    case OPTION_TO:
        options->to = export_find(value);
        if (!options->to) argp_error(state, "--to takes " EXPORT_NAMES ", not '%s'", value);
        return 0;
    case 'q': options->quiet = true; return 0;
    case 'l':
        options->level = !strcmp(value, "fast")      ? 1
                         : !strcmp(value, "default") ? 3
                         : !strcmp(value, "max")     ? 19
                                                     : 0;
        if (!options->level) argp_error(state, "--level takes fast, default or max, not '%s'", value);
        return 0;
    case 'u': {
        unsigned long unit = strtoul(value, &end, 10);
        if (*end || end == value || unit < 1 || unit > 1000000000)
            argp_error(state, "--time-unit takes 1 to 1000000000, not '%s'", value);
        options->time_unit_ns = (uint32_t)unit;
        return 0;
    }
    case ARGP_KEY_ARG:
        if (options->raw) argp_error(state, "one raw log makes one trace: convert '%s' by itself", value);
        options->raw = value;
        return 0;
    case ARGP_KEY_NO_ARGS: argp_error(state, "which raw log? (malloc-footprint.PID.mraw)"); return 0;
    case ARGP_KEY_SUCCESS:
        if (options->parent && options->no_parent)
            argp_error(state, "--parent and --no-parent exclude each other");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp parser = {
    option_table,
    parse_option,
    "RAW",
    "Turn the raw log RAW into a trace.\v"
    "The trace of a forked process begins with the blocks that it inherited, if its parent's log is there.",
    NULL,
    NULL,
    NULL};

struct shown {
    struct ht_progress progress;
};

static void show_progress(void *context, uint64_t done, uint64_t total, uint64_t events) {
    struct shown *shown = context;
    char count[32];
    if (!ht_progress_due(&shown->progress)) return;
    ht_progress_draw(&shown->progress, "%3.0f %%  %s events",
                     total ? 100.0 * (double)done / (double)total : 0.0, ht_grouped(count, events));
}

static void say_result(const char *output, const struct merge_totals *totals, uint64_t file_bytes,
                       double seconds) {
    char events[32], size[32], peak[32], blocks[32], anomalies[32];
    fprintf(stderr, "%s: %s events, %s (%.2f B/event) in %.1f s; peak %s live in %s blocks; %s anomalies",
            output, ht_grouped(events, totals->events), ht_bytes(size, (double)file_bytes),
            totals->events ? (double)file_bytes / (double)totals->events : 0.0, seconds,
            ht_bytes(peak, (double)totals->peak_live_bytes), ht_grouped(blocks, totals->peak_live_objects),
            ht_grouped(anomalies, totals->anomalies));
    if (totals->inherited_objects)
        fprintf(stderr, ", %s blocks inherited", ht_grouped(anomalies, totals->inherited_objects));
    if (totals->foreign_frees)
        fprintf(stderr, ", %s foreign frees", ht_grouped(anomalies, totals->foreign_frees));
    fprintf(stderr, "\nnext: replay --alloc all %s\n", output);
}

static void warn_about(const struct ht_raw_log *log) {
    char words[HT_STOP_TEXT_BYTES];
    if (ht_stopped_early(&log->header))
        fprintf(stderr,
                "heaptape convert: warning: %s: the recording stopped early (%s): the trace ends there\n",
                log->path, ht_stop_words(&log->header, words) ? words : "no reason given");
}

// The log is whole, but there is nothing in it.
static int no_calls(const struct ht_raw_log *log, struct ht_error *error) {
    const char *why = "the log holds none";
    if (log->header.state == HT_RAW_PAUSED)
        why = "the recording was paused all the time (heaptape ctl PID resume begins it)";
    else if (log->header.stop_reason == HT_STOP_CONTROL)
        why = "heaptape ctl ended the recording before the first one";
    return ht_error_input(error, log->path, HT_RAW_HEADER_BYTES, "at least one call expected, but %s", why);
}

static int write_trace(const struct options *options, const struct ht_raw_log *log,
                       const struct live_blocks *inherited, const struct merge_progress *progress,
                       struct ht_error *error) {
    double started_s = ht_now_s();
    struct merge_result result;
    uint64_t file_bytes;
    struct ht_trace_writer *writer =
        ht_trace_create(options->output, options->time_unit_ns, options->level, error);
    if (!writer) return -1;
    json_t *context = trace_json_context(log);
    char *text = json_dumps(context, JSON_COMPACT);
    json_decref(context);
    ht_trace_put_context(writer, text ? text : "{}");
    free(text);
    struct shown *shown = progress->context;
    ht_progress_start(&shown->progress);
    int status = merge_log(log, inherited, writer, &result, progress, error);
    ht_progress_end(&shown->progress);
    if (status) {
        ht_trace_abandon(writer);
        return -1;
    }
    if (result.totals.events == 0) {
        ht_trace_abandon(writer);
        free(result.threads);
        return no_calls(log, error);
    }
    json_t *totals = trace_json_totals(&result.totals, log);
    text = json_dumps(totals, JSON_COMPACT);
    json_decref(totals);
    status = ht_trace_finish(writer, result.threads, result.totals.threads, text ? text : "{}", &file_bytes,
                             error);
    free(text);
    free(result.threads);
    if (!status && !options->quiet && !options->to)
        say_result(options->output, &result.totals, file_bytes, ht_now_s() - started_s);
    return status;
}

static int convert(const struct options *options, const struct ht_raw_log *log, struct ht_error *error) {
    struct shown shown;
    struct live_blocks inherited = {0};
    struct merge_progress progress = {options->quiet ? NULL : show_progress, &shown};
    char warning[INHERITANCE_WARNING_BYTES] = "";
    ht_progress_start(&shown.progress);
    int status = 0;
    if (!options->no_parent)
        status = inheritance_find(log, options->parent, &inherited, warning, &progress, error);
    ht_progress_end(&shown.progress);
    if (!status && *warning && !options->quiet)
        fprintf(stderr, "heaptape convert: warning: %s: %s\n", log->path, warning);
    if (!status) status = write_trace(options, log, &inherited, &progress, error);
    live_blocks_free(&inherited);
    return status;
}

// job.mraw becomes job.bin, in the same folder.
static char *default_output(const char *raw) {
    size_t length = strlen(raw);
    if (length > 5 && !strcmp(raw + length - 5, ".mraw")) length -= 5;
    char *output = malloc(length + 5);
    if (!output) return NULL;
    memcpy(output, raw, length);
    memcpy(output + length, ".bin", 5);
    return output;
}

static int convert_raw(struct options options) {
    struct ht_error error;
    struct ht_raw_log log;
    if (ht_raw_open(&log, options.raw, &error)) return ht_complain("heaptape convert", &error);
    if (!options.quiet) warn_about(&log);
    struct stat in, out;
    if (options.output && !fstat(log.fd, &in) && !stat(options.output, &out) && in.st_dev == out.st_dev &&
        in.st_ino == out.st_ino) {
        fprintf(stderr, "heaptape convert: %s: the trace would overwrite the raw log that it is made from\n",
                options.output);
        ht_raw_close(&log);
        return HT_EXIT_USAGE;
    }
    char *chosen = options.output ? NULL : default_output(options.raw);
    if (chosen) options.output = chosen;
    int status = convert(&options, &log, &error) ? ht_complain("heaptape convert", &error) : HT_EXIT_DONE;
    free(chosen);
    ht_raw_close(&log);
    return status;
}

// What is no trace becomes one on the way, which nobody sees.
static int convert_and_export(struct options options) {
    struct ht_error error;
    const char *input = options.raw;
    bool temporary = !export_is_trace(input);
    char *output = options.output ? strdup(options.output) : export_default_output(options.to, input);
    char *trace = temporary ? export_temporary_trace(output, &error) : strdup(input);
    int status = HT_EXIT_DONE;
    if (!trace) {
        status = ht_complain("heaptape convert", &error);
    } else if (temporary) {
        options.output = trace;
        options.level = 1;
        status = convert_raw(options);
        if (status) unlink(trace);
    }
    if (!status && export_trace(options.to, trace, temporary, output, options.quiet, &error))
        status = ht_complain("heaptape convert", &error);
    free(trace);
    free(output);
    return status;
}

int ht_verb_convert(int argc, char **argv) {
    struct options options = {.level = 3, .time_unit_ns = 32};
    argp_parse(&parser, argc, argv, 0, NULL, &options);
    return options.to ? convert_and_export(options) : convert_raw(options);
}
