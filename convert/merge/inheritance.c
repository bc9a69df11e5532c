// SPDX-License-Identifier: Apache-2.0
#include "inheritance.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fork_file.h"
#include "raw_state.h"

// A log that names its ancestors without end is a forgery; a server forks a few generations.
enum { ANCESTORS_MAX = 64 };

struct ancestry {
    const struct ht_raw_log *child;
    struct ht_raw_log log[ANCESTORS_MAX];  // the parent first
    unsigned count;
};

// Where the fork lies in the parent's log. A child that nobody announced (a bare clone) was forked before it
// made its log, and that is all that is known.
static struct fork_point fork_of(const struct ht_raw_header *child) {
    bool known = child->fork_stamp != 0;
    return (struct fork_point){.stamp = known ? child->fork_stamp : child->first_pair.stamp,
                               .has_record = known};
}

static bool same_file(const struct ht_raw_log *a, const struct ht_raw_log *b) {
    struct stat left, right;
    return !fstat(a->fd, &left) && !fstat(b->fd, &right) && left.st_dev == right.st_dev &&
           left.st_ino == right.st_ino;
}

static bool is_in(const struct ancestry *ancestry, const struct ht_raw_log *log) {
    if (same_file(ancestry->child, log)) return true;
    for (unsigned i = 0; i < ancestry->count; i++)
        if (same_file(&ancestry->log[i], log)) return true;
    return false;
}

static bool same_run(const struct ht_raw_log *a, const struct ht_raw_log *b) {
    const char *left = ht_raw_context(a, "run"), *right = ht_raw_context(b, "run");
    return !left || !right || !strcmp(left, right);
}

int inheritance_check_fork(const struct ht_raw_header *child, const struct ht_raw_header *parent,
                           const char *path, struct ht_error *error) {
    uint64_t forked = fork_of(child).stamp;
    char words[HT_STOP_TEXT_BYTES];
    if (parent->clock_kind != child->clock_kind || parent->clock_shift != child->clock_shift)
        return ht_error_input(error, path, 56, "expected clock %" PRIu32 ", found %" PRIu32,
                              child->clock_kind, parent->clock_kind);
    if (parent->first_pair.stamp > forked)
        return ht_error_input(
            error, path, 64, "expected a recording that began before the fork at %" PRIu64 ", found %" PRIu64,
            forked, parent->first_pair.stamp);
    if ((parent->state == HT_RAW_STOPPED || parent->state == HT_RAW_PAUSED) && parent->stop_stamp &&
        parent->stop_stamp < forked)
        return ht_error_input(error, path, 144,
                              "expected a recording of the fork, found one that ended before it (%s)",
                              ht_stop_words(parent, words) ? words : "no reason given");
    return 0;
}

// Is this the log of the process that `child` was forked from, and does it have what was live then?
static int check_parent(const struct ancestry *ancestry, const struct ht_raw_log *child,
                        const struct ht_raw_log *parent, struct ht_error *error) {
    const struct ht_raw_header *of = &parent->header, *wanted = &child->header;
    if (is_in(ancestry, parent))
        return ht_error_input(error, parent->path, 32,
                              "expected the log of a parent, found one of its descendants");
    if (of->pid != wanted->parent_pid || of->sequence != wanted->parent_sequence)
        return ht_error_input(error, parent->path, 24,
                              "expected log %" PRIu32 " of process %" PRIu32 ", found log %" PRIu32 " of "
                              "process %" PRIu32,
                              wanted->parent_sequence, wanted->parent_pid, of->sequence, of->pid);
    if (!same_run(child, parent))
        return ht_error_input(error, parent->path, HT_RAW_CONTEXT_OFFSET,
                              "expected a log of the same run, found another run's");
    return inheritance_check_fork(wanted, of, parent->path, error);
}

// malloc-footprint.PID[.N].mraw in the same folder.
static bool path_beside(const struct ht_raw_log *child, char path[PATH_MAX]) {
    const char *slash = strrchr(child->path, '/');
    int folder = slash ? (int)(slash + 1 - child->path) : 0;
    char sequence[16] = "";
    if (child->header.parent_sequence)
        snprintf(sequence, sizeof sequence, ".%" PRIu32, child->header.parent_sequence);
    return snprintf(path, PATH_MAX, "%.*smalloc-footprint.%" PRIu32 "%s.mraw", folder, child->path,
                    child->header.parent_pid, sequence) < PATH_MAX;
}

// Opens the log of the child's parent as the next ancestor. Returns 0 or -1 with error.
static int add_parent(struct ancestry *ancestry, const struct ht_raw_log *child, const char *named,
                      struct ht_error *error) {
    char path[PATH_MAX];
    if (ancestry->count == ANCESTORS_MAX)
        return ht_error_input(error, child->path, 32, "expected at most %d ancestors", ANCESTORS_MAX);
    if (!named && !path_beside(child, path)) {
        errno = ENAMETOOLONG;
        return ht_error_system(error, child->path, "cannot search for its parent's log");
    }
    struct ht_raw_log *parent = &ancestry->log[ancestry->count];
    if (ht_raw_open(parent, named ? named : path, error)) return -1;
    if (check_parent(ancestry, child, parent, error) || consumed_log_check(parent, error)) {
        ht_raw_close(parent);
        return -1;
    }
    ancestry->count++;
    return 0;
}

static void warn(char warning[INHERITANCE_WARNING_BYTES], const struct ht_raw_header *child,
                 const char *why) {
    snprintf(warning, INHERITANCE_WARNING_BYTES,
             "process %" PRIu32 " was forked from %" PRIu32 ", whose log cannot be used (%s): frees of "
             "blocks inherited from it are foreign; put its log into this folder, name it by --parent, or "
             "give --no-parent",
             child->pid, child->parent_pid, why);
}

// Finds the logs from the parent up to the eldest that there is. Returns 0 or -1 with error.
static int find_ancestors(struct ancestry *ancestry, const char *parent_path, char *warning,
                          struct ht_error *error) {
    if (parent_path && !ancestry->child->header.parent_pid)
        return ht_error_input(error, ancestry->child->path, 32,
                              "expected the log of a forked process, found one without a parent");
    for (const struct ht_raw_log *log = ancestry->child; log->header.parent_pid;) {
        const char *named = log == ancestry->child ? parent_path : NULL;
        if (add_parent(ancestry, log, named, error)) {
            if (named || error->status != HT_EXIT_INPUT) return -1;
            warn(warning, &log->header, error->message);
            return 0;
        }
        log = &ancestry->log[ancestry->count - 1];
    }
    return 0;
}

static void warn_of_damage(char warning[INHERITANCE_WARNING_BYTES], const struct ht_raw_header *child,
                           const struct ht_raw_damage *damage) {
    snprintf(warning, INHERITANCE_WARNING_BYTES,
             "process %" PRIu32 " was forked from %" PRIu32
             ", whose log is damaged (%s): the blocks inherited from it may be too many or too few",
             child->pid, child->parent_pid, damage->first);
}

// From the eldest down: what each handed on to the next. Returns 0 or -1 with error.
static int follow(const struct ancestry *ancestry, bool named, struct live_blocks *blocks, char *warning,
                  const struct merge_progress *progress, struct ht_error *error) {
    for (unsigned i = ancestry->count; i-- > 0;) {
        const struct ht_raw_log *heir = i ? &ancestry->log[i - 1] : ancestry->child;
        const struct fork_point fork = fork_of(&heir->header);
        struct live_blocks next = {0};
        struct ht_raw_damage damage = {0};
        if (merge_to_fork(&ancestry->log[i], blocks, &fork, &next, &damage, progress, error)) {
            if ((named && i == 0) || error->status != HT_EXIT_INPUT) return -1;
            warn(warning, &heir->header, error->message);
        }
        if (damage.places) warn_of_damage(warning, &heir->header, &damage);
        live_blocks_free(blocks);
        *blocks = next;
    }
    return 0;
}

// What the parent's follower has noted at the fork. True if it has.
static bool find_noted(const struct ht_raw_log *child, struct live_blocks *blocks) {
    char path[PATH_MAX];
    uint64_t passed;
    return child->header.parent_pid && child->header.fork_stamp && path_beside(child, path) &&
           fork_file_find(path, child, blocks, &passed) == FORK_FILE_FOUND;
}

bool inheritance_must_wait(const struct ht_raw_log *child, struct inheritance_wait *wait) {
    char path[PATH_MAX];
    uint64_t passed = 0;
    struct live_blocks blocks;
    if (!child->header.parent_pid || !child->header.fork_stamp || !path_beside(child, path)) return false;
    enum fork_file_answer answer = fork_file_find(path, child, &blocks, &passed);
    live_blocks_free(&blocks);
    wait->progresses = passed != wait->passed_stamp;
    wait->passed_stamp = passed;
    return answer == FORK_FILE_AHEAD || (answer == FORK_FILE_NONE && wait->for_parent && !access(path, F_OK));
}

int inheritance_find(const struct ht_raw_log *child, const char *parent_path, struct live_blocks *blocks,
                     char warning[INHERITANCE_WARNING_BYTES], const struct merge_progress *progress,
                     struct ht_error *error) {
    struct ancestry *ancestry = calloc(1, sizeof *ancestry);
    *blocks = (struct live_blocks){0};
    *warning = 0;
    if (!parent_path && find_noted(child, blocks)) {
        free(ancestry);
        return 0;
    }
    if (!ancestry) return ht_error_memory(error, child->path, "cannot search for its parent's log");
    ancestry->child = child;
    int status = find_ancestors(ancestry, parent_path, warning, error);
    if (!status) status = follow(ancestry, parent_path != NULL, blocks, warning, progress, error);
    if (status) live_blocks_free(blocks);
    for (unsigned i = 0; i < ancestry->count; i++) ht_raw_close(&ancestry->log[i]);
    free(ancestry);
    return status;
}
