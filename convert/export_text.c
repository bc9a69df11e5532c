#include "export_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void fail(struct export_text *text, const char *what) {
    if (text->failed) return;
    text->failed = true;
    ht_error_system(&text->error, strcmp(text->path, "-") ? text->path : "standard output", "%s", what);
}

static int begin(struct export_text *text, const char *path, struct ht_error *error) {
    *text = (struct export_text){.path = path, .fd = -1, .buffer = malloc(EXPORT_TEXT_ROOM)};
    if (text->buffer) return 0;
    errno = ENOMEM;
    return ht_error_system(error, path, "cannot create");
}

bool export_text_in_place(const char *path) {
    struct stat status;
    return strcmp(path, "-") && (stat(path, &status) || S_ISREG(status.st_mode));
}

// The file beside the final one; what is no regular file is never renamed over.
static int open_output(struct export_text *text) {
    if (!strcmp(text->path, "-")) return dup(STDOUT_FILENO);
    if (!export_text_in_place(text->path)) return open(text->path, O_WRONLY | O_CLOEXEC);
    if (asprintf(&text->partial_path, "%s.partial.%d", text->path, (int)getpid()) < 0) {
        text->partial_path = NULL;
        return -1;
    }
    unlink(text->partial_path);  // left by a process that was killed
    text->in_place = true;
    return open(text->partial_path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
}

int export_text_open(struct export_text *text, const char *path, struct ht_error *error) {
    if (begin(text, path, error)) return -1;
    text->fd = open_output(text);
    if (text->fd >= 0) return 0;
    ht_error_system(error, path, "cannot create");
    export_text_abandon(text);
    return -1;
}

int export_text_rehearse(struct export_text *text, const char *path, struct ht_error *error) {
    return begin(text, path, error);
}

void export_text_flush(struct export_text *text) {
    const char *from = text->buffer;
    size_t left = text->used;
    text->bytes += text->used;
    text->used = 0;
    while (left && text->fd >= 0 && !text->failed) {
        ssize_t done = write(text->fd, from, left);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) {
            fail(text, "cannot write");
            return;
        }
        from += done;
        left -= (size_t)done;
    }
}

void export_text_put_head(struct export_text *text, const char *head, size_t count) {
    export_text_flush(text);
    if (text->failed) return;
    ssize_t done = pwrite(text->fd, head, count, 0);
    if (done >= 0 && (size_t)done != count) errno = ENOSPC;
    if (done < 0 || (size_t)done != count) fail(text, "cannot write");
}

int export_text_finish(struct export_text *text, struct ht_error *error) {
    export_text_flush(text);
    if (!text->failed && text->partial_path && fsync(text->fd)) fail(text, "cannot sync");
    if (text->fd >= 0 && close(text->fd)) fail(text, "cannot close");
    text->fd = -1;
    if (!text->failed && text->partial_path && rename(text->partial_path, text->path))
        fail(text, "cannot rename the finished file");
    bool failed = text->failed;
    if (failed) *error = text->error;
    export_text_abandon(text);
    return failed ? -1 : 0;
}

void export_text_abandon(struct export_text *text) {
    // After a successful rename the partial name no longer exists and unlink does nothing.
    if (text->fd >= 0) close(text->fd);
    if (text->partial_path) unlink(text->partial_path);
    free(text->partial_path);
    free(text->buffer);
    text->fd = -1;
    text->partial_path = NULL;
    text->buffer = NULL;
}
