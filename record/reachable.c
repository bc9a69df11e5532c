// SPDX-License-Identifier: Apache-2.0
// The verdict comes from the program's file alone: who interprets it, with which rights it will run, which
// loader it asks for, and which symbols it brings along.
#include "reachable.h"

#include <ctype.h>
#include <endian.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/xattr.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "allocator.h"
#include "elf_file.h"
#include "own_functions.h"
#include "print.h"
#include "process_rank.h"

// The kernel reads no more of an interpreter line, and follows no more than a few interpreters.
enum { LINE_BYTES = 256, SCRIPTS_MAX = 4 };

// Signs of a sanitizer, of a heap besides malloc, or of an allocator that is not in the catalogue.
enum sign_kind { SANITIZER, ALLOCATOR, RUNTIME };
struct sign {
    enum sign_kind kind;
    const char *patterns, *name;  // for ht_fits_any
};

static const struct sign symbol_signs[] = {
    {SANITIZER, "__asan_init|__hwasan_init", "address"},
    {SANITIZER, "__lsan_init", "leak"},
    {SANITIZER, "__msan_init", "memory"},
    {SANITIZER, "__tsan_init", "thread"},
    {RUNTIME, "_ZN2v8*", "JavaScript"},
    {RUNTIME, "JNI_CreateJavaVM", "Java"},
    {RUNTIME, "DotNetRuntimeInfo", ".NET"},
    {RUNTIME, "PyObject_Malloc", "Python"},
    {RUNTIME, "zend_mm_gc", "PHP"},
    {ALLOCATOR, "_ZN5Hoard*|getMainHoardHeap*", "Hoard"},
    {ALLOCATOR, "_ZN14partition_alloc*|_ZN4base13PartitionRoot*", "PartitionAlloc"},
    {ALLOCATOR, "GC_malloc*", "the Boehm collector"},
    {ALLOCATOR, "nedmalloc", "nedmalloc"},
};

static const struct sign library_signs[] = {
    {SANITIZER, "libasan.so*|libclang_rt.asan*|libhwasan.so*", "address"},
    {SANITIZER, "liblsan.so*", "leak"},
    {SANITIZER, "libtsan.so*", "thread"},
    {RUNTIME, "libjli.so*|libjvm.so*", "Java"},
    {RUNTIME, "libnode.so*|libv8.so*", "JavaScript"},
    {RUNTIME, "libhostfxr.so*|libcoreclr.so*", ".NET"},
    {RUNTIME, "libpython3*", "Python"},
};
#define COUNT(table) (sizeof(table) / sizeof *(table))

// A runtime keeps this from malloc, and gives it up by that variable.
static const struct runtime {
    const char *name, *unseen, *variable, *value;
} runtimes[] = {
    {"Go", "is a Go program: only its C code's allocations are recorded, not the Go heap", NULL, NULL},
    {"JavaScript", "runs JavaScript in V8: only native allocations are recorded, not V8's heap", NULL, NULL},
    {"Java", "runs Java: only native allocations are recorded, not the Java heap", NULL, NULL},
    {".NET", "runs .NET: only native allocations are recorded, not the managed heap", NULL, NULL},
    {"Python", "runs Python, which allocates small objects itself; set PYTHONMALLOC=malloc to record them",
     "PYTHONMALLOC", "malloc"},
    {"PHP", "runs PHP, which allocates its objects itself; set USE_ZEND_ALLOC=0 to record them",
     "USE_ZEND_ALLOC", "0"},
};

// What was found in an executable.
struct findings {
    bool malloc, free;                    // defines them itself
    bool operator_new;                    // defines it itself
    bool imports_malloc, imports_calloc;  // some function that allocates; calloc
    bool rust;
    const char *sanitizer, *allocator, *runtime;
    const char *loads;  // an allocator, as a shared library
};

static void take_sign(struct findings *findings, enum sign_kind kind, const char *name) {
    const char **of_kind[] = {&findings->sanitizer, &findings->allocator, &findings->runtime};
    if (!*of_kind[kind]) *of_kind[kind] = name;
}

static void take_signs(struct findings *findings, const struct sign *signs, size_t count, const char *text) {
    for (size_t i = 0; i < count; i++)
        if (ht_fits_any(signs[i].patterns, text)) take_sign(findings, signs[i].kind, signs[i].name);
}

static const char *name_of(const struct ht_allocator *kind) {
    return kind->linked_name ? kind->linked_name : kind->name;
}

static void take_allocator(struct findings *findings, const struct ht_allocator *kind) {
    take_sign(findings, ALLOCATOR, name_of(kind));
}

// Some version and some setting of rustc leaves one of these in every program; newer ones mangle the name.
static bool is_rusts(const char *name) {
    static const char *const endings[] = {"__rust_alloc", "__rust_alloc_error_handler", "rust_begin_unwind",
                                          "rust_panic"};
    const char *mangled = strstr(name, "___rustc");
    for (size_t i = 0; i < COUNT(endings); i++) {
        size_t length = strlen(name), own = strlen(endings[i]);
        if (!strcmp(name, endings[i])) return true;
        if (mangled && length > own && !strcmp(name + length - own, endings[i])) return true;
    }
    return !strcmp(name, "rust_eh_personality");
}

static void take_import(void *context, const char *name, bool weak) {
    struct findings *findings = context;
    (void)weak;
    if (ht_fits_any("malloc|calloc|realloc|memalign|posix_memalign|aligned_alloc", name))
        findings->imports_malloc = true;
    if (!strcmp(name, "calloc")) findings->imports_calloc = true;
}

static void take_symbol(void *context, const char *name) {
    struct findings *findings = context;
    if (!strcmp(name, "_Znwm")) findings->operator_new = true;
    if (is_rusts(name)) findings->rust = true;
    if (!strcmp(name, "malloc")) findings->malloc = true;
    if (!strcmp(name, "free")) findings->free = true;
    take_signs(findings, symbol_signs, COUNT(symbol_signs), name);
    for (size_t i = 0; ht_allocators[i] && !findings->allocator; i++)
        if (ht_fits_any(ht_allocators[i]->signs, name)) take_allocator(findings, ht_allocators[i]);
}

static void take_messages(struct findings *findings, const struct elf_file *elf) {
    for (size_t i = 0; ht_allocators[i]; i++) {
        const char *message = ht_allocators[i]->message;
        if (message && elf_file_data_holds(elf, message)) take_allocator(findings, ht_allocators[i]);
    }
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// The file of a .NET program is a small launcher that knows its runtime only by a file beside it.
static bool launches_dotnet(const char *path) {
    char beside[PATH_MAX];
    return !strcmp(base_name(path), "dotnet") ||
           (snprintf(beside, sizeof beside, "%s.runtimeconfig.json", path) < (int)sizeof beside &&
            !access(beside, F_OK));
}

static void take_libraries(struct findings *findings, const struct elf_file *elf) {
    const char *needed;
    for (unsigned i = 0; (needed = elf_file_dynamic_string(elf, DT_NEEDED, i)); i++) {
        take_signs(findings, library_signs, COUNT(library_signs), needed);
        for (size_t k = 0; ht_allocators[k]; k++) {
            const struct ht_allocator *kind = ht_allocators[k];
            if (kind->signs && !strncmp(needed, kind->soname, strlen(kind->soname)))
                findings->loads = name_of(kind);
        }
    }
}

static void verdict(struct reach *reach, enum reach_level level, const char *why, ...)
    __attribute__((format(printf, 3, 4)));
static void verdict(struct reach *reach, enum reach_level level, const char *why, ...) {
    va_list values;
    va_start(values, why);
    reach->level = level;
    vsnprintf(reach->why, sizeof reach->why, why, values);
    va_end(values);
}

static void judge_runtime(struct reach *reach, const char *name) {
    for (size_t i = 0; i < COUNT(runtimes); i++) {
        const struct runtime *runtime = &runtimes[i];
        if (strcmp(runtime->name, name)) continue;
        const char *value = runtime->variable ? getenv(runtime->variable) : NULL;
        // PYTHONMALLOC=malloc_debug is malloc too.
        if (!value || strncmp(value, runtime->value, strlen(runtime->value)))
            verdict(reach, REACH_PARTLY, "%s", runtime->unseen);
        return;
    }
}

// An allocator in the program's own file: its calls go to it directly, past the loader.
static void judge_linked_in(struct reach *reach, const struct findings *found, bool own_malloc,
                            const char *allocator) {
    const char *way = found->rust ? "the crate heaptape-alloc hands its calls to the recorder"
                                  : "heaptape/recorder.h hands its calls to the recorder";
    if (own_malloc)
        verdict(reach, REACH_NONE,
                "has a malloc of its own linked in%s%s%s, whose calls no preloaded library sees (%s)",
                allocator ? " (" : "", allocator ? allocator : "", allocator ? ")" : "", way);
    else if (allocator)
        verdict(reach, REACH_PARTLY,
                "has %s linked in, whose calls no preloaded library sees: they are not recorded (%s)",
                allocator, way);
    else if (found->malloc && found->free)
        verdict(reach, REACH_PARTLY,
                "has a malloc of its own linked in: only its libraries' calls are recorded (%s)", way);
    else if (found->rust && !found->imports_calloc)
        verdict(reach, REACH_PARTLY,
                "has a #[global_allocator] of its own: what that does not take from malloc is not recorded "
                "(%s)",
                way);
    else if (found->operator_new && !found->imports_malloc)
        verdict(reach, REACH_PARTLY,
                "has an operator new of its own linked in that does not call malloc: its calls are not "
                "recorded (%s)",
                way);
}

// A program that starts, and into which the library is loaded: what does it keep to itself?
static void judge_symbols(struct reach *reach, const struct elf_file *elf, const char *path) {
    struct findings exported = {0}, all = {0};
    take_libraries(&exported, elf);
    elf_file_each_symbol(elf, SHT_DYNSYM, take_symbol, &exported);
    bool own = exported.malloc && exported.free;
    reach->loads = exported.loads;
    if (launches_dotnet(path)) exported.runtime = ".NET";
    if (elf_file_has_section(elf, ".go.buildinfo") || elf_file_has_section(elf, ".note.go.buildid"))
        exported.runtime = "Go";
    if (exported.sanitizer) {
        verdict(reach, REACH_NONE,
                "is built with the %s sanitizer, whose runtime has its own malloc and must be loaded first",
                exported.sanitizer);
        return;
    }
    // Symbols that nobody exports say more, but may be many; they are not asked where the answer is known.
    if (!own && exported.runtime) {
        judge_runtime(reach, exported.runtime);
        return;
    }
    if (!elf_file_each_symbol(elf, SHT_SYMTAB, take_symbol, &all)) {
        take_messages(&all, elf);
        all.rust = all.allocator && elf_file_data_holds(elf, "/rustc/");
    }
    elf_file_each_import(elf, take_import, &all);
    const char *allocator = exported.allocator ? exported.allocator : all.allocator;
    // A program may name functions after the library that it loads, as Redis' jemalloc_purge.
    if (!own && allocator && reach->loads && !strcmp(allocator, reach->loads)) allocator = NULL;
    reach->children = true;
    all.operator_new = all.operator_new || exported.operator_new;
    judge_linked_in(reach, &all, own, allocator);
    reach->linked = reach->level != REACH_FULL;
    reach->allocator = allocator;
    // The text by which the program finds the recorder, to hand its calls over.
    if (reach->linked && elf_file_data_holds(elf, "heaptape_recorder")) {
        verdict(reach, REACH_FULL, "%s", "");
        reach->linked = false;
    }
}

// Whether the file's capabilities change the rights of a caller who is not root. The kernel hands out those of another user
// namespace as revision 3.
static bool capabilities_change_rights(int fd, bool no_new_rights) {
    struct vfs_cap_data data;
    ssize_t got = fgetxattr(fd, XATTR_NAME_CAPS, &data, sizeof data);
    if (got < (ssize_t)XATTR_CAPS_SZ_1) return false;
    uint32_t magic = le32toh(data.magic_etc);
    if ((magic & VFS_CAP_REVISION_MASK) == VFS_CAP_REVISION_3) return false;
    bool permitted = data.data[0].permitted || (got >= (ssize_t)XATTR_CAPS_SZ_2 && data.data[1].permitted);
    // The kernel goes by the effective flag even where it grants nothing.
    return (magic & VFS_CAP_FLAGS_EFFECTIVE) || (permitted && !no_new_rights);
}

// Whether the kernel will report changed rights to the loader (AT_SECURE): the loader then ignores
// LD_PRELOAD. That is so where the effective user or group is not the real one after the exec; root running a
// set-user-ID root program changes nothing.
static bool runs_secure(int fd, const struct stat *status) {
    uid_t user = geteuid();
    gid_t group = getegid();
    struct statvfs mount;
    bool no_new_rights = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
    bool ignored = !fstatvfs(fd, &mount) && (mount.f_flag & ST_NOSUID);
    if (!ignored && !no_new_rights) {
        if (status->st_mode & S_ISUID) user = status->st_uid;
        if ((status->st_mode & S_ISGID) && (status->st_mode & S_IXGRP)) group = status->st_gid;
    }
    return user != getuid() || group != getgid() ||
           (!ignored && getuid() != 0 && capabilities_change_rights(fd, no_new_rights));
}

static const char *machine_name(unsigned machine) {
    switch (machine) {
    case EM_X86_64: return "x86-64";
    case EM_AARCH64: return "aarch64";
    case EM_386: return "32-bit x86";
    case EM_ARM: return "32-bit arm";
    case EM_RISCV: return "riscv";
    case EM_PPC64: return "ppc64";
    case EM_S390: return "s390";
    default: return "another machine";
    }
}

// "musl" or "glibc", NULL if it is unknown. A program names its loader, a library its libc.
static const char *libc_of_program(const char *interpreter) {
    const char *name = base_name(interpreter);
    if (!strncmp(name, "ld-musl-", 8)) return "musl";
    return strncmp(name, "ld-linux", 8) ? NULL : "glibc";
}

static const char *libc_of_library(const struct elf_file *library) {
    const char *needed;
    for (unsigned i = 0; (needed = elf_file_dynamic_string(library, DT_NEEDED, i)); i++) {
        if (!strcmp(needed, "libc.so.6")) return "glibc";
        if (!strcmp(needed, "libc.so") || !strncmp(needed, "libc.musl-", 10)) return "musl";
    }
    return NULL;
}

// A loader that is itself the program runs another one that preloads as ever.
static bool is_loader(const struct elf_file *elf, const char *path) {
    return elf->dynamics &&
           (elf_file_dynamic_string(elf, DT_SONAME, 0) || !strncmp(base_name(path), "ld-", 3));
}

// Whether the program's loader will come to the library, and accept it.
static bool judge_loading(struct reach *reach, const struct elf_file *elf, const char *path,
                          const struct elf_file *library) {
    char text[PATH_MAX];
    const char *interpreter = elf_file_interpreter(elf, text, sizeof text);
    const char *own_libc = libc_of_library(library);
    const char *libc = libc_of_program(interpreter ? interpreter : path);
    if (!interpreter && !is_loader(elf, path)) {
        verdict(reach, REACH_NONE, "is statically linked: nothing can be preloaded into it");
        reach->children = true;
    } else if (libc && own_libc && strcmp(libc, own_libc)) {
        verdict(reach, REACH_NONE, "is built for %s; this shim for %s", libc, own_libc);
    }
    return interpreter && reach->level != REACH_NONE;
}

static void judge_executable(struct reach *reach, const char *path, int fd, const struct elf_file *library) {
    struct elf_file elf;
    struct stat status;
    bool readable = elf_file_open(&elf, fd), is_elf = !memcmp(elf.header.e_ident, ELFMAG, SELFMAG);
    const Elf64_Ehdr *header = &elf.header;
    if (is_elf && (!readable || header->e_machine != library->header.e_machine))
        verdict(reach, REACH_NONE, "is built for %s; this shim for %s",
                machine_name(header->e_ident[EI_CLASS] == ELFCLASS32 && header->e_machine == EM_X86_64
                                 ? EM_386
                                 : header->e_machine),
                machine_name(library->header.e_machine));
    else if (!fstat(fd, &status) && runs_secure(fd, &status))
        verdict(reach, REACH_NONE, "runs with other rights than yours: the loader ignores LD_PRELOAD");
    else if (is_elf && judge_loading(reach, &elf, path, library)) judge_symbols(reach, &elf, path);
    elf_file_close(&elf);
}

static bool is_program(const char *path) {
    struct stat status;
    return !stat(path, &status) && S_ISREG(status.st_mode) && !access(path, X_OK);
}

// The file that a command names, as execvp would find it.
static bool find_program(const char *name, char path[PATH_MAX]) {
    if (strchr(name, '/')) return snprintf(path, PATH_MAX, "%s", name) < PATH_MAX && is_program(path);
    const char *folders = getenv("PATH");
    for (const char *at = folders ? folders : "/bin:/usr/bin"; *name && *at;) {
        size_t length = strcspn(at, ":");
        const char *slash = length ? "/" : "";
        if (snprintf(path, PATH_MAX, "%.*s%s%s", (int)length, at, slash, name) < PATH_MAX && is_program(path))
            return true;
        at += length + (at[length] == ':');
    }
    return false;
}

static char *next_word(char **at) {
    char *word = *at + strspn(*at, " \t"), *end = word + strcspn(word, " \t");
    *at = *end ? end + 1 : end;
    *end = 0;
    return *word ? word : NULL;
}

// env runs its first word that is neither an option nor an assignment.
static char *word_behind_env(char *arguments) {
    char *word;
    while ((word = next_word(&arguments)) && (*word == '-' || strchr(word, '='))) {
        // -u, -C take a word of their own; -S splits what it got, as is done here anyway.
        if (!strcmp(word, "-u") || !strcmp(word, "-C")) next_word(&arguments);
        if (!strncmp(word, "-S", 2) && word[2] && !strchr(word, '=')) return word + 2;
    }
    return word;
}

// The program that interprets a script, or false if the file is no script.
static bool find_interpreter(int fd, char path[PATH_MAX]) {
    char line[LINE_BYTES + 1];
    ssize_t got = pread(fd, line, LINE_BYTES, 0);
    if (got < 0) return false;
    line[got] = 0;
    if (strncmp(line, "#!", 2)) {
        // execvp gives a text without such a line to the shell.
        bool text = got > 0 && strlen(line) == (size_t)got && memcmp(line, ELFMAG, SELFMAG) != 0;
        return text && snprintf(path, PATH_MAX, "/bin/sh") > 0;
    }
    line[strcspn(line, "\r\n")] = 0;
    char *at = line + 2, *interpreter = next_word(&at);
    if (!interpreter) return false;
    if (!strcmp(base_name(interpreter), "env")) {
        char *word = word_behind_env(at);
        if (word) return find_program(word, path);
    }
    return snprintf(path, PATH_MAX, "%s", interpreter) < PATH_MAX && is_program(path);
}

// The sentence begins with the script's name. The programs that a script starts are recorded even if its interpreter itself
// cannot be.
static void judge_script(struct reach *reach, const char *interpreter) {
    char why[sizeof reach->why];
    snprintf(why, sizeof why, "%s", reach->why);
    bool partly = reach->level == REACH_NONE && reach->children;
    if (*why)
        verdict(reach, partly ? REACH_PARTLY : reach->level, "is run by %s, which %s%s", interpreter, why,
                partly ? ": only the programs that it starts can be recorded" : "");
}

// The program that a shell becomes at once. False: another command, or a name that the shell would change.
static bool find_exec_of_shell(char *const *command, char name[PATH_MAX]) {
    static const char exec[] = "exec ",
                      plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-";
    if (!shell_name(command[0]) || !command[1] || strcmp(command[1], "-c") || !command[2]) return false;
    const char *script = command[2] + strspn(command[2], " \t\n");
    if (strncmp(script, exec, strlen(exec)) != 0) return false;
    const char *word = script + strlen(exec) + strspn(script + strlen(exec), " \t");
    size_t length = strspn(word, plain);
    return length && *word != '-' && (!word[length] || strchr(" \t\n", word[length])) &&
           snprintf(name, PATH_MAX, "%.*s", (int)length, word) < PATH_MAX;
}

void reach_of(struct reach *reach, char *const *words, const char *library_path) {
    char path[PATH_MAX], become[PATH_MAX];
    const char *command = find_exec_of_shell(words, become) ? become : words[0];
    struct elf_file library;
    int library_fd = open(library_path, O_RDONLY | O_CLOEXEC);
    *reach = (struct reach){.level = REACH_FULL};
    if (!find_program(command, reach->program))
        snprintf(reach->program, sizeof reach->program, "%s", command);
    else if (library_fd >= 0 && elf_file_open(&library, library_fd)) {
        snprintf(path, sizeof path, "%s", reach->program);
        unsigned scripts = 0;
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        while (fd >= 0 && scripts < SCRIPTS_MAX && find_interpreter(fd, path)) {
            scripts++;
            close(fd);
            fd = open(path, O_RDONLY | O_CLOEXEC);
        }
        if (fd >= 0) judge_executable(reach, path, fd, &library);
        if (scripts) judge_script(reach, path);
        snprintf(reach->executable, sizeof reach->executable, "%s", path);
        if (fd >= 0) close(fd);
        elf_file_close(&library);
    }
    if (library_fd >= 0) close(library_fd);
}

// ---- programs that the recorded one started ----

static bool is_judged(const struct unhooked_programs *programs, const char *executable) {
    for (size_t i = 0; i < programs->judged_count; i++)
        if (!strcmp(programs->judged[i], executable)) return true;
    return false;
}

void unhooked_programs_begin(struct unhooked_programs *programs, const char *started, const char *shim,
                             const char *full) {
    *programs = (struct unhooked_programs){.shim = shim, .full = full};
    char *path = realpath(started, NULL);  // as logs have it
    if (path) programs->judged[programs->judged_count++] = path;
}

static void miss(struct missed_calls *missed, const char *program, const char *why) {
    if (missed->first) missed->likewise++;
    else if (asprintf(&missed->first, "%s %s", program, why) < 0) missed->first = NULL;
}

void unhooked_programs_take(struct unhooked_programs *programs, const char *executable, const char *hooks) {
    struct reach reach;
    char *copy;
    if (!executable || (hooks && !strcmp(hooks, "set")) || is_judged(programs, executable) ||
        programs->judged_count == HT_PROGRAMS_JUDGED_MAX || !(copy = strdup(executable)))
        return;
    programs->judged[programs->judged_count++] = copy;
    reach_of(&reach, (char *[]){copy, NULL}, programs->shim);
    if (reach.linked) miss(&programs->linked, reach.program, reach.why);
    // To read all libraries of all programs would take seconds.
    if (reach.loads && *programs->full && calls_own_functions(executable, programs->shim, programs->full))
        miss(&programs->own, reach.program,
             "calls its allocator's own functions (mallocx, mi_malloc), which are not recorded");
}

static void say_missed(const struct missed_calls *missed, const char *only) {
    if (!missed->first) return;
    ht_print(stderr, "heaptape record: warning: %s; only the program that record itself starts %s",
             missed->first, only);
    if (missed->likewise) ht_print(stderr, " (likewise %zu more)", missed->likewise);
    fputc('\n', stderr);
}

void unhooked_programs_say(struct unhooked_programs *programs) {
    say_missed(&programs->linked, "can be hooked");
    say_missed(&programs->own, "gets the library that records them");
    for (size_t i = 0; i < programs->judged_count; i++) free(programs->judged[i]);
    free(programs->linked.first);
    free(programs->own.first);
}
