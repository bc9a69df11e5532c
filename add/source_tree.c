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

// The folders above the name, relative to where we are.
static bool make_folders(const char *name) {
    char part[PATH_MAX];
    for (const char *slash = strchr(name, '/'); slash; slash = strchr(slash + 1, '/')) {
        if (snprintf(part, sizeof part, "%.*s", (int)(slash - name), name) >= PATH_MAX) return false;
        if (*part && mkdir(part, 0700) && errno != EEXIST) return false;
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

static int unpack_file(void *context, struct archive_file *file, struct ht_error *error) {
    struct source_tree *tree = context;
    if (keep_top(tree, file->name, error)) return -1;
    int fd = make_folders(file->name) ? open(file->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                                             file->is_executable ? 0700 : 0600)
                                      : -1;
    if (fd < 0) return ht_error_system(error, tree->path, "cannot unpack %.100s", file->name);
    int failed = archive_file_copy(file, fd, error);
    close(fd);
    return failed;
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
