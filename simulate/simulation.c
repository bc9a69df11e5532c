// SPDX-License-Identifier: Apache-2.0
#include "simulation.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <unistd.h>

#include "access_reader.h"
#include "talk.h"

// Golden Cove's: what virtual machines hide is most often like it.
static const struct ht_geometry usual = {.size = {.level = {[HT_L1D] = {64, 12},
                                                            [HT_L1I] = {64, 8},
                                                            [HT_L2] = {2048, 16},
                                                            [HT_DTLB] = {16, 6},
                                                            [HT_STLB] = {128, 16}}}};

#ifdef __x86_64__
#include <cpuid.h>

enum { CACHE_DATA = 1, CACHE_CODE = 2, CACHE_UNIFIED = 3, TLB_LEAF = 0x18, AMD_CACHE_LEAF = 0x8000001d };

// A number of sets that is a power of two, as the simulation indexes by bits of the address.
static struct ht_level_size level_size(uint32_t sets, uint32_t ways) {
    while (sets & (sets - 1)) sets &= sets - 1;
    return (struct ht_level_size){sets, ways};
}

// Intel's leaf 4 and AMD's 0x8000001d have one layout: a cache for each subleaf.
static bool read_caches(uint32_t leaf, struct ht_processor_size *size) {
    uint32_t a, b, c, d, found = 0;
    for (uint32_t i = 0; i < 16; i++) {
        __cpuid_count(leaf, i, a, b, c, d);
        uint32_t type = a & 31, level = a >> 5 & 7;
        if (!type) break;
        struct ht_level_size read = level_size(c + 1, (b >> 22) + 1);
        if ((b & 0xfff) + 1 != 1 << HT_LINE_SHIFT) return false;
        if (level == 1 && type == CACHE_DATA) size->level[HT_L1D] = read, found |= 1;
        if (level == 1 && type == CACHE_CODE) size->level[HT_L1I] = read, found |= 2;
        if (level == 2 && type != CACHE_CODE) size->level[HT_L2] = read, found |= 4;
    }
    return found == 7;
}

// Intel's leaf 0x18: of pages of 4 KiB, for data or both, the first and the second level.
static bool read_tlbs(struct ht_processor_size *size) {
    uint32_t a, b, c, d, last, found = 0;
    __cpuid_count(TLB_LEAF, 0, last, b, c, d);
    for (uint32_t i = 0; i <= last && i < 32; i++) {
        __cpuid_count(TLB_LEAF, i, a, b, c, d);
        uint32_t type = d & 31, level = d >> 5 & 7;
        if ((type != CACHE_DATA && type != CACHE_UNIFIED) || !(b & 1) || !c) continue;
        struct ht_level_size read = level_size(c, b >> 16);
        if (d >> 8 & 1) read = (struct ht_level_size){1, c * (b >> 16)};  // fully associative
        if (level == 1) size->level[HT_DTLB] = read, found |= 1;
        if (level == 2) size->level[HT_STLB] = read, found |= 2;
    }
    return found == 3;
}

void ht_geometry_read(struct ht_geometry *geometry) {
    struct ht_processor_size read = usual.size;
    *geometry = usual;
    geometry->caches_known =
        (__get_cpuid_max(0, NULL) >= 4 && read_caches(4, &read)) ||
        (__get_cpuid_max(0x80000000, NULL) >= AMD_CACHE_LEAF && read_caches(AMD_CACHE_LEAF, &read));
    geometry->caches_known = geometry->caches_known && ht_processor_takes(&read);
    if (geometry->caches_known) geometry->size = read;
    read = geometry->size;
    geometry->tlbs_known =
        __get_cpuid_max(0, NULL) >= TLB_LEAF && read_tlbs(&read) && ht_processor_takes(&read);
    if (geometry->tlbs_known) geometry->size = read;
}
#else
void ht_geometry_read(struct ht_geometry *geometry) { *geometry = usual; }
#endif

const char *ht_geometry_text(char text[HT_GEOMETRY_TEXT_BYTES], const struct ht_processor_size *size) {
    int used = 0;
    for (int i = 0; i < HT_LEVELS; i++)
        used += snprintf(text + used, (size_t)(HT_GEOMETRY_TEXT_BYTES - used), "%s%ux%u", i ? "," : "",
                         size->level[i].sets, size->level[i].ways);
    return text;
}

static const char TOOL[] = "heaptape-amd64-linux";
static const char *const places[] = {"/valgrind", "/" HEAPTAPE_VALGRIND_FROM_BIN};

// The folder of the tool: beside this program, or where it is installed.
static bool find_folder(char folder[PATH_MAX]) {
    char own[PATH_MAX], tool[2 * PATH_MAX];
    ssize_t got = readlink("/proc/self/exe", own, sizeof own - 1);
    if (got < 0) return false;
    own[got] = 0;
    *strrchr(own, '/') = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        int length = snprintf(folder, PATH_MAX, "%s%s", own, places[i]);
        snprintf(tool, sizeof tool, "%s/%s", folder, TOOL);
        if (length < PATH_MAX && !access(tool, X_OK)) return true;
    }
    return false;
}

static bool in_path(const char *program) {
    const char *path = getenv("PATH");
    char candidate[PATH_MAX];
    for (const char *at = path ? path : ""; *at; at += *at == ':') {
        size_t length = strcspn(at, ":");
        int made = snprintf(candidate, sizeof candidate, "%.*s/%s", (int)length, at, program);
        if (made < (int)sizeof candidate && !access(candidate, X_OK)) return true;
        at += length;
    }
    return false;
}

// What starts the tool: a launcher in the tool's folder, else the package valgrind's. Returns why there is none, or NULL.
static const char *find_launcher(char folder[PATH_MAX], char launcher[PATH_MAX + sizeof "/valgrind"]) {
    static const char package[] = HEAPTAPE_SIMULATION_PACKAGE;
    bool found = find_folder(folder);
    if (!found && *package) return "the simulation is not installed: " HEAPTAPE_SIMULATION_PACKAGE;
    sprintf(launcher, "%s/valgrind", folder);
    if (found && !access(launcher, X_OK)) return NULL;
    strcpy(launcher, "valgrind");
    if (!in_path(launcher)) return "valgrind is not installed: apt-get install valgrind";
    return found ? NULL : "the simulation was not built: it takes the valgrind package and an x86-64 machine";
}

static void __attribute__((format(printf, 2, 3))) add(struct ht_simulation_words *words, const char *format,
                                                      ...) {
    char *text = words->text[words->count];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof words->text[0], format, values);
    va_end(values);
    words->word[words->count++] = text;
    words->word[words->count] = NULL;
}

bool ht_simulation_prepare(struct ht_simulation_words *words, const struct ht_simulation *simulation,
                           const char **problem) {
    struct ht_geometry geometry;
    char text[HT_GEOMETRY_TEXT_BYTES], launcher[PATH_MAX + sizeof "/valgrind"];
    words->count = 0;
    *problem = find_launcher(words->folder, launcher);
    if (*problem) return false;
    ht_geometry_read(&geometry);
    add(words, "%s", launcher);
    add(words, "--tool=heaptape");
    add(words, "-q");
    add(words, "--vgdb=no");
    add(words, "--trace-children=yes");
    add(words, "--simulate=%s", simulation->caches ? "yes" : "no");
    add(words, "--geometry=%s", ht_geometry_text(text, &geometry.size));
    add(words, "--virtual-clock=%s", simulation->real_clock ? "no" : "yes");
    if (simulation->profile) add(words, "--profile=yes");
    if (simulation->out) add(words, "--out=%s", simulation->out);
    if (simulation->within) add(words, "--within=%s", simulation->within);
    if (simulation->record) add(words, "--record=%s", simulation->record);
    if (simulation->sampled) add(words, "--sampled=yes");
    if (simulation->splice) add(words, "--splice=%s", simulation->splice);
    return true;
}

void ht_simulation_set_environment(const struct ht_simulation_words *words) {
    setenv("VALGRIND_LIB", words->folder, 1);
    setenv("LD_BIND_NOW", "1", 1);  // else the first call of a function has the loader search it
    setenv("PYTHONHASHSEED", "0", 0);
    setenv("PERL_HASH_SEED", "0", 0);
    setenv("PERL_PERTURB_KEYS", "0", 0);
}

void ht_simulation_fix_addresses(void) { personality(ADDR_NO_RANDOMIZE); }

void ht_simulation_exec(const struct ht_simulation_words *words, char **program) {
    size_t count = 0;
    while (program[count]) count++;
    char **all = calloc(words->count + count + 1, sizeof *all);
    if (!all) return;
    memcpy(all, words->word, words->count * sizeof *all);
    memcpy(all + words->count, program, count * sizeof *all);
    ht_simulation_set_environment(words);
    ht_simulation_fix_addresses();
    execvp(all[0], all);
    free(all);
}

char *ht_counts_folder(void) {
    const char *temporary = getenv("TMPDIR");
    char *folder;
    if (asprintf(&folder, "%s/heaptape-counts-XXXXXX", temporary && *temporary ? temporary : "/tmp") < 0)
        return NULL;
    if (mkdtemp(folder)) return folder;
    free(folder);
    return NULL;
}

// A percent sign of the folder's own name is doubled, as valgrind asks.
char *ht_counts_pattern(const char *folder) {
    char *pattern = malloc(2 * strlen(folder) + sizeof "/%p.json"), *at = pattern;
    if (!pattern) return NULL;
    for (; *folder; *at++ = *folder++)
        if (*folder == '%') *at++ = '%';
    memcpy(at, "/%p.json", sizeof "/%p.json");
    return pattern;
}

static int by_process(const struct dirent **a, const struct dirent **b) {
    long first = strtol((*a)->d_name, NULL, 10), second = strtol((*b)->d_name, NULL, 10);
    return (first > second) - (first < second);
}

static int is_counts(const struct dirent *entry) { return strstr(entry->d_name, ".json") != NULL; }

json_t *ht_counts_collect(char *folder, char *pattern) {
    struct dirent **entries;
    json_t *all = json_array();
    int count = scandir(folder, &entries, is_counts, by_process);
    for (int i = 0; i < count; i++) {
        char *path;
        if (asprintf(&path, "%s/%s", folder, entries[i]->d_name) >= 0) {
            json_t *counts = json_load_file(path, 0, NULL);
            if (counts) json_array_append_new(all, counts);
            unlink(path);
            free(path);
        }
        free(entries[i]);
    }
    if (count >= 0) free(entries);
    rmdir(folder);
    free(folder);
    free(pattern);
    return all;
}

void ht_counts_table_begin(struct ht_text_table *table, const char *title) {
    *table = (struct ht_text_table){.alignments = "lrrrrrrrr"};
    ht_table_add(table, (const char *const[]){title, "instructions", "L1D misses", "L2 misses", "L1I misses",
                                              "TLB misses", "second TLB", "branch misses", "page faults"});
}

void ht_counts_table_add(struct ht_text_table *table, const char *name, const json_t *part) {
    static const char *const keys[] = {"instructions", "l1d_misses",  "l2_misses",     "l1i_misses",
                                       "dtlb_misses",  "stlb_misses", "branch_misses", "faults"};
    enum { KEYS = sizeof keys / sizeof *keys };
    char text[KEYS][32];
    const char *cells[KEYS + 1] = {name};
    for (size_t i = 0; i < KEYS; i++) {
        const json_t *value = json_object_get(part, keys[i]);
        cells[i + 1] = value ? ht_grouped(text[i], (uint64_t)json_integer_value(value)) : "";
    }
    ht_table_add(table, cells);
}

enum { BURSTS_MIN = 8 };  // fewer show nothing of how far the sample is off

static size_t read_bytes(void *source, uint8_t *room, size_t count) {
    ssize_t got;
    while ((got = read(*(int *)source, room, count)) < 0 && errno == EINTR);
    return got > 0 ? (size_t)got : 0;
}

// Behind the header, or -1.
static int skip_header(int fd, const char *path, struct ht_access_reader *reader, struct ht_error *error) {
    uint8_t head[HT_ACCESS_HEADER_BYTES];
    uint32_t numbers[4];  // version, least version of a reader, process, bytes of the command
    uint64_t offset;
    size_t bytes = 0, got;
    while (bytes < sizeof head && (got = read_bytes(&fd, head + bytes, sizeof head - bytes))) bytes += got;
    const char *wrong = ht_access_header_wrong(head, bytes, &offset);
    if (wrong) return ht_error_input(error, path, offset, "%s", wrong);
    memcpy(numbers, head + HT_ACCESS_MAGIC_BYTES, sizeof numbers);
    if (numbers[1] > HT_ACCESS_VERSION_SAMPLED)
        return ht_error_input(error, path, HT_ACCESS_MAGIC_BYTES + 4, "%s",
                              ht_found("expected accesses of version 1 or 2", numbers[1]));
    reader->sampled = numbers[1] == HT_ACCESS_VERSION_SAMPLED;
    reader->offset = HT_ACCESS_HEADER_BYTES + (uint64_t)numbers[3];
    lseek(fd, (off_t)reader->offset, SEEK_SET);
    return 0;
}

static int check_tokens(struct ht_access_reader *reader, const char *path, uint64_t allocations,
                        struct ht_error *error) {
    struct ht_access access = {0};
    char text[HT_NUMBER_OF_BYTES];
    for (uint64_t found = 0, bursts = 0;;) {
        switch (ht_read_access(reader, &access)) {
        case HT_ACCESS_CALL:
            found += access.call.call != HT_ACCESS_FREE && access.call.call != HT_ACCESS_FREE_NULL;
            break;
        case HT_ACCESS_BURST: bursts++; break;
        case HT_ACCESS_CUT:
            return ht_error_input(error, path, access.offset,
                                  "expected the end of the accesses, found the file cut short");
        case HT_ACCESS_DAMAGED:
            return ht_error_input(error, path, access.offset, "expected %s",
                                  ht_found(access.expected, access.found));
        case HT_ACCESS_END:
            if (reader->sampled && bursts < BURSTS_MIN)
                return ht_error_input(error, path, access.offset,
                                      "expected %d bursts or more, found %" PRIu64
                                      ": so short a program is recorded whole (heaptape record --accesses)",
                                      BURSTS_MIN, bursts);
            if (found == allocations) return 0;
            return ht_error_input(error, path, access.offset, "expected the trace's %s, found %" PRIu64,
                                  ht_number_of(text, allocations, "allocation"), found);
        default: break;
        }
    }
}

int ht_accesses_check(const char *path, uint64_t allocations, struct ht_error *error) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct ht_access_reader *reader = calloc(1, sizeof *reader);
    int failed = -1;
    if (fd < 0) {
        ht_error_system(error, path, "cannot open");
        error->status = HT_EXIT_INPUT;
    } else if (!reader) {
        ht_error_memory(error, path, "accesses");
    } else {
        reader->read = read_bytes;
        reader->source = &fd;
        failed = skip_header(fd, path, reader, error) || check_tokens(reader, path, allocations, error);
    }
    free(reader);
    if (fd >= 0) close(fd);
    return failed ? -1 : 0;
}
