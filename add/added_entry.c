// SPDX-License-Identifier: Apache-2.0
#include "added_entry.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "added_allocators.h"
#include "all_bytes.h"

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

int added_entry_begin(struct added_entry *entry, struct ht_error *error) {
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

int added_entry_put(const struct added_entry *entry, const char *name, int from, struct ht_error *error) {
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

int added_entry_put_text(const struct added_entry *entry, const char *name, const char *text,
                         struct ht_error *error) {
    int fd = open_new(entry, name, 0600, error);
    return fd < 0 ? -1 : finish(entry, name, fd, ht_write_all(fd, text, strlen(text)), error);
}

// A folder that is not empty is not replaced.
bool added_entry_commit(struct added_entry *entry, const char *name) {
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

void added_entry_abandon(struct added_entry *entry) {
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
