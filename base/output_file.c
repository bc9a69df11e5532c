// SPDX-License-Identifier: Apache-2.0
#include "output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// In a folder where all may write and only owners remove, /tmp for one, another user's link leads to what that user wants
// overwritten. The kernel follows none where fs.protected_symlinks is 1.
static bool is_trap(const char *path, const struct stat *link) {
    char *copy = strdup(path);
    struct stat folder;
    bool known = copy && !stat(dirname(copy), &folder);
    free(copy);
    if (!known) return true;
    return folder.st_mode & S_ISVTX && folder.st_mode & S_IWOTH && link->st_uid != geteuid() &&
           link->st_uid != folder.st_uid;
}

// Where a regular file of that name is, or will be. NULL: unknown.
static char *final_path(const char *path) {
    struct stat status;
    // Renaming would replace the link, /dev/stdout for one.
    if (stat(path, &status) || lstat(path, &status) || !S_ISLNK(status.st_mode)) return strdup(path);
    if (!is_trap(path, &status)) return realpath(path, NULL);
    errno = EACCES;
    return NULL;
}

// `mode`: of a file that is made, as for open(). `removes`: a signal that ends us removes it.
static int open_output(struct output_file *file, const char *path, mode_t mode, bool removes) {
    struct stat status;
    *file = (struct output_file){.fd = -1};
    if (!strcmp(path, "-")) return (file->fd = dup(STDOUT_FILENO)) < 0 ? -1 : 0;
    if (!*path) {  // no file has it: report that before the work
        errno = ENOENT;
        return -1;
    }
    bool regular = stat(path, &status) || S_ISREG(status.st_mode);
    if (!regular) return (file->fd = open(path, O_WRONLY | O_CLOEXEC)) < 0 ? -1 : 0;
    file->final_path = final_path(path);
    if (!file->final_path) return -1;
    if (asprintf(&file->partial_path, "%s.partial.%d", file->final_path, (int)getpid()) < 0) {
        file->partial_path = NULL;
        return -1;
    }
    // A name left by a process that was killed goes; one that somebody else made there does not lead us away.
    unlink(file->partial_path);
    if (removes) remove_on_signal(file->partial_path);
    file->fd = open(file->partial_path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    return file->fd < 0 ? -1 : 0;
}

int output_file_open(struct output_file *file, const char *path) {
    return open_output(file, path, 0666, true);
}
int output_file_open_private(struct output_file *file, const char *path) {
    return open_output(file, path, HT_PRIVATE_MODE, true);
}
int output_file_open_beside_handlers(struct output_file *file, const char *path) {
    return open_output(file, path, HT_PRIVATE_MODE, false);
}

int output_file_check(const char *path) {
    struct stat status;
    struct output_file file;
    if (!stat(path, &status) && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
        return access(path, W_OK);
    int opened = output_file_open(&file, path), why = errno;
    output_file_abandon(&file);
    errno = why;
    return opened;
}

// Closed last: until the file has its final name, a lock on it keeps others from going on with it.
const char *output_file_finish(struct output_file *file) {
    if (file->partial_path) {
        if (fsync(file->fd)) return "cannot sync";
        if (rename(file->partial_path, file->final_path)) return "cannot rename the finished file";
        keep_on_signal(file->partial_path);
        free(file->partial_path);
        file->partial_path = NULL;
    }
    int closed = close(file->fd);
    file->fd = -1;
    return closed ? "cannot close" : NULL;
}

void output_file_abandon(struct output_file *file) {
    if (file->fd >= 0) close(file->fd);
    if (file->partial_path) {
        unlink(file->partial_path);
        keep_on_signal(file->partial_path);
    }
    free(file->partial_path);
    free(file->final_path);
    *file = (struct output_file){.fd = -1};
}

bool output_file_is_own(int fd) {
    struct stat status;  // a file in memory has no name at all
    return !fstat(fd, &status) && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
           status.st_nlink <= 1;
}

int temporary_file_open(void) {
    const char *folder = getenv("TMPDIR");
    int fd = open(folder && *folder ? folder : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    return fd >= 0 ? fd : memfd_create("heaptape", MFD_CLOEXEC);
}

bool output_file_replaces(const char *output, const char *path) {
    struct stat a, b;
    return strcmp(output, "-") && !stat(output, &a) && S_ISREG(a.st_mode) && !stat(path, &b) &&
           a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// ---- signals ----

static const int deadly[] = {SIGINT, SIGTERM, SIGHUP};
enum { DEADLY = sizeof deadly / sizeof *deadly, FILES_MAX = 4 };

// A handler has no other way to know them. Changed only while the signals wait.
static char doomed[FILES_MAX][PATH_MAX];

static void remove_them(int number) {
    for (int i = 0; i < FILES_MAX; i++)
        if (*doomed[i]) unlink(doomed[i]);
    // Its disposition was reset when we came here: the signal ends us once we return.
    raise(number);
}

sigset_t hold_signals(void) {
    sigset_t set, before;
    sigemptyset(&set);
    for (int i = 0; i < DEADLY; i++) sigaddset(&set, deadly[i]);
    pthread_sigmask(SIG_BLOCK, &set, &before);
    return before;
}

void let_signals(sigset_t as_before) { pthread_sigmask(SIG_SETMASK, &as_before, NULL); }

// Signals that were ignored stay so.
static void heed_signals(bool removes) {
    struct sigaction old, action = {.sa_handler = SIG_DFL};
    if (removes) action = (struct sigaction){.sa_handler = remove_them, .sa_flags = (int)SA_RESETHAND};
    for (int i = 0; i < DEADLY; i++)
        if (!sigaction(deadly[i], NULL, &old) && old.sa_handler != SIG_IGN)
            sigaction(deadly[i], &action, NULL);
}

void remove_on_signal(const char *path) {
    sigset_t before = hold_signals();
    int i = 0;
    while (i < FILES_MAX && *doomed[i]) i++;
    if (i < FILES_MAX && snprintf(doomed[i], PATH_MAX, "%s", path) >= PATH_MAX) *doomed[i] = 0;
    heed_signals(true);
    let_signals(before);
}

void keep_on_signal(const char *path) {
    int i = 0, others = 0;
    while (i < FILES_MAX && strcmp(doomed[i], path)) i++;
    if (i == FILES_MAX) return;
    sigset_t before = hold_signals();
    *doomed[i] = 0;
    for (int j = 0; j < FILES_MAX; j++) others += *doomed[j] != 0;
    if (!others) heed_signals(false);
    let_signals(before);
}
