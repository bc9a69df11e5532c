// SPDX-License-Identifier: Apache-2.0
#include "source_build.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "archive_walk.h"
#include "confined.h"
#include "print.h"

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

enum { WORDS_MAX = 128, CPU_S_MAX = 900 };

// The words of a command.
struct words {
    char *word[WORDS_MAX + 1];
    size_t count;
};

static bool add_word(struct words *words, const char *format, const char *a, const char *b) {
    char *made = NULL;
    if (words->count == WORDS_MAX || asprintf(&made, format, a, b) < 0) return false;
    words->word[words->count++] = made;
    return true;
}

static void free_words(struct words *words) {
    for (size_t i = 0; i < words->count; i++) free(words->word[i]);
    *words = (struct words){0};
}

static bool add_words(struct words *words, const char *text) {
    char one[1024];
    for (const char *at = text; at && *at; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        snprintf(one, sizeof one, "%.*s", (int)length, at);
        if (!add_word(words, "%s%s", one, "")) return false;
        at += length;
    }
    return true;
}

// ---- which kinds, and where ----

static const struct ht_allocator *family_of(const struct ht_allocator *kind) {
    return kind->build_of ? kind->build_of : kind;
}

// A path of the catalogue, in the tree: without so many of its folders, below the root. That of a folder may be all left out.
static bool is_path(const struct source_build *build, const char *name, char path[PATH_MAX]) {
    for (unsigned i = 0; i < build->left_out; i++) {
        const char *slash = strchr(name, '/');
        name = slash ? slash + 1 : "";
    }
    return snprintf(path, PATH_MAX, "%s/%s", build->root, name) < PATH_MAX && !access(path, F_OK);
}

// Each word's path, with something before it. False if one is not there.
static bool add_paths(struct words *words, const struct source_build *build, const char *before,
                      const char *text) {
    struct words names = {0};
    char path[PATH_MAX];
    bool added = add_words(&names, text);
    for (size_t i = 0; i < names.count; i++)
        added = added && is_path(build, names.word[i], path) && add_word(words, "%s%s", before, path);
    free_words(&names);
    return added;
}

// The flags; in one, <sources>/ stands before a path. False if one of these is not there.
static bool add_flags(struct words *words, const struct source_build *build, const char *text) {
    static const char sources[] = "<sources>/";
    struct words flags = {0};
    char path[PATH_MAX];
    bool added = add_words(&flags, text);
    for (size_t i = 0; added && i < flags.count; i++) {
        char *at = strstr(flags.word[i], sources);
        added = !at || is_path(build, at + strlen(sources), path);
        if (at) *at = 0;
        added = added && add_word(words, "%s%s", flags.word[i], at ? path : "");
    }
    free_words(&flags);
    return added;
}

// The word of a field that has so many before it, as far as it goes: text of room bytes.
static const char *nth_word(const char *text, unsigned before, char *word, size_t room) {
    for (; before; before--) text += strcspn(text, " ") + (strchr(text, ' ') != NULL);
    snprintf(word, room, "%.*s", (int)strcspn(text, " "), text);
    return word;
}

// Whether the catalogue says how to build it. What a crate's own build script lists is not known here.
static bool has_recipe(const struct ht_allocator *kind) {
    if (kind->build_configure) return strstr(kind->build_configure, "/configure") != NULL;
    return kind->build_sources && !strstr(kind->build_sources, ".rs");
}

static bool is_complete(struct source_build *build) {
    const struct ht_allocator *kind = build->kind;
    char script[256];
    const char *files = kind->build_configure ? nth_word(kind->build_configure, 1, script, sizeof script)
                                              : kind->build_sources;
    struct words words = {0};
    unsigned folders = 0;
    for (const char *at = files; *at && *at != ' '; at++) folders += *at == '/';
    bool complete = folders >= build->left_out && add_paths(&words, build, "", files) &&
                    add_flags(&words, build, kind->build_flags);
    if (complete) snprintf(build->first, sizeof build->first, "%s", words.word[0]);
    free_words(&words);
    return complete;
}

// An archive that is called as the allocator itself, such as mimalloc-3.2.6, has its version there; a crate has one of its own.
static void take_version(struct source_build *build, const struct source_tree *tree) {
    const char *name = family_of(build->kind)->name;
    size_t length = strlen(name);
    if (strncmp(tree->top, name, length) || tree->top[length] != '-') return;
    const char *version = tree->top + length + 1;
    version += *version == 'v';
    if (isdigit((unsigned char)*version))
        snprintf(build->version, sizeof build->version, "%.*s", (int)strspn(version, "0123456789."), version);
}

// What is looked for in each folder of the tree. nftw has no argument for it.
static struct build_search {
    const struct source_tree *tree;
    struct source_build *builds;
    size_t count;
    unsigned left_out;
} build_search;

static bool is_planned(const struct source_build *build) {
    for (size_t i = 0; i < build_search.count; i++)
        if (!strcmp(build_search.builds[i].first, build->first)) return true;
    return false;
}

static int look_in_folder(const char *path, const struct stat *status, int type, struct FTW *at) {
    static struct source_build build;
    (void)status, (void)at;
    for (size_t i = 0; type == FTW_D && ht_allocators[i] && build_search.count < SOURCE_BUILDS_MAX; i++) {
        build = (struct source_build){.kind = ht_allocators[i], .left_out = build_search.left_out};
        snprintf(build.root, sizeof build.root, "%s", path);
        if (!has_recipe(build.kind) || !strstr(build_search.tree->top, family_of(build.kind)->name) ||
            !is_complete(&build) || is_planned(&build))
            continue;
        take_version(&build, build_search.tree);
        build_search.builds[build_search.count++] = build;
    }
    return 0;
}

size_t source_builds_plan(struct source_build builds[SOURCE_BUILDS_MAX], const struct source_tree *tree) {
    enum { LEFT_OUT_MAX = 4, FOLDERS_OPEN_MAX = 16 };
    build_search = (struct build_search){.tree = tree, .builds = builds};
    for (; !build_search.count && build_search.left_out <= LEFT_OUT_MAX; build_search.left_out++)
        nftw(tree->folder, look_in_folder, FOLDERS_OPEN_MAX, FTW_PHYS);
    return build_search.count;
}

// ---- commands ----

// The last line that a command wrote which is not empty.
static void last_line(const char *log, char *text, size_t room) {
    char line[512];
    FILE *file = fopen(log, "re");
    *text = 0;
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\r\n")] = 0;
        if (*line) snprintf(text, room, "%.250s", line);
    }
    if (file) fclose(file);
}

static _Noreturn void become(const struct words *words, const char *folder, const char *log) {
    struct rlimit limit = {CPU_S_MAX, CPU_S_MAX};
    int out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600),
        in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    setrlimit(RLIMIT_CPU, &limit);
    if (in >= 0 && out >= 0 && dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 &&
        dup2(out, STDERR_FILENO) >= 0 && !chdir(folder))
        execvp(words->word[0], words->word);
    fprintf(stderr, "cannot run %s: %s\n", words->word[0], strerror(errno));
    _exit(127);
}

static int run(const struct words *words, const struct source_tree *tree, const char *folder,
               struct ht_error *error) {
    char log[PATH_MAX], said[300];
    int status;
    pid_t ended;
    snprintf(log, sizeof log, "%.*s/build.log", PATH_MAX - 16, tree->folder);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) become(words, folder, log);
    if (child < 0) return ht_error_system(error, tree->path, "cannot start a process");
    do ended = waitpid(child, &status, 0);
    while (ended < 0 && errno == EINTR);
    if (ended == child && WIFEXITED(status) && !WEXITSTATUS(status)) return 0;
    last_line(log, said, sizeof said);
    error->status = HT_EXIT_FAILED;
    snprintf(error->message, sizeof error->message, "%.300s: building it failed: %.64s: %.300s", tree->path,
             words->word[0], said);
    return -1;
}

static const char *compiler(const char *variable, const char *usual) {
    const char *named = getenv(variable);
    return named && *named ? named : usual;
}

// ---- by one call of the compiler ----

static bool write_version(const char *path, const char *version) {
    FILE *file = fopen(path, "we");
    if (!file) return false;
    fprintf(file, "__attribute__((visibility(\"default\"), used)) char heaptape_built_version[] = \"%s\";\n",
            version);
    return !fclose(file);
}

static int compile(struct source_build *build, const struct source_tree *tree, const char *version,
                   struct ht_error *error) {
    const struct ht_allocator *kind = build->kind;
    struct words words = {0};
    char reported[PATH_MAX];
    bool is_cxx = strstr(kind->build_sources, ".cc") != NULL;
    snprintf(reported, sizeof reported, "%.*s/heaptape_version.c", PATH_MAX - 32, tree->folder);
    snprintf(build->library, sizeof build->library, "%.*s/%.64s", PATH_MAX - 80, tree->folder,
             family_of(kind)->soname);
    bool planned =
        add_words(&words, is_cxx ? compiler("CXX", "c++") : compiler("CC", "cc")) &&
        add_words(&words, "-shared -O2 -fPIC -pthread -w") && add_flags(&words, build, kind->build_flags) &&
        add_paths(&words, build, "", kind->build_sources) && add_words(&words, kind->build_link_flags) &&
        add_word(&words, "-Wl,-soname,%s%s", family_of(kind)->soname, "") &&
        add_word(&words, "-o%s%s", build->library, "");
    if (planned && *version)
        planned = write_version(reported, version) && add_word(&words, "%s%s", reported, "");
    int failed = planned
                     ? run(&words, tree, tree->folder, error)
                     : ht_error_input(error, tree->path, 0, "expected all sources of %s in it", kind->name);
    free_words(&words);
    return failed;
}

// ---- by configure and make ----

// The catalogue's flags are for one release: the version is that of these sources, and the library has its usual name.
static bool add_configure_flags(struct words *words, const struct ht_allocator *kind) {
    struct words flags = {0};
    bool added = add_words(&flags, kind->build_flags);
    for (size_t i = 0; added && i < flags.count; i++)
        if (strncmp(flags.word[i], "--with-version=", strlen("--with-version=")) &&
            strncmp(flags.word[i], "--with-install-suffix=", strlen("--with-install-suffix=")))
            added = add_word(words, "%s%s", flags.word[i], "");
    free_words(&flags);
    return added;
}

// A file VERSION beside configure has it; a crate such as tikv-jemalloc-sys-0.5.0+5.3.0 may have it in its name alone.
static bool add_configure_version(struct words *words, const struct source_build *build,
                                  const struct source_tree *tree) {
    char path[PATH_MAX], line[128] = "";
    const char *plus = strchr(tree->top, '+');
    snprintf(path, sizeof path, "%.*s/VERSION", (int)(strrchr(build->first, '/') - build->first),
             build->first);
    FILE *file = fopen(path, "re");
    bool read = file && fgets(line, sizeof line, file);
    if (file) fclose(file);
    line[strcspn(line, "\r\n")] = 0;
    if (read) return add_word(words, "--with-version=%s%s", line, "");
    return !plus || add_word(words, "--with-version=%s%s", plus + 1, strchr(plus, '-') ? "" : "-0-g0");
}

static bool add_jobs(struct words *words) {
    char count[16];
    snprintf(count, sizeof count, "%ld", sysconf(_SC_NPROCESSORS_ONLN));
    return add_word(words, "-j%s%s", count, "");
}

static int configure(struct source_build *build, const struct source_tree *tree, struct ht_error *error) {
    const struct ht_allocator *kind = build->kind;
    struct words configure = {0}, make = {0};
    char folder[PATH_MAX], source[256], target[64], script[PATH_MAX];
    nth_word(kind->build_configure, 0, source, sizeof source);
    nth_word(kind->build_configure, 2, target, sizeof target);
    if (!is_path(build, source, folder))
        return ht_error_input(error, tree->path, 0, "expected a folder %s in it", source);
    snprintf(script, sizeof script, "%.*s/configure", PATH_MAX - 16, folder);
    if (strcmp(script, build->first)) {
        if (rename(build->first, script)) return ht_error_system(error, script, "cannot be made");
    }
    bool planned = add_words(&configure, "sh ./configure --quiet") && add_configure_flags(&configure, kind) &&
                   add_configure_version(&configure, build, tree) && add_words(&make, "make -s") &&
                   add_jobs(&make) && add_words(&make, target);
    int failed =
        planned ? run(&configure, tree, folder, error) : ht_error_memory(error, tree->path, "cannot build");
    if (!failed) failed = run(&make, tree, folder, error);
    free_words(&configure);
    free_words(&make);
    snprintf(build->library, sizeof build->library, "%.*s/lib/%.64s.2", PATH_MAX - 80, folder,
             family_of(kind)->soname);
    return failed;
}

int source_build_make(struct source_build *build, const struct source_tree *tree, const char *version,
                      struct ht_error *error) {
    ht_print(stderr, "building %s from %s\n", family_of(build->kind)->name, tree->top);
    return build->kind->build_configure ? configure(build, tree, error)
                                        : compile(build, tree, version, error);
}
