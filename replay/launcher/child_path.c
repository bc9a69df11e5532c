// SPDX-License-Identifier: Apache-2.0
// Walks a path as the kernel would for the child, link by link: what the launcher opened itself would be its own where the path
// goes through /proc/self.
#include "child_path.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "kernel_numbers.h"

enum { LINKS_MAX = 40, PROC_ROOT_INODE = 1 };

struct walk {
    pid_t thread;
    int at;               // what has been reached
    char rest[PATH_MAX];  // of the path
};

static int open_of(pid_t thread, const char *what) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)thread, what);
    return open(path, O_PATH | O_CLOEXEC);
}

static bool reach(struct walk *walk, int next) {
    if (next < 0) return false;
    close(walk->at);
    walk->at = next;
    return true;
}

static pid_t process_of(pid_t thread) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/status", (int)thread);
    double process = ht_number_in_file(path, "Tgid:");
    return process > 0 ? (pid_t)process : thread;
}

// The link's text comes before the rest. Those of a process in /proc are no texts: the kernel follows them.
static bool follow(struct walk *walk, const char *name, int link) {
    char text[PATH_MAX], rest[PATH_MAX];
    struct statfs system;
    struct stat folder;
    if (fstatfs(walk->at, &system) || fstat(walk->at, &folder)) return false;
    bool in_proc = system.f_type == PROC_SUPER_MAGIC, in_root = in_proc && folder.st_ino == PROC_ROOT_INODE;
    if (in_proc && !in_root) return reach(walk, openat(walk->at, name, O_PATH | O_CLOEXEC));
    int process = (int)process_of(walk->thread);
    if (in_root && !strcmp(name, "self")) {
        snprintf(text, sizeof text, "%d", process);
    } else if (in_root && !strcmp(name, "thread-self")) {
        snprintf(text, sizeof text, "%d/task/%d", process, (int)walk->thread);
    } else {
        ssize_t bytes = readlinkat(link, "", text, sizeof text - 1);
        if (bytes < 0) return false;
        text[bytes] = 0;
    }
    int length = snprintf(rest, sizeof rest, "%s/%s", text, walk->rest);
    if (length < 0 || (size_t)length >= sizeof rest) return false;
    memcpy(walk->rest, rest, (size_t)length + 1);
    return text[0] != '/' || reach(walk, open_of(walk->thread, "root"));
}

// One name of the path.
static bool step(struct walk *walk, unsigned *links) {
    char name[NAME_MAX + 1];
    struct stat found;
    char *begin = walk->rest + strspn(walk->rest, "/");
    size_t length = strcspn(begin, "/");
    if (length >= sizeof name) return false;
    memcpy(name, begin, length);
    name[length] = 0;
    memmove(walk->rest, begin + length, strlen(begin + length) + 1);
    if (!length) return true;
    int next = openat(walk->at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (next < 0) return false;
    if (fstat(next, &found) || !S_ISLNK(found.st_mode)) return reach(walk, next);
    bool followed = ++*links <= LINKS_MAX && follow(walk, name, next);
    close(next);
    return followed;
}

bool ht_child_path(pid_t thread, int folder, const char *path, char real[PATH_MAX]) {
    struct walk walk = {.thread = thread};
    unsigned links = 0;
    char of_folder[32];
    size_t length = strlen(path);
    snprintf(of_folder, sizeof of_folder, folder == AT_FDCWD ? "cwd" : "fd/%d", folder);
    if (!length || length >= sizeof walk.rest) return false;
    memcpy(walk.rest, path, length + 1);
    walk.at = open_of(thread, path[0] == '/' ? "root" : of_folder);
    if (walk.at < 0) return false;
    bool going = true;
    while (going && walk.rest[0]) going = step(&walk, &links);
    snprintf(of_folder, sizeof of_folder, "/proc/self/fd/%d", walk.at);
    ssize_t bytes = going ? readlink(of_folder, real, PATH_MAX - 1) : -1;
    close(walk.at);
    if (bytes > 0) real[bytes] = 0;
    return bytes > 0;
}
