// SPDX-License-Identifier: Apache-2.0
#include "adding.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <gnu/libc-version.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "added_allocators.h"
#include "all_bytes.h"
#include "confined.h"
#include "file_digest.h"
#include "json_values.h"
#include "package_library.h"
#include "print.h"
#include "source_build.h"
#include "talk.h"

static const char partial_prefix[] = ".partial-";

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *at) {
    (void)status, (void)at;
    if (type == FTW_DP) rmdir(path);
    else unlink(path);
    return 0;
}

static void remove_tree(const char *path) {
    enum { FOLDERS_OPEN_MAX = 16 };
    nftw(path, remove_one, FOLDERS_OPEN_MAX, FTW_DEPTH | FTW_PHYS);
}

static int open_folder(const char *path) {
    return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

// What processes left that were killed.
static void sweep(const char *all) {
    char path[PATH_MAX];
    struct dirent *one;
    DIR *listing = opendir(all);
    while (listing && (one = readdir(listing))) {
        if (strncmp(one->d_name, partial_prefix, strlen(partial_prefix)) ||
            snprintf(path, sizeof path, "%s/%s", all, one->d_name) >= PATH_MAX)
            continue;
        int fd = open_folder(path);
        if (fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB)) remove_tree(path);
        if (fd >= 0) close(fd);
    }
    if (listing) closedir(listing);
}

static bool make_folders(const char *path) {
    char part[PATH_MAX];
    for (const char *at = path; at && *at; at = strchr(at + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", (int)(at - path), path);
        if (*part && mkdir(part, 0700) && errno != EEXIST) return false;
    }
    return !mkdir(path, 0700) || errno == EEXIST;
}

// The folder, locked. A sweep may have removed it before the lock: then not, with ENOENT.
static bool make_partial(struct added_entry *entry) {
    struct stat status;
    snprintf(entry->partial, sizeof entry->partial, "%.*s/%sXXXXXX", PATH_MAX - 32, entry->all,
             partial_prefix);
    if (!mkdtemp(entry->partial)) return false;
    entry->fd = open_folder(entry->partial);
    if (entry->fd >= 0 && !flock(entry->fd, LOCK_EX) && !fstat(entry->fd, &status)) {
        if (status.st_nlink) return true;
        errno = ENOENT;
    }
    int why = errno;
    rmdir(entry->partial);
    *entry->partial = 0;
    if (entry->fd >= 0) close(entry->fd);
    entry->fd = -1;
    errno = why;
    return false;
}

// 0, or -1 with an error.
static int added_entry_begin(struct added_entry *entry, struct ht_error *error) {
    enum { TRIES = 100 };
    *entry = (struct added_entry){.fd = -1};
    if (!ht_added_folder(entry->all)) {
        errno = 0;
        return ht_error_system(error, "$XDG_DATA_HOME, $HOME", "expected an absolute path in one of them");
    }
    if (!make_folders(entry->all)) return ht_error_system(error, entry->all, "cannot be made");
    sweep(entry->all);
    errno = ENOENT;
    for (int i = 0; i < TRIES && errno == ENOENT; i++)
        if (make_partial(entry)) return 0;
    return ht_error_system(error, entry->all, "cannot make a folder in it");
}

static int open_new(const struct added_entry *entry, const char *name, mode_t mode, struct ht_error *error) {
    int fd = openat(entry->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd < 0) ht_error_system(error, entry->all, "cannot write %.64s", name);
    return fd;
}

static int finish(const struct added_entry *entry, const char *name, int fd, bool written,
                  struct ht_error *error) {
    int failed = written && !fsync(fd) ? 0 : ht_error_system(error, entry->all, "cannot write %.64s", name);
    close(fd);
    return failed;
}

// Copies what fd has from its beginning into a new file.
static int added_entry_put(const struct added_entry *entry, const char *name, int from,
                           struct ht_error *error) {
    static char block[1 << 16];
    ssize_t got = 0;
    off_t at = 0;
    bool written = true;
    int fd = open_new(entry, name, 0700, error);
    if (fd < 0) return -1;
    while (written && (got = pread(from, block, sizeof block, at)) > 0) {
        written = ht_write_all(fd, block, (size_t)got);
        at += got;
    }
    return finish(entry, name, fd, written && !got, error);
}

static int added_entry_put_text(const struct added_entry *entry, const char *name, const char *text,
                                struct ht_error *error) {
    int fd = open_new(entry, name, 0600, error);
    return fd < 0 ? -1 : finish(entry, name, fd, ht_write_all(fd, text, strlen(text)), error);
}

// A folder that is not empty is not replaced.
// Gives it its name. False with errno, EEXIST where another is there.
static bool added_entry_commit(struct added_entry *entry, const char *name) {
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", entry->all, name) >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return false;
    }
    if (fsync(entry->fd) || rename(entry->partial, path)) {
        if (errno == ENOTEMPTY) errno = EEXIST;
        return false;
    }
    *entry->partial = 0;
    int all = open_folder(entry->all);
    if (all >= 0) fsync(all);
    if (all >= 0) close(all);
    return true;
}

// Removes what has no name yet.
static void added_entry_abandon(struct added_entry *entry) {
    if (*entry->partial) remove_tree(entry->partial);
    if (entry->fd >= 0) close(entry->fd);
    *entry = (struct added_entry){.fd = -1};
}

// It loses its name first: one that is half removed is nobody's.
int added_entry_remove(const char *name, struct ht_error *error) {
    struct added_entry entry;
    char path[PATH_MAX];
    if (added_entry_begin(&entry, error)) return -1;
    snprintf(path, sizeof path, "%.*s/%s", PATH_MAX - HT_ADDED_NAME_BYTES - 2, entry.all, name);
    int failed = renameat(AT_FDCWD, path, entry.fd, name);
    if (failed) ht_error_system(error, path, "cannot be removed");
    added_entry_abandon(&entry);
    return failed;
}

static int refuse(struct addition *addition, const char *format, const char *what, const char *more) {
    char text[400];
    snprintf(text, sizeof text, format, what, more);
    addition->error.status = HT_EXIT_INPUT;
    snprintf(addition->error.message, sizeof addition->error.message, "%.300s: %s", addition->path, text);
    return -1;
}

// The version, and by what it is known; NULL if nothing says it.
static const char *known_version(const struct addition *addition, const struct package_library *package,
                                 const char **evidence) {
    const struct proved_library *proved = &package->file[package->chosen].proved;
    *evidence = *proved->version            ? proved->evidence
                : *package->package_version ? "the version of its package"
                                            : addition->known_by;
    return *proved->version            ? proved->version
           : *package->package_version ? package->package_version
                                       : addition->known_version;
}

static bool begins_with_version(const char *text, const char *version) {
    size_t length = strlen(version);
    return !strncmp(text, version, length) && (!text[length] || !strchr("0123456789.", text[length]));
}

static int name_as_wanted(struct addition *addition, const struct ht_allocator *kind, const char *version,
                          const char **evidence) {
    const char *wanted_version;
    if (ht_added_kind(addition->wanted_name, &wanted_version) != kind)
        return refuse(addition, "expected %s, which --name gives, found %s", addition->wanted_name,
                      kind->name);
    if (version && !begins_with_version(wanted_version, version))
        return refuse(addition, "expected the version that --name gives, %s, found %s", wanted_version,
                      version);
    if (!version) *evidence = "--name";
    snprintf(addition->name, sizeof addition->name, "%s", addition->wanted_name);
    return 0;
}

static int name_it(struct addition *addition, const struct package_library *package, const char **evidence) {
    const struct ht_allocator *kind = package->file[package->chosen].proved.kind;
    const char *version = known_version(addition, package, evidence), *same;
    if (addition->wanted_name) return name_as_wanted(addition, kind, version, evidence);
    if (!version)
        return refuse(addition, "expected %s to say its version, found none: give it by --name %s@VERSION",
                      kind->name, kind->name);
    int length = snprintf(addition->name, sizeof addition->name, "%s@%s", kind->name, version);
    if (length < (int)sizeof addition->name && ht_added_kind(addition->name, &same) == kind) return 0;
    return refuse(addition, "expected a version that begins with a digit, found %s%s", version, "");
}

static int put_manifest(struct addition *addition, const struct package_library *package,
                        const char *evidence) {
    json_t *made = json_pack("{s:s, s:s}", "version", strchr(addition->name, '@') + 1, "library",
                             package_library_name(package, package->chosen));
    if (package->is_libc)
        json_object_set_new(made, "loader", json_string(package_library_name(package, package->loader)));
    json_set_known_text(made, "evidence", evidence);
    json_set_known_text(made, "source", addition->source);
    json_set_known_text(made, "source_sha256", addition->sha256);
    char *text = json_dumps(made, JSON_INDENT(2));
    json_decref(made);
    int failed = text ? added_entry_put_text(&addition->entry, HT_ADDED_MANIFEST, text, &addition->error)
                      : ht_error_memory(&addition->error, addition->path, "cannot write what it is");
    free(text);
    return failed;
}

static int put_files(struct addition *addition, const struct package_library *package) {
    for (size_t i = 0; i < package->count; i++)
        if (package_library_takes(package, i) &&
            added_entry_put(&addition->entry, package_library_name(package, i), package->file[i].fd,
                            &addition->error))
            return -1;
    return 0;
}

static int make(void *context, struct ht_error *error) {
    struct addition *addition = context;
    struct package_library package;
    const char *evidence = NULL;
    int failed = package_library_open(&package, addition->fd, addition->path, error);
    if (!failed) failed = name_it(addition, &package, &evidence);
    if (!failed) failed = put_files(addition, &package);
    if (!failed) failed = put_manifest(addition, &package, evidence);
    if (!failed && !package.is_libc)
        snprintf(addition->libc, sizeof addition->libc, "%s", package.file[package.chosen].proved.libc);
    package_library_close(&package);
    return failed;
}

// Proves what the file is, and writes it with its manifest into the entry's folder. 0, or -1 with the error.
static int addition_make(struct addition *addition) {
    int failed = confined_run(make, addition, addition->path, &addition->error);
    addition->name[sizeof addition->name - 1] = addition->libc[sizeof addition->libc - 1] = 0;
    return failed;
}

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
