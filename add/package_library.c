// SPDX-License-Identifier: Apache-2.0
#include "package_library.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "all_bytes.h"
#include "archive_walk.h"

enum { PACKAGE_LIBRARIES_MAX = 256 };

static const uint64_t KEPT_BYTES_MAX = UINT64_C(512) << 20;

static int refuse(struct ht_error *error, const char *path, const char *expected, const char *found) {
    error->status = HT_EXIT_INPUT;
    snprintf(error->message, sizeof error->message, "%.300s: expected %s, found %.400s", path, expected,
             found);
    return -1;
}

static void close_file(struct package_file *file) {
    if (file->fd >= 0) close(file->fd);
    free(file->member);
}

void package_library_close(struct package_library *package) {
    for (size_t i = 0; i < package->count; i++) close_file(&package->file[i]);
    free(package->file);
    *package = (struct package_library){0};
}

static bool same_contents(const struct package_file *a, const struct package_file *b) {
    if (a->bytes != b->bytes || !a->bytes) return false;
    void *of_a = mmap(NULL, a->bytes, PROT_READ, MAP_PRIVATE, a->fd, 0);
    void *of_b = mmap(NULL, b->bytes, PROT_READ, MAP_PRIVATE, b->fd, 0);
    bool same = of_a != MAP_FAILED && of_b != MAP_FAILED && !memcmp(of_a, of_b, a->bytes);
    if (of_a != MAP_FAILED) munmap(of_a, a->bytes);
    if (of_b != MAP_FAILED) munmap(of_b, b->bytes);
    return same;
}

// A wheel has no links: one library is there under several names.
static bool is_there(const struct package_library *package, const struct package_file *file) {
    for (size_t i = 0; i < package->count; i++)
        if (same_contents(&package->file[i], file)) return true;
    return false;
}

struct look {
    struct package_library *package;
    const char *path;
    uint64_t kept_bytes;
};

// Keeps what may be the allocator, or belong to it.
static int keep(struct look *look, struct package_file *file, struct ht_error *error) {
    struct package_library *package = look->package;
    const struct proved_library *proved = &file->proved;
    if (proved->sort == LIBRARY_FOREIGN && !*package->foreign)
        snprintf(package->foreign, sizeof package->foreign, "%s", file->member);
    bool wanted =
        proved->sort == LIBRARY_HERE && (proved->has_malloc || *proved->name) && !is_there(package, file);
    look->kept_bytes += wanted ? file->bytes : 0;
    if (look->kept_bytes > KEPT_BYTES_MAX || (wanted && package->count == PACKAGE_LIBRARIES_MAX)) {
        close_file(file);
        return refuse(error, look->path, "at most 256 libraries of 512 MiB in all", "more");
    }
    if (wanted) package->file[package->count++] = *file;
    else close_file(file);
    return 0;
}

// Lines such as "Version: 3.6.0+ds-1": of a .deb's control, a wheel's METADATA, an .apk's or Arch's .PKGINFO.
static void take_package_version(struct package_library *package, const struct archive_file *file) {
    static const char *const keys[] = {"\nVersion: ", "\npkgver = "};
    const char *slash = strrchr(file->name, '/'), *base = slash ? slash + 1 : file->name;
    if (*package->package_version ||
        (strcmp(base, "control") && strcmp(base, "METADATA") && strcmp(base, ".PKGINFO")))
        return;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *at = memmem(file->begin, file->begin_bytes, keys[i], strlen(keys[i]));
        if (!at) continue;
        at += strlen(keys[i]);
        size_t left = file->begin_bytes - (size_t)(at - (const char *)file->begin), length = 0;
        const char *colon = memchr(at, ':', left < 8 ? left : 8);  // of an epoch
        if (colon) {
            left -= (size_t)(colon + 1 - at);
            at = colon + 1;
        }
        while (length < left && strchr("0123456789.", at[length]) && at[length]) length++;
        snprintf(package->package_version, sizeof package->package_version, "%.*s", (int)length, at);
        return;
    }
}

static int look_at(void *context, struct archive_file *file, struct ht_error *error) {
    struct look *look = context;
    struct package_file made = {.fd = -1};
    off_t end;
    take_package_version(look->package, file);
    if (file->begin_bytes < SELFMAG || memcmp(file->begin, ELFMAG, SELFMAG)) return 0;
    made.fd = memfd_create("heaptape-library", MFD_CLOEXEC);
    made.member = strdup(file->name);
    if (made.fd < 0 || !made.member) {
        ht_error_system(error, look->path, "cannot unpack");
    } else if (!archive_file_copy(file, made.fd, error) && (end = lseek(made.fd, 0, SEEK_END)) >= 0) {
        made.bytes = (uint64_t)end;
        library_prove(made.fd, &made.proved);
        return keep(look, &made, error);
    }
    close_file(&made);
    return -1;
}

// ---- which of them ----

static bool has_usual_name(const struct proved_library *proved) {
    return !strncmp(proved->name, proved->kind->soname, strlen(proved->kind->soname));
}

// Those of a known kind, or where several are, those that are called as that kind's usually are: packages have builds for debugging
// besides. Returns how many.
static size_t candidates(const struct package_library *package, bool usual, size_t *last) {
    size_t count = 0;
    for (size_t i = 0; i < package->count; i++) {
        const struct proved_library *proved = &package->file[i].proved;
        if (!proved->kind || (usual && !has_usual_name(proved))) continue;
        *last = i;
        count++;
    }
    return count;
}

static void say_members(const struct package_library *package, char *text, size_t room) {
    size_t used = 0;
    for (size_t i = 0; i < package->count && used < room; i++)
        if (package->file[i].proved.kind)
            used += (size_t)snprintf(text + used, room - used, "%s%.100s", used ? ", " : "",
                                     package->file[i].member);
}

static int refuse_none(const struct package_library *package, const char *path, struct ht_error *error) {
    static const char expected[] = "the library of an allocator that heaptape allocators -v has";
    char found[300];
    for (size_t i = 0; i < package->count; i++) {
        if (!package->file[i].proved.has_malloc) continue;
        snprintf(found, sizeof found, "one of an unknown allocator (%.100s), which --alloc takes by its path",
                 package->file[i].member);
        return refuse(error, path, expected, found);
    }
    if (*package->foreign) {
        snprintf(found, sizeof found, "%.120s", package->foreign);
        return refuse(error, path, "a library for this machine's processor, of 64 bits", found);
    }
    return refuse(error, path, expected, "none with malloc and free (sources take --build)");
}

// Where another library of the package serves it, loading this one alone would take the system's in its place.
static int refuse_needed(const struct package_library *package, const char *path, struct ht_error *error) {
    const struct proved_library *chosen = &package->file[package->chosen].proved;
    for (size_t i = 0; i < package->count; i++)
        for (size_t j = 0; j < chosen->needed_count; j++)
            if (!strcmp(package->file[i].proved.name, chosen->needed[j]))
                return refuse(error, path, "a library that needs none of its own package",
                              package->file[i].proved.name);
    return 0;
}

static bool same_folder(const char *a, const char *b) {
    const char *of_a = strrchr(a, '/'), *of_b = strrchr(b, '/');
    size_t length = of_a ? (size_t)(of_a - a) : 0;
    return length == (of_b ? (size_t)(of_b - b) : 0) && !strncmp(a, b, length);
}

bool package_library_takes(const struct package_library *package, size_t file) {
    const struct package_file *one = &package->file[file];
    if (file == package->chosen) return true;
    return package->is_libc && *one->proved.name &&
           same_folder(one->member, package->file[package->chosen].member);
}

const char *package_library_name(const struct package_library *package, size_t file) {
    const struct proved_library *proved = &package->file[file].proved;
    return *proved->name ? proved->name : proved->kind->soname;
}

static int refuse_doubles(const struct package_library *package, const char *path, struct ht_error *error) {
    for (size_t i = 0; i < package->count; i++)
        for (size_t j = 0; j < i; j++)
            if (package_library_takes(package, i) && package_library_takes(package, j) &&
                !strcmp(package_library_name(package, i), package_library_name(package, j)))
                return refuse(error, path, "one library of each name", package_library_name(package, i));
    return 0;
}

static int find_loader(struct package_library *package, const char *path, struct ht_error *error) {
    for (size_t i = 0; i < package->count; i++) {
        if (!package->file[i].proved.is_loader || !package_library_takes(package, i)) continue;
        package->loader = i;
        return refuse_doubles(package, path, error);
    }
    return refuse(error, path, "a package that has the C library's loader, such as libc6_2.41_amd64.deb",
                  package->file[package->chosen].member);
}

static int choose(struct package_library *package, const char *path, struct ht_error *error) {
    char found[500];
    size_t count = candidates(package, false, &package->chosen);
    if (!count) return refuse_none(package, path, error);
    if (count > 1 && candidates(package, true, &package->chosen) != 1) {
        say_members(package, found, sizeof found);
        return refuse(error, path, "one library of a known allocator", found);
    }
    package->is_libc = !strcmp(package->file[package->chosen].proved.kind->name, "glibc");
    return package->is_libc ? find_loader(package, path, error) : refuse_needed(package, path, error);
}

// The file itself is the library.
static int look_at_library(struct look *look, int fd, struct ht_error *error) {
    const char *slash = strrchr(look->path, '/');
    struct package_file made = {.fd = fcntl(fd, F_DUPFD_CLOEXEC, 3),
                                .member = strdup(slash ? slash + 1 : look->path)};
    off_t end = made.fd < 0 ? -1 : lseek(made.fd, 0, SEEK_END);
    if (end < 0 || !made.member) {
        ht_error_system(error, look->path, "cannot read");
        close_file(&made);
        return -1;
    }
    made.bytes = (uint64_t)end;
    library_prove(made.fd, &made.proved);
    return keep(look, &made, error);
}

int package_library_open(struct package_library *package, int fd, const char *path, struct ht_error *error) {
    char begin[SELFMAG] = "";
    struct look look = {.package = package, .path = path};
    *package = (struct package_library){.file = calloc(PACKAGE_LIBRARIES_MAX, sizeof *package->file)};
    if (!package->file) return ht_error_memory(error, path, "cannot open");
    bool is_library = ht_read_at(fd, begin, sizeof begin, 0) && !memcmp(begin, ELFMAG, SELFMAG);
    if (is_library ? look_at_library(&look, fd, error) : archive_walk(fd, path, look_at, &look, error))
        return -1;
    return choose(package, path, error);
}
