// SPDX-License-Identifier: Apache-2.0
// heaptape convert: raw logs, and the traces of other recorders, become traces.
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "convert_raw.h"
#include "export.h"
#include "follow.h"
#include "group_convert.h"
#include "import_run.h"
#include "option_values.h"
#include "print.h"
#include "process_rank.h"
#include "talk.h"
#include "trace_verb.h"
#include "verbs.h"

struct options {
    char **inputs;
    unsigned count;
    const char *wanted;              // -o
    const char *from;                // NULL: found out
    const struct export_format *to;  // NULL: the outputs are traces
    bool group;
    struct convert_request request;
};

enum {
    OPTION_NO_PARENT = 256,
    OPTION_FROM,
    OPTION_TO,
    OPTION_LENIENT,
    OPTION_PID,
    OPTION_MEMBER,
    OPTION_FOLLOW,
    OPTION_KEEP_RAW,
    OPTION_CHECKPOINT,
    OPTION_NO_NAMES,
    OPTION_GROUP
};

enum { LEVEL_DEFAULT = 3, TIME_UNIT_DEFAULT_NS = 32 };

static const char RAW_FORMAT[] = "heaptape";

static const struct argp_option option_table[] = {
    {"output", 'o', "FILE", 0,
     "Write the trace to FILE, or into the folder FILE; - is standard output (default: beside the input, .bin for "
     ".mraw)",
     0},
    {"level", 'l', "fast|default|max", 0, "The effort of compression (default: default)", 0},
    {"time-unit", 'u', "NS", 0, "Keep times in units of NS nanoseconds (default: 32)", 0},
    {"parent", 'p', "FILE", 0,
     "The parent's log, which has the blocks that a forked process inherited (default: the one next to RAW)",
     0},
    {"no-parent", OPTION_NO_PARENT, NULL, 0, "Read no parent's log: inherited blocks are unknown", 0},
    {"follow", OPTION_FOLLOW, NULL, 0,
     "Convert a raw log while the program writes it, and punch holes into the part already read; continues an "
     "interrupted conversion",
     0},
    {"group", OPTION_GROUP, NULL, 0,
     "Make one trace of a program and the processes that it forked, whose logs lie in the folder RAW (or beside the "
     "snapshots RAW, malloc-footprint.PID.group)",
     0},
    {"keep-raw", OPTION_KEEP_RAW, NULL, 0, "With --follow: punch no holes", 0},
    {"checkpoint", OPTION_CHECKPOINT, "SIZE", 0,
     "With --follow: save the state to continue from, and punch holes, every SIZE of the log, in MiB without a unit "
     "(default: 64M)",
     0},
    {"from", OPTION_FROM,
     "heaptape|malloc_wrap|malloc_wrap_raw|android|logalloc|trace_utils|wl|rep|mtrace|heaptrack|acc", 0,
     "The format of the input (default: recognized by its first bytes)", 0},
    {"to", OPTION_TO, "malloc_wrap|android|rep", 0,
     "Write this format instead of a trace; the input may be a trace (default: a trace)", 0},
    {"lenient", OPTION_LENIENT, NULL, 0, "Skip and count invalid entries in another recorder's trace", 0},
    {"pid", OPTION_PID, "PID", 0, "Of a trace with several processes, take this one", 0},
    {"member", OPTION_MEMBER, "NAME", 0, "Of a zip with several files, take this one", 0},
    {"no-names", OPTION_NO_NAMES, NULL, 0,
     "Of a recording with call sites, do not look up functions, files and lines; heaptape names does so later",
     0},
    {"quiet", 'q', NULL, 0, "Print only what went wrong", 0},
    {0}};

static uint64_t read_number(struct argp_state *state, const char *option, const char *value, uint64_t least,
                            uint64_t most) {
    uint64_t number;
    if (!ht_parse_whole(value, least, most, &number))
        argp_error(state, "%s %s: expected a whole number from %llu to %llu", option, value,
                   (unsigned long long)least, (unsigned long long)most);
    return number;
}

static uint64_t read_checkpoint(struct argp_state *state, const char *value) {
    const uint64_t mib = UINT64_C(1) << 20;
    uint64_t bytes = 0;
    if (!ht_parse_bytes(value, mib, &bytes) || bytes < mib || bytes > mib << 20)
        argp_error(state, "--checkpoint %s: expected a size from 1M to 1T", value);
    return bytes;
}

static void read_format(struct argp_state *state, struct options *options, const char *value) {
    char names[256];
    if (strcmp(value, RAW_FORMAT) && !import_format_named(value))
        argp_error(state, "--from %s: expected one of %s, %s", value, RAW_FORMAT, import_format_names(names));
    options->from = value;
}

static void read_export(struct argp_state *state, struct options *options, const char *value) {
    options->to = export_find(value);
    if (!options->to) argp_error(state, "--to %s: expected " EXPORT_NAMES, value);
}

static void check_group(struct argp_state *state, const struct options *options) {
    const struct convert_request *request = &options->request;
    if (options->count != 1) argp_error(state, "--group: expected one folder");
    if (!options->wanted || !strcmp(options->wanted, "-") || convert_is_folder(options->wanted))
        argp_error(state, "--group: expected -o FILE");
    if (request->parent || request->no_parent || request->follow || request->lenient || request->pid_wanted ||
        request->member || options->from || options->to)
        argp_error(state,
                   "--group: expected none of --parent, --no-parent, --follow, --lenient, --pid, --member, "
                   "--from, --to");
}

static void check_together(struct argp_state *state, const struct options *options) {
    const struct convert_request *request = &options->request;
    if (request->parent && request->no_parent) argp_error(state, "--parent: expected no --no-parent with it");
    if ((request->keeps_raw || request->checkpoint_bytes) && !request->follow)
        argp_error(state, "--keep-raw, --checkpoint: expected --follow with them");
    if (request->follow && options->wanted && !strcmp(options->wanted, "-"))
        argp_error(state, "--follow: expected -o FILE, found standard output");
    if (request->follow && options->to)
        argp_error(state, "--follow: expected no --to, which takes the trace afterwards");
    if (options->to && request->level) argp_error(state, "--level: expected no --to: it is for traces");
    if (options->group) check_group(state, options);
    if (options->count < 2) return;
    if (request->follow) argp_error(state, "--follow: expected one log");
    if (request->parent) argp_error(state, "--parent: expected one log, whose parent it is");
    if (options->wanted && !convert_is_folder(options->wanted))
        argp_error(state, "-o %s: expected a folder: each of several inputs makes a trace of its own",
                   options->wanted);
}

static error_t parse_option(int key, char *value, struct argp_state *state) {
    struct options *options = state->input;
    struct convert_request *request = &options->request;
    switch (key) {
    case 'o': options->wanted = value; return 0;
    case 'p': request->parent = value; return 0;
    case OPTION_NO_PARENT: request->no_parent = true; return 0;
    case OPTION_FROM: read_format(state, options, value); return 0;
    case OPTION_FOLLOW: request->follow = true; return 0;
    case OPTION_KEEP_RAW: request->keeps_raw = true; return 0;
    case OPTION_CHECKPOINT: request->checkpoint_bytes = read_checkpoint(state, value); return 0;
    case OPTION_TO: read_export(state, options, value); return 0;
    case OPTION_LENIENT: request->lenient = true; return 0;
    case OPTION_NO_NAMES: request->no_names = true; return 0;
    case OPTION_GROUP: options->group = true; return 0;
    case OPTION_PID:
        request->pid = read_number(state, "--pid", value, 0, UINT32_MAX);
        request->pid_wanted = true;
        return 0;
    case OPTION_MEMBER: request->member = value; return 0;
    case 'q': request->quiet = true; return 0;
    case 'l':
        request->level = !strcmp(value, "fast")      ? 1
                         : !strcmp(value, "default") ? 3
                         : !strcmp(value, "max")     ? 19
                                                     : 0;
        if (!request->level) argp_error(state, "--level %s: expected one of fast, default, max", value);
        return 0;
    case 'u':
        request->time_unit_ns = (uint32_t)read_number(state, "--time-unit", value, 1, 1000000000);
        return 0;
    case ARGP_KEY_ARGS:
        options->inputs = state->argv + state->next;
        options->count = (unsigned)(state->argc - state->next);
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "expected a raw log, such as malloc-footprint.PID.mraw");
        return 0;
    case ARGP_KEY_SUCCESS: check_together(state, options); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp parser = {
    .options = option_table,
    .parser = parse_option,
    .args_doc = "RAW...",
    .doc =
        "Convert each raw log RAW, or another recorder's trace (compressed or in a zip too), to a trace. - is "
        "standard input."
        "\vThe trace of a forked process begins with the blocks that it inherited, if its parent's log is there.\n"
        "Of a damaged raw log the trace has what can be read, and a warning says how many calls are lost; a log cut short is "
        "refused."};

const struct ht_page ht_page_convert = {
    .name = "convert",
    .argp = &parser,
    .examples =
        (const struct ht_fact[]){
            {"heaptape convert logs/malloc-footprint.4711.mraw -o app.bin", "Convert a raw log"},
            {"heaptape convert --follow logs/malloc-footprint.4711.mraw",
             "While the program runs, with little disk space"},
            {"heaptape convert --group logs -o service.bin", "A service with its workers"},
            {"heaptape convert systemui.zip", "Another recorder's trace; writes systemui.bin"},
            {"heaptape convert app.bin --to android", "For another replayer"},
            {0}},
    .environment = (const struct ht_fact[]){{"TMPDIR", "The folder for unpacked input"}, {0}},
    .statuses = (const struct ht_fact[]){HT_USUAL_STATUSES, {0}},
    .see_also = "record info replay"};

static int complain(const char *path, const char *what) {
    ht_print(stderr, "heaptape convert: %s: %s\n", path, what);
    return HT_EXIT_USAGE;
}

// An option that this kind of input has no use for would be ignored otherwise.
static const char *misplaced(const struct convert_request *request, bool raw) {
    if (strcmp(request->input, "-") && access(request->input, F_OK)) return NULL;  // the error is another
    if (!raw && request->follow) return "--follow is for raw logs";
    if (!raw && (request->parent || request->no_parent)) return "--parent and --no-parent are for raw logs";
    if (raw && (request->lenient || request->pid_wanted || request->member))
        return "--lenient, --pid and --member are for other recorders' traces; this is a raw log";
    return NULL;
}

// A device or pipe cannot be resumed, and must not be replaced by a file.
static bool is_special(const char *path) {
    struct stat status;
    return !stat(path, &status) && !S_ISREG(status.st_mode);
}

// What is no trace becomes one on the way. Returns 0 or -1 with error.
static int convert_to_trace(const struct options *options, const struct convert_request *request, bool raw,
                            struct ht_error *error) {
    return raw ? convert_raw(request, error)
               : import_run(request, options->from ? import_format_named(options->from) : NULL, error);
}

static int export_through_trace(const struct options *options, struct convert_request *request, bool raw,
                                struct ht_error *error) {
    const char *output = request->output;
    char *trace = export_temporary_trace(output, error);
    if (!trace) return -1;
    request->output = trace;
    request->level = 1;
    request->passing = true;
    int status = convert_to_trace(options, request, raw, error);
    if (status) export_drop_temporary(trace);
    else status = export_trace(options->to, trace, true, output, request->quiet, error);
    free(trace);
    return status;
}

// A trace has been converted already.
static int export_one(const struct options *options, const char *input, const char *output) {
    const struct convert_request *request = &options->request;
    struct ht_error error;
    if (request->parent || request->no_parent || request->lenient || request->pid_wanted || request->member ||
        request->no_names || request->time_unit_ns)
        return complain(input, "this is a trace: of the options only --to, --output and --quiet have a use");
    return export_trace(options->to, input, false, output, request->quiet, &error)
               ? ht_complain("heaptape convert", &error)
               : HT_EXIT_DONE;
}

// One input's conversion. Returns the exit status.
static int convert_one(const struct options *options, const char *input, const char *output) {
    struct convert_request request = options->request;
    struct ht_error error;
    const char *wrong = convert_overwrites(output, input, options->inputs, options->count);
    if (wrong) return complain(output, wrong);
    if (options->to && !options->from && convert_is_trace(input)) return export_one(options, input, output);
    request.input = input;
    request.given_level = request.level != 0;
    request.given_time_unit = request.time_unit_ns != 0;
    if (!request.level) request.level = LEVEL_DEFAULT;
    if (!request.time_unit_ns) request.time_unit_ns = TIME_UNIT_DEFAULT_NS;
    if (options->group) {
        request.output = output;
        return group_convert(&request, &error) ? ht_complain("heaptape convert", &error) : HT_EXIT_DONE;
    }
    bool raw = options->from ? !strcmp(options->from, RAW_FORMAT) : convert_is_raw_log(input);
    wrong = misplaced(&request, raw);
    // What is no recording at all is not the fault of an option.
    if (wrong && !raw && !options->from && strcmp(input, "-") && !import_knows(input, request.member, &error))
        return ht_complain("heaptape convert", &error);
    if (wrong) return complain(input, wrong);
    if (request.follow && is_special(output))
        return complain(output, "--follow writes a regular file, which it can resume");
    request.output = output;
    if (request.follow) return follow_run(&request);
    int status = options->to ? export_through_trace(options, &request, raw, &error)
                             : convert_to_trace(options, &request, raw, &error);
    if (!status && raw && options->count == 1 && !request.quiet) shell_log_say_better(input);
    return status ? ht_complain("heaptape convert", &error) : HT_EXIT_DONE;
}

// The traces' paths, checked against each other. Returns the exit status.
static int choose_outputs(const struct options *options, char **outputs) {
    for (unsigned i = 0; i < options->count; i++) {
        const char *input = options->inputs[i];
        if (!strcmp(input, "-") && (!options->wanted || convert_is_folder(options->wanted)))
            return complain(import_input_name(input), "expected a name for the trace (-o FILE)");
        outputs[i] = convert_output_path(input, options->wanted,
                                         options->to ? export_suffix(options->to) : CONVERT_TRACE_ENDING);
        if (!outputs[i]) {
            ht_print(stderr, "heaptape convert: %s: %s\n", input, strerror(ENOMEM));
            return HT_EXIT_FAILED;
        }
        for (unsigned j = 0; j < i; j++)
            if (!strcmp(outputs[i], outputs[j]))
                return complain(outputs[i], "two inputs would make this trace");
    }
    return HT_EXIT_DONE;
}

int ht_verb_convert(int argc, char **argv) {
    struct options options = {0};
    ht_page_parse(&ht_page_convert, argc, argv, 0, &options);
    char **outputs = calloc(options.count, sizeof *outputs);
    if (!outputs) {
        ht_print(stderr, "heaptape convert: %s\n", strerror(ENOMEM));
        return HT_EXIT_FAILED;
    }
    int status = choose_outputs(&options, outputs);
    unsigned to_do = status ? 0 : options.count;
    // One that does not convert keeps none of the others from it; the first one's status is everybody's.
    for (unsigned i = 0; i < to_do; i++) {
        int one = convert_one(&options, options.inputs[i], outputs[i]);
        if (!status) status = one;
    }
    for (unsigned i = 0; i < options.count; i++) free(outputs[i]);
    free(outputs);
    return status;
}
