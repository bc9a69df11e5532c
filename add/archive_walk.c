// SPDX-License-Identifier: Apache-2.0
#include "archive_walk.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "all_bytes.h"
#include "talk.h"

// Whether gzip's bytes are whole: by the check sum and the length at the end of each member, which libarchive passes over. Bytes
// of another format are taken as they are.
struct gzip_check {
    z_stream stream;
    enum { GZIP_UNSEEN, GZIP_NONE, GZIP_WITHIN, GZIP_BETWEEN, GZIP_DAMAGED } state;
};

enum { GZIP_FORMAT = 16 };  // as zlib has it

static void begin(struct gzip_check *check, const uint8_t *data) {
    bool is_gzip = *data == 0x1f;
    check->state = is_gzip ? GZIP_WITHIN : GZIP_NONE;
    if (is_gzip && inflateInit2(&check->stream, GZIP_FORMAT + MAX_WBITS) != Z_OK) check->state = GZIP_DAMAGED;
}

// A member that follows; zeros that fill a block are none.
static void begin_member(struct gzip_check *check) {
    z_stream *stream = &check->stream;
    while (stream->avail_in && !*stream->next_in) stream->next_in++, stream->avail_in--;
    if (stream->avail_in) check->state = inflateReset(stream) == Z_OK ? GZIP_WITHIN : GZIP_DAMAGED;
}

static void inflate_some(struct gzip_check *check) {
    static uint8_t unpacked[1 << 16];
    check->stream.next_out = unpacked;
    check->stream.avail_out = sizeof unpacked;
    int code = inflate(&check->stream, Z_NO_FLUSH);
    if (code == Z_STREAM_END) check->state = GZIP_BETWEEN;
    else if (code != Z_OK && code != Z_BUF_ERROR) check->state = GZIP_DAMAGED;
}

// The next bytes. False once they are damaged. A check of zeros begins.
static bool gzip_check_next(struct gzip_check *check, const uint8_t *data, size_t bytes) {
    z_stream *stream = &check->stream;
    if (bytes && check->state == GZIP_UNSEEN) begin(check, data);
    if (check->state == GZIP_NONE) return true;
    stream->next_in = (uint8_t *)data;
    stream->avail_in = (uInt)bytes;
    stream->avail_out = 1;
    while (check->state != GZIP_DAMAGED &&
           (stream->avail_in || (check->state == GZIP_WITHIN && !stream->avail_out)))
        check->state == GZIP_BETWEEN ? begin_member(check) : inflate_some(check);
    return check->state != GZIP_DAMAGED;
}

// Whether all that came was whole. Frees what the check holds.
static bool gzip_check_end(struct gzip_check *check) {
    if (check->state != GZIP_UNSEEN && check->state != GZIP_NONE) inflateEnd(&check->stream);
    return check->state != GZIP_WITHIN && check->state != GZIP_DAMAGED;
}

enum { BLOCK_BYTES = 1 << 16, ENTRIES_MAX = 1 << 16, NAME_BYTES_MAX = 4096, RATIO_MAX = 250 };
static const uint64_t UNPACKED_BYTES_MAX = UINT64_C(1) << 30;
static const uint64_t UNPACKED_BYTES_FREE = 16 << 20;  // below that no ratio is too high

struct walk {
    const char *path;
    uint64_t file_bytes, unpacked_bytes, entries;
    struct archive *outer, *inner;  // inner: one in a member of outer; else NULL
    struct archive *current;
    struct gzip_check inner_check;
    uint8_t block[BLOCK_BYTES], inner_block[BLOCK_BYTES];
    size_t begin_bytes;  // of the file, in block; the rest is still to be read
    bool at_end;         // of the file
    archive_visitor *visit;
    void *context;
    struct ht_error *error;
};

static int fail(struct walk *walk, const char *expected, const char *found) {
    int64_t offset = walk->outer ? archive_filter_bytes(walk->outer, -1) : 0;
    return ht_error_input(walk->error, walk->path, offset > 0 ? (uint64_t)offset : 0, "expected %s, found %s",
                          expected, found);
}

static int fail_reading(struct walk *walk, struct archive *archive) {
    const char *why = archive_error_string(archive);
    if (walk->error->status) return -1;  // of the archive that this one is in
    return fail(walk, "an intact package", why ? why : "a damaged one");
}

// ---- bounds ----

static int count_bytes(struct walk *walk, uint64_t bytes) {
    char text[32], most[64];
    walk->unpacked_bytes += bytes;
    if (walk->unpacked_bytes > UNPACKED_BYTES_MAX) {
        snprintf(most, sizeof most, "at most %s", ht_bytes(text, (double)UNPACKED_BYTES_MAX));
        return fail(walk, most, "a package that unpacks to more");
    }
    if (walk->unpacked_bytes > UNPACKED_BYTES_FREE && walk->unpacked_bytes / RATIO_MAX > walk->file_bytes) {
        snprintf(most, sizeof most, "at most %d times the file's size", RATIO_MAX);
        return fail(walk, most, "a package that unpacks to more");
    }
    return 0;
}

// The next bytes of the current file; 0 at its end, -1 with an error.
static int64_t read_some(struct walk *walk, struct archive *archive, uint8_t *to, size_t room) {
    la_ssize_t got;
    do got = archive_read_data(archive, to, room);
    while (got == ARCHIVE_RETRY);
    if (got < 0) return fail_reading(walk, archive);
    return got && count_bytes(walk, (uint64_t)got) ? -1 : got;
}

// ---- what an entry may be ----

static bool leads_out(const char *name) {
    if (*name == '/') return true;
    for (const char *at = name; at; at = strchr(at, '/') ? strchr(at, '/') + 1 : NULL)
        if (!strncmp(at, "..", 2) && (!at[2] || at[2] == '/')) return true;
    return false;
}

static bool has_controls(const char *name) {
    for (; *name; name++)
        if ((unsigned char)*name < ' ' || *name == 127) return true;
    return false;
}

static const char *name_of(struct archive_entry *entry) {
    const char *name = archive_entry_pathname(entry);
    if (!name) name = archive_entry_pathname_utf8(entry);  // this locale cannot say it
    return name ? name : "";
}

// Why it is refused; NULL: it is not.
static const char *refusal(struct archive_entry *entry, const char *name) {
    mode_t type = archive_entry_filetype(entry);
    if (leads_out(name)) return "a name that leads out of it: ";
    if (has_controls(name)) return "a name with control characters: ";
    if (strlen(name) > NAME_BYTES_MAX) return "a name of more than 4096 bytes: ";
    if (archive_entry_hardlink(entry)) return "a hard link: ";
    if (type == AE_IFCHR || type == AE_IFBLK) return "a device: ";
    if (type == AE_IFIFO || type == AE_IFSOCK) return "a pipe or socket: ";
    if (type == AE_IFREG && archive_entry_perm(entry) & (S_ISUID | S_ISGID))
        return "a file that runs as another user: ";
    return NULL;
}

static int check_entry(struct walk *walk, struct archive_entry *entry, const char *name) {
    char found[200];
    if (++walk->entries > ENTRIES_MAX) return fail(walk, "at most 65536 entries", "more");
    const char *why = refusal(entry, name);
    if (why) {
        snprintf(found, sizeof found, "%s%.120s", why, name);
        return fail(walk, "files, folders and symbolic links in the package", found);
    }
    return 0;
}

// ---- archives and the one in another ----

// Named one by one: the library's "all" would run programs for some.
static bool can_open(struct archive *archive) {
    return archive && archive_read_support_filter_gzip(archive) == ARCHIVE_OK &&
           archive_read_support_filter_bzip2(archive) == ARCHIVE_OK &&
           archive_read_support_filter_xz(archive) == ARCHIVE_OK &&
           archive_read_support_filter_lzma(archive) == ARCHIVE_OK &&
           archive_read_support_filter_zstd(archive) == ARCHIVE_OK &&
           archive_read_support_filter_rpm(archive) == ARCHIVE_OK &&
           archive_read_support_format_ar(archive) == ARCHIVE_OK &&
           archive_read_support_format_cpio(archive) == ARCHIVE_OK &&
           archive_read_support_format_tar(archive) == ARCHIVE_OK &&
           archive_read_support_format_zip_seekable(archive) == ARCHIVE_OK;  // not without its directory
}

static int fail_sum(struct walk *walk) {
    return fail(walk, "an intact package", "gzip's check sum or length of other contents");
}

static la_ssize_t read_inner(struct archive *inner, void *context, const void **block) {
    struct walk *walk = context;
    int64_t got = read_some(walk, walk->outer, walk->inner_block, sizeof walk->inner_block);
    (void)inner;
    *block = walk->inner_block;
    if (got > 0 && !gzip_check_next(&walk->inner_check, walk->inner_block, (size_t)got))
        return fail_sum(walk);
    return got;
}

// A .deb has its files in an archive of its own, and what is said of it in another.
static bool is_archive_within(const struct walk *walk, const char *name) {
    return !walk->inner && (!strncmp(name, "data.tar", strlen("data.tar")) ||
                            !strncmp(name, "control.tar", strlen("control.tar")));
}

static int walk_entries(struct walk *walk);

static int walk_inner(struct walk *walk) {
    walk->current = walk->inner = archive_read_new();
    if (!can_open(walk->inner)) return ht_error_memory(walk->error, walk->path, "cannot open");
    int code = archive_read_open(walk->inner, walk, NULL, read_inner, NULL);
    const void *block;
    la_ssize_t got = 0;
    int failed = code == ARCHIVE_OK ? walk_entries(walk) : fail_reading(walk, walk->inner);
    while (!failed && (got = read_inner(walk->inner, walk, &block)) > 0) continue;
    if (!gzip_check_end(&walk->inner_check) && !failed && !got) failed = fail_sum(walk);
    if (got < 0) failed = -1;
    walk->inner_check = (struct gzip_check){0};
    archive_read_free(walk->inner);
    walk->inner = NULL;
    walk->current = walk->outer;
    return failed;
}

// ---- files ----

// Fills the block with the file's beginning.
static int read_begin(struct walk *walk) {
    int64_t got = 0;
    walk->begin_bytes = 0;
    while (walk->begin_bytes < sizeof walk->block &&
           (got = read_some(walk, walk->current, walk->block + walk->begin_bytes,
                            sizeof walk->block - walk->begin_bytes)) > 0)
        walk->begin_bytes += (size_t)got;
    walk->at_end = got == 0;
    return got < 0 ? -1 : 0;
}

int archive_file_copy(struct archive_file *file, int fd, struct ht_error *error) {
    struct walk *walk = file->walk;
    int64_t got = (int64_t)walk->begin_bytes;
    do {
        if (!ht_write_all(fd, walk->block, (size_t)got))
            return ht_error_system(error, walk->path, "cannot unpack %.100s", file->name);
        got = walk->at_end ? 0 : read_some(walk, walk->current, walk->block, sizeof walk->block);
    } while (got > 0);
    walk->at_end = true;
    return got < 0 ? -1 : 0;
}

static int visit_file(struct walk *walk, struct archive_entry *entry, const char *name) {
    struct archive_file file = {.name = name, .begin = walk->block, .walk = walk};
    int64_t got = 1;
    if (is_archive_within(walk, name)) return walk_inner(walk);
    if (read_begin(walk)) return -1;
    file.begin_bytes = walk->begin_bytes;
    file.is_executable = archive_entry_perm(entry) & S_IXUSR;
    if (walk->visit(walk->context, &file, walk->error)) return -1;
    // Read, not skipped: what the library skips it may unpack without an end.
    while (!walk->at_end && (got = read_some(walk, walk->current, walk->block, sizeof walk->block)) > 0)
        continue;
    return got < 0 ? -1 : 0;
}

static int walk_entries(struct walk *walk) {
    struct archive *archive = walk->current;
    struct archive_entry *entry;
    int code;
    while ((code = archive_read_next_header(archive, &entry)) == ARCHIVE_OK || code == ARCHIVE_WARN) {
        char name[NAME_BYTES_MAX + 2];
        snprintf(name, sizeof name, "%s", name_of(entry));
        if (check_entry(walk, entry, name)) return -1;
        if (archive_entry_filetype(entry) == AE_IFREG && visit_file(walk, entry, name)) return -1;
    }
    if (code != ARCHIVE_EOF) return fail_reading(walk, archive);
    // A tar ends with blocks of zeros, which were read as if they were one more header.
    bool is_tar = (archive_format(archive) & ARCHIVE_FORMAT_BASE_MASK) == ARCHIVE_FORMAT_TAR;
    if (is_tar && archive_filter_bytes(archive, 0) == archive_read_header_position(archive))
        return fail(walk, "an intact package", "one that is cut off after an entry");
    return 0;
}

// This is of the file itself.
static int check_sums(struct walk *walk, int fd) {
    struct gzip_check check = {0};
    ssize_t got;
    off_t at = 0;
    bool whole = true;
    while (whole && (got = pread(fd, walk->block, sizeof walk->block, at)) > 0) {
        whole = gzip_check_next(&check, walk->block, (size_t)got);
        at += got;
    }
    return gzip_check_end(&check) && got == 0 ? 0 : fail_sum(walk);
}

int archive_walk(int fd, const char *path, archive_visitor *visit, void *context, struct ht_error *error) {
    struct stat status;
    struct walk *walk = calloc(1, sizeof *walk);
    *error = (struct ht_error){0};
    if (!walk || fstat(fd, &status)) {
        free(walk);
        return ht_error_system(error, path, "cannot open");
    }
    *walk = (struct walk){.path = path,
                          .file_bytes = (uint64_t)status.st_size,
                          .visit = visit,
                          .context = context,
                          .error = error,
                          .outer = archive_read_new()};
    walk->current = walk->outer;
    int failed = can_open(walk->outer) ? 0 : ht_error_memory(error, path, "cannot open");
    if (!failed && archive_read_open_fd(walk->outer, fd, BLOCK_BYTES) != ARCHIVE_OK)
        failed = fail(walk, "a package (.deb, .rpm, .whl, .tar.*) or a shared library", "another file");
    if (!failed) failed = walk_entries(walk);
    if (!failed) failed = check_sums(walk, fd);
    archive_read_free(walk->outer);
    free(walk);
    return failed;
}
