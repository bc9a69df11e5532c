// SPDX-License-Identifier: Apache-2.0
// heaptape walk: what the heap of a running process consists of, found from outside.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core_file.h"
#include "json_values.h"
#include "option_values.h"
#include "output_file.h"
#include "talk.h"
#include "verbs.h"
#include "walk_json.h"

struct options {
    uint64_t pid;
    const char *core, *blocks;
    bool stop;
};

enum { OPTION_STOP = 256, OPTION_BLOCKS, OPTION_CORE, PID_MAX = 1 << 22 };
// An allocator within the program is what is told of where it has so much of the memory: one half.
enum { WITHIN_PART_OF = 2 };

static const struct argp_option option_table[] = {
    {"pid", 'p', "N", 0, "The process, by its number here", 0},
    {"core", OPTION_CORE, "FILE", 0, "A process' core file; what of it was in RAM is not known", 0},
    {"stop", OPTION_STOP, NULL, 0,
     "Stop the process meanwhile: its calls of epoll_wait and some others end with EINTR (default: read while it goes on)",
     0},
    {"blocks", OPTION_BLOCKS, "FILE", 0,
     "Write all chunks of a heap of glibc's to FILE as CSV (default: none)", 0},
    {0}};

static error_t parse_option(int key, char *value, struct argp_state *state) {
    struct options *options = state->input;
    switch (key) {
    case 'p':
        if (!ht_parse_whole(value, 1, PID_MAX, &options->pid))
            argp_error(state, "--pid %s: expected the number of a process", value);
        return 0;
    case OPTION_STOP: options->stop = true; return 0;
    case OPTION_CORE: options->core = value; return 0;
    case OPTION_BLOCKS: options->blocks = value; return 0;
    case ARGP_KEY_END:
        if (!options->pid == !options->core) argp_error(state, "expected one of --pid and --core");
        if (options->core && options->stop) argp_error(state, "--stop: expected --pid, found --core");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp parser = {
    .options = option_table,
    .parser = parse_option,
    .args_doc = "--pid N\n--core FILE",
    .doc =
        "Print as JSON what the heap of a running process consists of, which was not recorded and is not changed: "
        "live blocks, holes among them, free pages. heaptape explain --pid prints it for people. Heaps of glibc 2.26 to "
        "2.43 are walked block by block; of jemalloc 5, gperftools' tcmalloc 2, mimalloc 2 and 3 the counts are found that "
        "they keep by size class. Of others the name is told."
        "\vThe process is read through /proc, by its own user or with CAP_SYS_PTRACE. Before its memory is looked at, "
        "all other rights are dropped."};

const struct ht_page ht_page_walk = {
    .name = "walk",
    .argp = &parser,
    .examples =
        (const struct ht_fact[]){{"heaptape walk --pid 4711 >walk.json", "What process 4711 holds now"}, {0}},
    .statuses = (const struct ht_fact[]){{"0", "Done; \"why_not\" is null where the heap was walked"},
                                         {"1", "Failed: the process cannot be read"},
                                         {"2", "Wrong usage"},
                                         {"3", "The core is damaged, cut short, or of another format"},
                                         {0}},
    .see_also = "explain"};

struct walked {
    struct process process;
    struct core_file core;
    struct modules modules;
    struct allocator allocator;
    struct glibc glibc;
    struct accounts accounts;
    struct other other;
    bool other_found;
    struct outside outside;
    char why_not[256];
};

// Whether there is a heap of glibc's to walk; if not, why.
static bool find_heap(struct walked *walked, struct space *space) {
    const struct allocator *allocator = &walked->allocator;
    char *why = walked->why_not;
    size_t room = sizeof walked->why_not;
    if (!allocator->module)
        snprintf(why, room,
                 "no malloc was found: the program is linked statically, or allocates by other means");
    else if (!strcmp(allocator->name, "unknown"))
        snprintf(why, room, "the program's malloc is none that is known");
    else if (strcmp(allocator->name, "glibc"))
        snprintf(why, room,
                 other_walks(allocator->name)
                     ? "the records of this %s were not found, or contradict each other: its "
                       "layout is none that is known, or nothing was allocated"
                     : "the program's allocator is %s, the heap of which is not known",
                 allocator->name);
    else if (allocator->glibc_minor < GLIBC_OLDEST || allocator->glibc_minor > GLIBC_NEWEST)
        snprintf(why, room, "the layout of this glibc's heap is not known: expected 2.%d to 2.%d",
                 GLIBC_OLDEST, GLIBC_NEWEST);
    else if (!glibc_find(&walked->glibc, space, allocator->glibc_minor, allocator->libc->name))
        snprintf(why, room,
                 "glibc's main arena was not found: nothing was allocated, or this build has another layout");
    return !*why;
}

// Whether another allocator's heap was walked, which is the process's or lies within the program; -1 with error.
static int walk_other(struct walked *walked, struct space *space, struct ht_error *error) {
    struct allocator *allocator = &walked->allocator;
    const struct other *other = &walked->other;
    const char *name = allocator->within ? allocator->within : allocator->name;
    const struct module *module = allocator->within ? &walked->modules.module[0] : allocator->module;
    if (!module) return 0;
    if (other_walk(&walked->other, space, name, module, &walked->other_found, error)) return -1;
    if (!walked->other_found) return 0;
    uint64_t resident = other->live_resident_bytes + other->holes_resident_bytes + other->free_resident_bytes;
    if (!allocator->within || allocator->within == allocator->name) return 1;
    walked->other_found = resident >= other->runs.bytes / WITHIN_PART_OF;
    if (walked->other_found) allocator_take_within(allocator, &walked->modules);
    return walked->other_found;
}

static int walk_space(struct walked *walked, struct space *space, FILE *blocks, struct ht_error *error) {
    if (modules_read(&walked->modules, space, error)) return -1;
    allocator_find(&walked->allocator, &walked->modules);
    int other = walk_other(walked, space, error);
    if (other) return other < 0 ? -1 : outside_take(&walked->outside, space, NULL, &walked->other, error);
    if (!find_heap(walked, space)) return outside_take(&walked->outside, space, NULL, NULL, error);
    return glibc_walk(&walked->glibc, error) ||
                   accounts_take(&walked->accounts, &walked->glibc, blocks, error) ||
                   outside_take(&walked->outside, space, &walked->glibc, NULL, error)
               ? -1
               : 0;
}

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void print(struct walked *walked, struct walk_result result) {
    bool found = !*walked->why_not && !walked->other_found;
    result.modules = &walked->modules;
    result.allocator = &walked->allocator;
    result.glibc = found ? &walked->glibc : NULL;
    result.accounts = &walked->accounts;
    result.other = walked->other_found ? &walked->other : NULL;
    result.outside = &walked->outside;
    result.why_not = *walked->why_not ? walked->why_not : NULL;
    json_print(walk_json(&result));
}

static int walk_process(struct walked *walked, const struct options *options, FILE *blocks,
                        struct ht_error *error) {
    struct process *process = &walked->process;
    double began_s = seconds_now();
    if (process_open(process, (pid_t)options->pid, error) || (options->stop && process_stop(process, error)))
        return -1;
    struct process_memory memory = process_memory_now(process);
    if (rights_drop_user(error) || rights_drop_rest(memory.rss_bytes, error)) return -1;
    if (walk_space(walked, &process->space, blocks, error)) return -1;
    memory = process_memory_now(process);
    process_go_on(process);
    print(walked, (struct walk_result){.process = process,
                                       .memory = memory,
                                       .stopped = options->stop,
                                       .seconds = seconds_now() - began_s});
    return 0;
}

static uint64_t bytes_of(const struct space *space) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < space->segment_count; i++) bytes += space->segments[i].bytes;
    return bytes;
}

static int walk_core(struct walked *walked, const struct options *options, FILE *blocks,
                     struct ht_error *error) {
    struct core_file *core = &walked->core;
    double began_s = seconds_now();
    if (core_file_open(core, options->core, error) || rights_drop_user(error) ||
        core_file_read(core, error) || rights_drop_rest(bytes_of(&core->space), error) ||
        walk_space(walked, &core->space, blocks, error))
        return -1;
    print(walked, (struct walk_result){.core = core->command, .seconds = seconds_now() - began_s});
    return 0;
}

static void free_walked(struct walked *walked) {
    accounts_free(&walked->accounts);
    glibc_free(&walked->glibc);
    other_free(&walked->other);
    modules_free(&walked->modules);
    process_close(&walked->process);
    space_free(&walked->core.space);
    free(walked);
}

int ht_verb_walk(int argc, char **argv) {
    struct options options = {0};
    struct ht_error error;
    ht_page_parse(&ht_page_walk, argc, argv, 0, &options);
    FILE *blocks = options.blocks ? fopen(options.blocks, "we") : NULL;
    if (options.blocks && !blocks) {
        ht_error_system(&error, options.blocks, "cannot be written");
        return ht_complain("heaptape walk", &error);
    }
    struct walked *walked = calloc(1, sizeof *walked);
    if (!walked) ht_error_memory(&error, "walk", "a walk");
    else
        *walked = (struct walked){.process = {.status_fd = -1, .space = {.memory_fd = -1, .pagemap_fd = -1}},
                                  .core = {.space = {.memory_fd = -1, .pagemap_fd = -1}}};
    json_object_seed(0);  // reads /dev/urandom, which the rights that are left do not suffice for
    int failed = !walked || (options.core ? walk_core(walked, &options, blocks, &error)
                                          : walk_process(walked, &options, blocks, &error));
    if (blocks && (fflush(blocks) || ferror(blocks)) && !failed)
        failed = ht_error_system(&error, options.blocks, "cannot be written");
    if (blocks) fclose(blocks);
    if (walked) free_walked(walked);
    return ht_stdout_status("heaptape walk", failed ? ht_complain("heaptape walk", &error) : HT_EXIT_DONE);
}
