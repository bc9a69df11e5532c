// SPDX-License-Identifier: Apache-2.0
#include "simulated_counts.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "talk.h"

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
