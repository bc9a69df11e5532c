// SPDX-License-Identifier: Apache-2.0
#include "source_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "archive_walk.h"
#include "confined.h"

// What is unpacked must be removed again: by its path, which has an end, and in a time that has one, too.
enum { NAME_BYTES_MAX = 1024, DEPTH_MAX = 32, FOLDERS_MAX = 1 << 14 };

static int check_name(const struct source_tree *tree, const char *name, struct ht_error *error) {
    unsigned depth = 0;
    for (const char *at = name; *at; at++) depth += *at == '/';
    if (depth <= DEPTH_MAX && strlen(name) <= NAME_BYTES_MAX) return 0;
    return ht_error_input(error, tree->path, 0,
                          "expected names of at most %d bytes, %d folders deep, found %.100s", NAME_BYTES_MAX,
                          DEPTH_MAX, name);
}

// The folders above the name, relative to where we are.
static bool make_folders(struct source_tree *tree, const char *name) {
    char part[NAME_BYTES_MAX + 1];
    for (const char *slash = strchr(name, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - name), name);
        if (*part && !mkdir(part, 0700)) tree->folders++;
        else if (*part && errno != EEXIST) return false;
    }
    return true;
}

static int keep_top(struct source_tree *tree, const char *name, struct ht_error *error) {
    while (!strncmp(name, "./", 2)) name += 2;
    size_t length = strcspn(name, "/");
    if (!name[length] || length >= sizeof tree->top ||
        (*tree->top && (strncmp(tree->top, name, length) || tree->top[length])))
        return ht_error_input(error, tree->path, 0,
                              "expected a source archive with all files in one folder, found %.100s", name);
    snprintf(tree->top, sizeof tree->top, "%.*s", (int)length, name);
    return 0;
}

// Two files of one name, or a file that is a folder elsewhere in it, are the archive's own fault.
static int refuse_file(const struct source_tree *tree, const char *name, struct ht_error *error) {
    bool is_its_fault = errno == EEXIST || errno == ENOTDIR || errno == EISDIR || errno == ENAMETOOLONG;
    ht_error_system(error, tree->path, "cannot unpack %.100s", name);
    if (is_its_fault) error->status = HT_EXIT_INPUT;
    return -1;
}

static int unpack_file(void *context, struct archive_file *file, struct ht_error *error) {
    struct source_tree *tree = context;
    if (keep_top(tree, file->name, error) || check_name(tree, file->name, error)) return -1;
    int fd = make_folders(tree, file->name)
                 ? open(file->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                        file->is_executable ? 0700 : 0600)
                 : -1;
    if (fd < 0) return refuse_file(tree, file->name, error);
    int failed = archive_file_copy(file, fd, error);
    close(fd);
    if (tree->folders <= FOLDERS_MAX) return failed;
    return ht_error_input(error, tree->path, 0, "expected at most %d folders, found more", FOLDERS_MAX);
}

static int unpack(void *context, struct ht_error *error) {
    struct source_tree *tree = context;
    if (chdir(tree->folder)) return ht_error_system(error, tree->folder, "cannot be entered");
    if (lseek(tree->fd, 0, SEEK_SET)) return ht_error_system(error, tree->path, "cannot read");
    return archive_walk(tree->fd, tree->path, unpack_file, tree, error);
}

int source_tree_unpack(struct source_tree *tree) {
    int failed = confined_run(unpack, tree, tree->path, &tree->error);
    tree->top[sizeof tree->top - 1] = 0;
    if (failed || *tree->top) return failed;
    return ht_error_input(&tree->error, tree->path, 0, "expected a source archive, found one without a file");
}
