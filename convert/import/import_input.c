// SPDX-License-Identifier: Apache-2.0
#include "import_input.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "all_bytes.h"

enum { BUFFER_BYTES = 1 << 20, BLOCK_BYTES = 1 << 18 };

const char *import_input_name(const char *path) { return strcmp(path, "-") ? path : "standard input"; }

// A member's name and the library's words may hold anything; a complaint is one line.
static void keep_to_one_line(struct ht_error *error) {
    for (char *at = error->message; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 127) *at = ' ';
}

static void fail_input(struct import_input *input, uint64_t offset, const char *what, const char *name) {
    if (input->failed) return;
    input->failed = true;
    ht_error_input(&input->error, input->path, offset, "%s%s", what, name);
    keep_to_one_line(&input->error);
}

// What the library says about bytes that it cannot unpack.
static void fail_unpacking(struct import_input *input, int code) {
    const char *why = archive_error_string(input->archive);
    if (input->failed) return;
    input->failed = true;
    if (code == ARCHIVE_FATAL && archive_errno(input->archive) == ENOMEM) {
        ht_error_memory(&input->error, input->path, "cannot unpack");
        return;
    }
    ht_error_input(&input->error, input->path, input->offset + (input->end - input->begin),
                   "expected valid compressed data, found an error: %s", why ? why : "no reason given");
    keep_to_one_line(&input->error);
}

// Moves on to the next file in the archive. Returns 1, or 0 if there is none or it failed.
static int next_file(struct import_input *input, const char **name) {
    struct archive_entry *entry;
    int code;
    while ((code = archive_read_next_header(input->archive, &entry)) == ARCHIVE_OK || code == ARCHIVE_WARN) {
        // What is no archive is one file without a type.
        if (archive_format(input->archive) != ARCHIVE_FORMAT_RAW && archive_entry_filetype(entry) != AE_IFREG)
            continue;
        *name = archive_entry_pathname(entry);
        if (!*name) *name = "?";
        return 1;
    }
    if (code != ARCHIVE_EOF) fail_unpacking(input, code);
    return 0;
}

static bool is_zip(const struct import_input *input) {
    return (archive_format(input->archive) & ARCHIVE_FORMAT_BASE_MASK) == ARCHIVE_FORMAT_ZIP;
}

// Goes to the member that is wanted.
static void find_member(struct import_input *input) {
    const char *name;
    while (next_file(input, &name)) {
        if (input->member && !is_zip(input)) {
            fail_input(input, 0, "expected a zip, for --member, found another file", "");
            return;
        }
        if (!input->member || !strcmp(name, input->member)) return;
    }
    if (input->failed) return;
    if (input->member) fail_input(input, 0, "the zip has no member ", input->member);
    else
        fail_input(input, 0, "expected a trace, found ",
                   is_zip(input) ? "a zip without a file" : "an empty file");
}

// Only one trace can come of it: which, is not for us to guess.
static void expect_no_other(struct import_input *input) {
    const char *name;
    if (!input->member && is_zip(input) && next_file(input, &name))
        fail_input(input, 0, "expected one file in the zip, found more: choose by --member; another is ",
                   name);
}

// Named one by one: the library's "all" would run programs for some. What lzma wrote begins with no sign, and other files would be
// taken for it: its name says it.
static bool set_up_archive(struct archive *archive, const char *path) {
    size_t length = strlen(path);
    bool is_lzma = length >= 5 && !strcmp(path + length - 5, ".lzma");
    return archive_read_support_filter_gzip(archive) == ARCHIVE_OK &&
           archive_read_support_filter_bzip2(archive) == ARCHIVE_OK &&
           archive_read_support_filter_xz(archive) == ARCHIVE_OK &&
           (!is_lzma || archive_read_support_filter_lzma(archive) == ARCHIVE_OK) &&
           archive_read_support_filter_zstd(archive) == ARCHIVE_OK &&
           archive_read_support_format_zip(archive) == ARCHIVE_OK &&
           archive_read_support_format_empty(archive) == ARCHIVE_OK &&
           archive_read_support_format_raw(archive) == ARCHIVE_OK;
}

int import_input_open(struct import_input *input, const char *path, const char *member,
                      struct ht_error *error) {
    struct stat status;
    *input = (struct import_input){.path = import_input_name(path), .member = member, .fd = -1};
    input->fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC) : dup(STDIN_FILENO);
    if (input->fd < 0 || fstat(input->fd, &status)) {
        ht_error_system(error, input->path, "cannot open");
        error->status = HT_EXIT_INPUT;
        return -1;
    }
    if (S_ISDIR(status.st_mode))
        return ht_error_input(error, input->path, 0, "expected a file, found a folder");
    if (S_ISREG(status.st_mode)) input->file_bytes = (uint64_t)status.st_size;
    input->buffer = malloc(BUFFER_BYTES + 1);  // and a newline behind what has none
    input->archive = archive_read_new();
    if (!input->buffer || !input->archive || !set_up_archive(input->archive, path))
        return ht_error_memory(error, input->path, "cannot open");
    int code = archive_read_open_fd(input->archive, input->fd, BLOCK_BYTES);
    if (code == ARCHIVE_OK) find_member(input);
    else fail_unpacking(input, code);
    if (!input->failed) return 0;
    *error = input->error;
    return -1;
}

void import_input_close(struct import_input *input) {
    if (input->archive) archive_read_free(input->archive);
    if (input->fd >= 0) close(input->fd);
    free(input->buffer);
    *input = (struct import_input){.fd = -1};
}

// Moves what is left to the buffer's start and fills up behind it.
static void refill(struct import_input *input) {
    memmove(input->buffer, input->buffer + input->begin, input->end - input->begin);
    input->end -= input->begin;
    input->begin = 0;
    la_ssize_t count;
    do count = archive_read_data(input->archive, input->buffer + input->end, BUFFER_BYTES - input->end);
    while (count == ARCHIVE_RETRY);
    if (count > 0) {
        input->end += (size_t)count;
        return;
    }
    if (count < 0) fail_unpacking(input, (int)count);
    else expect_no_other(input);
    input->at_end = true;
}

size_t import_input_peek(struct import_input *input, size_t wanted) {
    while (input->end - input->begin < wanted && !input->at_end) refill(input);
    return input->failed ? 0 : input->end - input->begin;
}

void import_input_consume(struct import_input *input, size_t bytes) {
    input->begin += bytes;
    input->offset += bytes;
}

// Hands out the buffer's bytes up to `newline` as a line.
static void take_line(struct import_input *input, char *newline, struct import_text *line) {
    const char *start = input->buffer + input->begin;
    line->at = start;
    line->end = newline > start && newline[-1] == '\r' ? newline - 1 : newline;
    import_input_consume(input, (size_t)(newline + 1 - start));
}

bool import_input_line(struct import_input *input, struct import_text *line) {
    size_t seen = 0;
    *line = (struct import_text){input->buffer, input->buffer};
    input->line_number++;
    input->line_offset = input->offset;
    input->line_too_long = false;
    for (;;) {
        char *start = input->buffer + input->begin;
        size_t count = input->end - input->begin;
        char *newline = memchr(start + seen, '\n', count - seen);
        if (count && !input->line_too_long) input->line_first = *start;
        if (!newline && input->at_end) {
            if (input->failed || count == 0) return input->line_too_long && !input->failed;
            newline = start + count;  // the last line lacks its end
            *newline = '\n';
            input->end++;
        }
        if (newline) {
            input->line_too_long |= newline - start > IMPORT_LINE_BYTES_MAX;
            take_line(input, newline, line);
            return true;
        }
        seen = count;
        if (count > IMPORT_LINE_BYTES_MAX) {
            // Passed over: its last bytes will be given as the line.
            input->line_too_long = true;
            import_input_consume(input, count);
            seen = 0;
        }
        refill(input);
    }
}

static int nameless_file(void) {
    const char *folder = getenv("TMPDIR");
    return open(folder && *folder ? folder : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

int import_input_map(struct import_input *input, const uint8_t **bytes, size_t *count,
                     struct ht_error *error) {
    int fd = nameless_file();
    if (fd < 0) return ht_error_system(error, input->path, "cannot make a temporary file ($TMPDIR)");
    *bytes = NULL;
    *count = 0;
    int status = 0;
    size_t here;
    while (!status && (here = import_input_peek(input, 1)) > 0) {
        status = ht_write_all(fd, input->buffer + input->begin, here) ? 0 : -1;
        *count += here;
        import_input_consume(input, here);
    }
    if (input->failed) *error = input->error;
    if (!status && !input->failed && *count) {
        void *map = mmap(NULL, *count, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map == MAP_FAILED) status = -1;
        else *bytes = map;
    }
    if (status) ht_error_system(error, input->path, "cannot keep it in a temporary file ($TMPDIR)");
    close(fd);
    return status || input->failed ? -1 : 0;
}

uint64_t import_input_done(const struct import_input *input) {
    return (uint64_t)archive_filter_bytes(input->archive, -1);
}
