// SPDX-License-Identifier: Apache-2.0
#include "simulation.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <unistd.h>

#include "geometry.h"

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
