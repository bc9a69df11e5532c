// SPDX-License-Identifier: Apache-2.0
#include "adding.h"

#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "addition.h"
#include "confined.h"
#include "file_digest.h"
#include "print.h"
#include "source_build.h"
#include "source_tree.h"
#include "talk.h"

static const off_t FILE_BYTES_MAX = (off_t)2 << 30;
static const char program[] = "heaptape allocators";

static int say_added(const char *name, const struct addition *addition) {
    struct ht_added added;
    char problem[HT_ADDED_PROBLEM_BYTES];
    if (!ht_added_find(name, &added, problem)) {
        ht_print(stderr, "%s: %s\n", program, problem);
        return HT_EXIT_FAILED;
    }
    ht_print(stdout, "%s  %s\n", added.name, *added.loader ? added.loader : added.library);
    ht_print(stderr, "its version by %s\n", added.evidence);
    if (strverscmp(addition->libc, gnu_get_libc_version()) > 0)
        ht_print(stderr,
                 "warning: it needs glibc %s, and this system has %s: it can be replayed where that is\n",
                 addition->libc, gnu_get_libc_version());
    ht_print(stderr, "next: heaptape replay --alloc glibc,%s TRACE\n", added.name);
    return ht_stdout_status(program, HT_EXIT_DONE);
}

// Another of that name is there. The same again is no failure.
static int say_there(const struct addition *addition) {
    struct ht_added added;
    char problem[HT_ADDED_PROBLEM_BYTES];
    if (ht_added_find(addition->name, &added, problem) && !strcmp(added.sha256, addition->sha256)) {
        ht_print(stderr, "%s: %s is there already, from the same file\n", program, addition->name);
        return HT_EXIT_DONE;
    }
    ht_print(stderr, "%s: %s is there already, from %s: remove it, or call this one %s-WORD by --name\n",
             program, addition->name, *added.source ? added.source : "another file", addition->name);
    return HT_EXIT_FAILED;
}

static int commit(struct addition *addition) {
    const char *version;
    char name[HT_ADDED_NAME_BYTES];
    snprintf(name, sizeof name, "%s", addition->name);
    if (!ht_added_kind(name, &version)) {
        ht_print(stderr, "%s: %s: unpacking it gave no name\n", program, addition->path);
        return HT_EXIT_INPUT;
    }
    if (added_entry_commit(&addition->entry, name)) return say_added(name, addition);
    if (errno == EEXIST) return say_there(addition);
    ht_error_system(&addition->error, addition->entry.all, "cannot name %s", name);
    return ht_complain(program, &addition->error);
}

// The kernel's own files have no size, and some no end. NULL: it may be read.
static const char *unreadable(const struct stat *status) {
    if (S_ISDIR(status->st_mode)) return "a folder";
    if (!S_ISREG(status->st_mode)) return "a pipe, socket or device";
    if (status->st_size == 0) return "an empty file";
    return status->st_size > FILE_BYTES_MAX ? "a file of more than 2 GiB" : NULL;
}

static int open_source(struct addition *addition) {
    struct stat status;
    char again[64];
    const char *slash = strrchr(addition->path, '/');
    snprintf(addition->source, sizeof addition->source, "%s", slash ? slash + 1 : addition->path);
    addition->fd = open(addition->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (addition->fd < 0 || fstat(addition->fd, &status)) {
        ht_error_system(&addition->error, addition->path, "cannot open");
        addition->error.status = HT_EXIT_INPUT;
        return -1;
    }
    const char *found = unreadable(&status);
    if (found)
        return ht_error_input(&addition->error, addition->path, 0,
                              "expected a package (.deb, .rpm, .whl, .tar.*) or a shared library, found %s",
                              found);
    snprintf(again, sizeof again, "/proc/self/fd/%d", addition->fd);
    if (!ht_file_sha256(again, addition->sha256)) return 0;
    return ht_error_system(&addition->error, addition->path, "cannot read");
}

// Before anything is read: what is there must be able to be loaded.
static int begin_entry(struct addition *addition) {
    enum { PATH_BYTES_MAX = 2048 };
    char problem[HT_ADDED_PROBLEM_BYTES];
    struct ht_error *error = &addition->error;
    umask(S_IRWXG | S_IRWXO);
    if (added_entry_begin(&addition->entry, error)) return -1;
    const char *all = addition->entry.all;
    errno = 0;
    if (!ht_added_is_safe(all, problem)) {
        error->status = HT_EXIT_FAILED;
        snprintf(error->message, sizeof error->message, "%s", problem);
        return -1;
    }
    if (strpbrk(all, " :") || strlen(all) > PATH_BYTES_MAX)
        return ht_error_system(error, all, "expected a path without space or colon, of at most %d bytes",
                               PATH_BYTES_MAX);
    return 0;
}

// In confined memory, for the file that is added or what was built of it. NULL with a line on stderr.
static struct addition *new_addition(const char *path, const char *name) {
    struct addition *addition = confined_memory(sizeof *addition);
    if (!addition) {
        fprintf(stderr, "%s: no memory\n", program);
        return NULL;
    }
    addition->path = path;
    addition->wanted_name = name;
    addition->fd = addition->entry.fd = -1;
    return addition;
}

static void end_addition(struct addition *addition) {
    added_entry_abandon(&addition->entry);
    if (addition->fd >= 0) close(addition->fd);
}

// ---- from sources ----

static int add_library(struct addition *source, const struct source_build *build, struct ht_error *error) {
    struct addition *made = new_addition(source->path, source->wanted_name);
    if (!made) return HT_EXIT_FAILED;
    memcpy(made->source, source->source, sizeof made->source);
    memcpy(made->sha256, source->sha256, sizeof made->sha256);
    made->known_version = *build->version ? build->version : NULL;
    made->known_by = "the name of its sources";
    made->fd = open(build->library, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    int failed = made->fd < 0 ? ht_error_system(&made->error, made->path, "cannot read what was built") : 0;
    if (!failed) failed = begin_entry(made);
    if (!failed) failed = addition_make(made);
    int status = failed ? made->error.status : commit(made);
    if (failed) *error = made->error;
    end_addition(made);
    return status;
}

static const char *version_of_name(const char *name) { return name ? strchr(name, '@') + 1 : ""; }

static int build_all(struct addition *source, const struct source_tree *tree, struct ht_error *error) {
    static struct source_build builds[SOURCE_BUILDS_MAX];
    size_t count = source_builds_plan(builds, tree);
    int status = HT_EXIT_INPUT;
    for (size_t i = 0; i < count; i++) {
        const char *version = *builds[i].version ? builds[i].version : version_of_name(source->wanted_name);
        int one = source_build_make(&builds[i], tree, version, error)
                      ? error->status
                      : add_library(source, &builds[i], error);
        if (i == 0 || status) status = one;
    }
    if (count) return status;
    error->status = HT_EXIT_INPUT;
    snprintf(
        error->message, sizeof error->message,
        "%.300s: expected the sources or the crate of mimalloc, jemalloc, rpmalloc, snmalloc or hardened_malloc, found %.64s",
        source->path, tree->top);
    return HT_EXIT_INPUT;
}

static int add_sources(struct addition *source) {
    struct source_tree *tree = confined_memory(sizeof *tree);
    struct ht_error error = {0};
    if (!tree) return ht_error_memory(&source->error, source->path, "cannot unpack"), HT_EXIT_FAILED;
    tree->fd = source->fd;
    tree->path = source->path;
    memcpy(tree->folder, source->entry.partial, sizeof tree->folder);
    int status = source_tree_unpack(tree) ? (error = tree->error).status : build_all(source, tree, &error);
    if (status && error.status) ht_complain(program, &error);
    return status;
}

int adding(const char *path, const char *name, bool build) {
    struct addition *addition = new_addition(path, name);
    if (!addition) return HT_EXIT_FAILED;
    int failed = open_source(addition), status;
    if (!failed) failed = begin_entry(addition);
    if (!failed && !build) failed = addition_make(addition);
    if (failed) status = ht_complain(program, &addition->error);
    else status = build ? add_sources(addition) : commit(addition);
    end_addition(addition);
    return status;
}
