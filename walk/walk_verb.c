// SPDX-License-Identifier: Apache-2.0
// heaptape walk: what the heap of a running process consists of, found from outside.
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core_file.h"
#include "json_values.h"
#include "now.h"
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

enum { OPTION_STOP = 256, OPTION_BLOCKS, OPTION_CORE, PID_MAX = 1 << 22, OPEN_S_MAX = 60 };
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
    case OPTION_BLOCKS:
        if (!strcmp(value, "-"))
            argp_error(state, "--blocks -: expected a file, standard output has the JSON");
        options->blocks = value;
        return 0;
    case ARGP_KEY_END:
        if (!options->pid == !options->core) argp_error(state, "expected one of --pid and --core");
        if (options->core && options->stop) argp_error(state, "--stop: expected --pid, found --core");
        if (options->core && options->blocks && output_file_replaces(options->blocks, options->core))
            argp_error(state, "--blocks %s: the blocks would overwrite the core", options->blocks);
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
        snprintf(
            why, room,
            "glibc's main arena was not found: nothing was allocated, it is damaged, or of another layout");
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

// What brk gave, in RAM or not.
static uint64_t heap_bytes(const struct space *space) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < space->mapping_count; i++)
        if (!strcmp(space->mappings[i].name, "[heap]"))
            bytes += space->mappings[i].end - space->mappings[i].start;
    return bytes;
}

static int walk_process(struct walked *walked, const struct options *options, FILE *blocks,
                        struct ht_error *error) {
    struct process *process = &walked->process;
    double began_s = ht_now_s();
    if (process_open(process, (pid_t)options->pid, error) || (options->stop && process_stop(process, error)))
        return -1;
    struct process_memory memory = process_memory_now(process);
    if (rights_drop_user(error) || rights_limit(memory.rss_bytes, heap_bytes(&process->space), error) ||
        rights_drop_rest(error) || walk_space(walked, &process->space, blocks, error))
        return -1;
    memory = process_memory_now(process);
    if (!process_is_there(process)) {
        errno = 0;
        return ht_error_system(error, "walk", "process %d ended while it was read, or ran another program",
                               (int)process->pid);
    }
    process_go_on(process);
    print(walked, (struct walk_result){.process = process,
                                       .memory = memory,
                                       .stopped = options->stop,
                                       .seconds = ht_now_s() - began_s});
    return 0;
}

static int walk_core(struct walked *walked, const struct options *options, FILE *blocks,
                     struct ht_error *error) {
    struct core_file *core = &walked->core;
    double began_s = ht_now_s();
    struct stat file = {0};
    if (core_file_open(core, options->core, error)) return -1;
    (void)fstat(core->space.memory_fd, &file);
    uint64_t bytes = (uint64_t)file.st_size;
    if (rights_drop_user(error) || rights_limit(bytes, bytes, error) || core_file_read(core, error) ||
        rights_drop_rest(error) || walk_space(walked, &core->space, blocks, error))
        return -1;
    print(walked, (struct walk_result){.core = core->command, .seconds = ht_now_s() - began_s});
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

// The exit status. In a process of its own, which gives up its rights.
static int walk(const struct options *options, int blocks_fd) {
    struct ht_error error;
    FILE *blocks = blocks_fd < 0 ? NULL : fdopen(blocks_fd, "w");
    struct walked *walked = calloc(1, sizeof *walked);
    alarm(OPEN_S_MAX);
    if (!walked) ht_error_memory(&error, "walk", "a walk");
    else
        *walked = (struct walked){
            .process = {.folder_fd = -1, .status_fd = -1, .space = {.memory_fd = -1, .pagemap_fd = -1}},
            .core = {.space = {.memory_fd = -1, .pagemap_fd = -1}}};
    json_object_seed(0);  // reads /dev/urandom, which the rights that are left do not suffice for
    int failed = !walked || (options->core ? walk_core(walked, options, blocks, &error)
                                           : walk_process(walked, options, blocks, &error));
    if (blocks && (fflush(blocks) || ferror(blocks)) && !failed)
        failed = ht_error_system(&error, options->blocks, "cannot be written");
    if (walked) free_walked(walked);
    return ht_stdout_status("heaptape walk", failed ? ht_complain("heaptape walk", &error) : HT_EXIT_DONE);
}

// What ends us both, by the terminal or a closed pipe, is no failure to tell of.
static int complain_of_end(int number, struct ht_error *error) {
    if (number == SIGPIPE || number == SIGINT || number == SIGTERM || number == SIGHUP) {
        signal(number, SIG_DFL);
        raise(number);
    }
    errno = 0;
    if (number == SIGALRM || number == SIGXCPU)
        return ht_error_system(
            error, "walk",
            "given up, for it took too long: what is read is damaged, or a file does not answer");
    return ht_error_system(error, "walk", "it was ended by signal %d", number);
}

int ht_verb_walk(int argc, char **argv) {
    struct options options = {0};
    struct output_file blocks = {.fd = -1};
    struct ht_error error;
    int wait_status = 0;
    ht_page_parse(&ht_page_walk, argc, argv, 0, &options);
    if (options.blocks && output_file_open_private(&blocks, options.blocks)) {
        ht_error_system(&error, options.blocks, "cannot be written");
        return ht_complain("heaptape walk", &error);
    }
    fflush(stdout);
    pid_t walker = fork();
    if (!walker) {
        rights_close_all_but(blocks.fd);
        exit(walk(&options, blocks.fd));
    }
    while (walker > 0 && waitpid(walker, &wait_status, 0) < 0 && errno == EINTR) {
    }
    int failed = walker < 0 ? ht_error_system(&error, "walk", "no process could be started") : 0;
    bool done = !failed && WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == HT_EXIT_DONE;
    const char *wrong = done && blocks.fd >= 0 ? output_file_finish(&blocks) : NULL;
    if (wrong) failed = ht_error_system(&error, options.blocks, "%s", wrong);
    output_file_abandon(&blocks);
    if (!failed && WIFSIGNALED(wait_status)) failed = complain_of_end(WTERMSIG(wait_status), &error);
    return failed ? ht_complain("heaptape walk", &error) : WEXITSTATUS(wait_status);
}
