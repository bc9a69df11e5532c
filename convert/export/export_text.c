// SPDX-License-Identifier: Apache-2.0
#include "export_text.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "all_bytes.h"

static void fail(struct export_text *text, const char *what) {
    if (text->failed) return;
    text->failed = true;
    ht_error_system(&text->error, strcmp(text->path, "-") ? text->path : "standard output", "%s", what);
}

static int begin(struct export_text *text, const char *path, struct ht_error *error) {
    *text = (struct export_text){.path = path, .file.fd = -1, .buffer = malloc(EXPORT_TEXT_ROOM)};
    if (text->buffer) return 0;
    return ht_error_memory(error, path, "cannot create");
}

bool export_text_in_place(const char *path) {
    struct stat status;
    return strcmp(path, "-") && (stat(path, &status) || S_ISREG(status.st_mode));
}

int export_text_open(struct export_text *text, const char *path, struct ht_error *error) {
    if (begin(text, path, error)) return -1;
    text->in_place = export_text_in_place(path);
    if (!output_file_open_private(&text->file, path)) return 0;
    ht_error_system(error, path, "cannot create");
    export_text_abandon(text);
    return -1;
}

int export_text_rehearse(struct export_text *text, const char *path, struct ht_error *error) {
    return begin(text, path, error);
}

void export_text_flush(struct export_text *text) {
    size_t count = text->used;
    text->bytes += count;
    text->used = 0;
    if (text->file.fd >= 0 && !text->failed && !ht_write_all(text->file.fd, text->buffer, count))
        fail(text, "cannot write");
}

void export_text_put_head(struct export_text *text, const char *head, size_t count) {
    export_text_flush(text);
    if (text->failed) return;
    ssize_t done = pwrite(text->file.fd, head, count, 0);
    if (done >= 0 && (size_t)done != count) errno = ENOSPC;
    if (done < 0 || (size_t)done != count) fail(text, "cannot write");
}

int export_text_finish(struct export_text *text, struct ht_error *error) {
    export_text_flush(text);
    const char *wrong = text->failed || text->file.fd < 0 ? NULL : output_file_finish(&text->file);
    if (wrong) fail(text, wrong);
    bool failed = text->failed;
    if (failed) *error = text->error;
    export_text_abandon(text);
    return failed ? -1 : 0;
}

void export_text_abandon(struct export_text *text) {
    output_file_abandon(&text->file);
    free(text->buffer);
    text->buffer = NULL;
}
