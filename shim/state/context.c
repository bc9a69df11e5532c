// SPDX-License-Identifier: Apache-2.0
#include "context.h"

#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

#include "loader.h"
#include "real.h"
#include "settings.h"
#include "sys.h"

// The strings end with a zero byte each; a value that does not fit is cut.
static void put(struct text *text, const char *key, const char *value) {
    if (!value || text->end - text->at < 64) return;
    text_string(text, key);
    text_char(text, '=');
    text_string(text, value);
    if (text->at == text->end) text->at--;
    text_char(text, 0);
}

static long read_file(const char *path, char *to, size_t room) {
    int fd = sys_open(path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0) return -1;
    long got = 0, more;
    while ((size_t)got < room && (more = sys_read(fd, to + got, room - (size_t)got)) > 0) got += more;
    sys_close(fd);
    return got;
}

// Arguments separated by one blank; a blank or control character within one is written as \xNN.
static void put_command(struct text *text) {
    char raw[3072];
    long got = read_file("/proc/self/cmdline", raw, sizeof raw);
    if (got <= 0) return;
    text_string(text, "command=");
    for (long i = 0; i < got - (raw[got - 1] == 0); i++) {
        unsigned char c = (unsigned char)raw[i];
        if (c == 0) {
            text_char(text, ' ');
        } else if (c <= ' ' || c == 127 || c == '\\') {
            text_string(text, "\\x");
            text_hex(text, c);
        } else {
            text_char(text, (char)c);
        }
    }
    if (text->at == text->end) text->at--;
    text_char(text, 0);
}

static void put_cpu(struct text *text) {
    char raw[2048];
    long got = read_file("/proc/cpuinfo", raw, sizeof raw - 1);
    if (got <= 0) return;
    raw[got] = 0;
    char *name = strstr(raw, "model name");
    if (!name || !(name = strchr(name, ':'))) return;
    name += 2;
    char *end = strchr(name, '\n');
    if (end) *end = 0;
    put(text, "cpu", name);
}

static void put_first_line(struct text *text, const char *key, const char *path) {
    char raw[256];
    long got = read_file(path, raw, sizeof raw - 1);
    if (got <= 0) return;
    raw[got] = 0;
    char *end = strchr(raw, '\n');
    if (end) *end = 0;
    put(text, key, raw);
}

struct wanted_object {
    uintptr_t base;  // 0: the executable, which comes first
    unsigned char id[BUILD_ID_BYTES_MAX];
    size_t id_bytes;
};

static int find_build_id(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    struct wanted_object *object = context;
    bool wanted = !object->base;
    for (unsigned i = 0; i < info->dlpi_phnum && !wanted; i++)
        wanted = info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_offset == 0 &&
                 info->dlpi_addr + info->dlpi_phdr[i].p_vaddr == object->base;
    if (!wanted) return 0;
    object->id_bytes = build_id_read(info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum, object->id);
    return 1;
}

static void put_build_id(struct text *text, const char *key, uintptr_t base) {
    struct wanted_object object = {.base = base};
    char digits[2 * BUILD_ID_BYTES_MAX + 1] = "";
    struct text hex = {digits, digits + sizeof digits - 1};
    loader_visit(find_build_id, &object);
    for (size_t i = 0; i < object.id_bytes; i++) text_hex(&hex, object.id[i]);
    if (object.id_bytes) put(text, key, digits);
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// The allocator's own word for its version. The form says what function is: allocators/allocator.h.
static void put_version(struct text *text, char form, void *function) {
    const char *(*read_version)(int *, int *, const char **) = function;
    int (*ask)(const char *, void *, size_t *, void *, size_t) = function;
    int (*number_of)(void) = function;
    char version[32] = "";
    struct text number = {version, version + sizeof version - 1};
    const char *own = NULL;
    size_t bytes = sizeof own;
    if (form == 't') {
        put(text, "allocator_version", read_version(NULL, NULL, NULL));
    } else if (form == 'n') {
        uint64_t whole = (uint64_t)number_of(), unit = whole < 1000 ? 10 : 100;
        text_number(&number, whole / unit / unit);
        text_char(&number, '.');
        text_number(&number, whole / unit % unit);
        text_char(&number, '.');
        text_number(&number, whole % unit);
        put(text, "allocator_version", version);
    } else if (!ask("version", (void *)&own, &bytes, NULL, 0) && own) {
        // "5.3.0-0-g54ea…": what follows the number is the commit.
        for (const char *c = own; *c && *c != '-'; c++) text_char(&number, *c);
        put(text, "allocator_version", version);
    }
}

// Names by their library's file name those that have no function to ask.
static void put_allocator_of_file(struct text *text, const char *path) {
    static const struct {
        const char *name, *file, *folder;
    } known[] = {HEAPTAPE_FILES};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strncmp(base_name(path), known[i].file, strlen(known[i].file)) || !strstr(path, known[i].folder))
            continue;
        put(text, "allocator_name", known[i].name);
        return;
    }
}

// Asks the function that has it, if that is the one of malloc's library.
static bool put_allocator_version(struct text *text, uintptr_t base) {
    static const struct {
        const char *name, *symbol, *form;
    } known[] = {HEAPTAPE_VERSIONS};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        void *function = symbol_behind_us(known[i].symbol);
        if (!function || loader_object_of(function).start != base) continue;
        put(text, "allocator_name", known[i].name);
        put_version(text, *known[i].form, function);
        return true;
    }
    return false;
}

#ifdef __GLIBC__
static const char *libc_version(void) { return gnu_get_libc_version(); }

static void put_libc_allocator(struct text *text) {
    put(text, "allocator_name", "glibc");
    put(text, "allocator_version", gnu_get_libc_version());
}

static bool is_libc(const char *name) { return !strncmp(name, "libc.so", 7) || !strncmp(name, "libc-", 5); }
#else
// musl, whose loader and library are one file, does not show its version to programs.
static const char *libc_version(void) { return "musl"; }

static void put_libc_allocator(struct text *text) { put(text, "allocator_name", "musl"); }

static bool is_libc(const char *name) { return !strncmp(name, "ld-musl-", 8) || !strncmp(name, "libc.", 5); }
#endif

static void put_allocator(struct text *text) {
    struct loaded_object library = loader_object_of((void *)real.malloc);
    if (!*library.name) return;
    put(text, "allocator", library.name);
    put_build_id(text, "allocator_build_id", library.start);
    if (is_libc(base_name(library.name))) put_libc_allocator(text);
    else if (!put_allocator_version(text, library.start)) put_allocator_of_file(text, library.name);
}

static void put_environment(struct text *text) {
    static const char *const prefixes[] = {"MALLOC_", "LD_PRELOAD=", "PYTHONMALLOC=", HEAPTAPE_VARIABLES};
    for (char **variable = environ; variable && *variable; variable++)
        for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
            if (strncmp(*variable, prefixes[i], strlen(prefixes[i])) ||
                !strncmp(*variable, "MALLOC_WRAP_", 12))
                continue;
            const char *value = strchr(*variable, '=');
            if (!value || text->end - text->at < 64) continue;
            text_string(text, "env.");
            for (const char *c = *variable; c < value; c++) text_char(text, *c);
            text_string(text, value);
            if (text->at == text->end) text->at--;
            text_char(text, 0);
            break;
        }
}

uint32_t context_write(char *to, size_t room) {
    struct text text = {to, to + room};
    char path[1024];
    struct utsname kernel;
    // `heaptape record` names its run, to find the logs of all its processes again.
    put(&text, "run", environment("MALLOC_WRAP_RUN"));
    // However long the command line is, the rest must find room.
    struct text command = {text.at, text.at + room / 4};
    put_command(&command);
    text.at = command.at;
    long got = sys_readlink("/proc/self/exe", path, sizeof path - 1);
    if (got > 0) {
        path[got] = 0;
        put(&text, "executable", path);
    }
    put_build_id(&text, "build_id", 0);
    put_allocator(&text);
    put(&text, "libc", libc_version());
    if (!raw_syscall(SYS_uname, (long)&kernel, 0, 0, 0, 0, 0)) put(&text, "kernel", kernel.release);
    put_cpu(&text);
    put_first_line(&text, "thp", "/sys/kernel/mm/transparent_hugepage/enabled");
    put(&text, "shim_version", HEAPTAPE_VERSION);
    if (*settings.ignored) put(&text, "ignored_settings", settings.ignored);
    if (settings.lacks_sites)
        put(&text, "no_call_sites", "its libc cannot find call sites: glibc 2.35 or newer can");
    put_environment(&text);
    return (uint32_t)(text.at - to);
}

// One thread at a time, whichever log it is about.
static atomic_flag adding = ATOMIC_FLAG_INIT;

bool context_begin_string(struct ht_raw_header *header, struct text *text) {
    enum { LEAST_BYTES = 64 };
    char *start = (char *)header + HT_RAW_CONTEXT_OFFSET + header->context_bytes,
         *end = (char *)header + HT_RAW_HEADER_BYTES - 1;
    *text = (struct text){start, end};
    return end - start >= LEAST_BYTES && !atomic_flag_test_and_set(&adding);
}

void context_end_string(struct ht_raw_header *header, const struct text *text, bool keep) {
    if (keep) {
        *text->at = 0;
        header->context_bytes = (uint32_t)(text->at + 1 - ((char *)header + HT_RAW_CONTEXT_OFFSET));
    }
    atomic_flag_clear(&adding);
}

static bool has_names(const struct text *text) { return text->at[-1] != '='; }

void context_add_name(struct text *text, const char *name) {
    if (has_names(text)) text_char(text, ':');
    text_string(text, name);
}

bool context_end_names(struct ht_raw_header *header, const struct text *text) {
    bool any = has_names(text);
    context_end_string(header, text, any);
    return any;
}
