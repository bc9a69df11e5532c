// SPDX-License-Identifier: Apache-2.0
// Reads the lines of `heaptape dump --no-time` and prints as JSON how many calls of each function
// every thread made between its own two markers (target_support.h). No target: a test's tool, in C
// because 24 million lines are too many for Python.
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4096, NAMES = 32, NAME_BYTES = 32 };

static struct {
    bool within;
    unsigned long begins, ends;
    unsigned long counts[NAMES];
} threads[THREADS];
static char names[NAMES][NAME_BYTES];
static int names_used;

static int name_index(const char *name, size_t length) {
    for (int i = 0; i < names_used; i++)
        if (!strncmp(names[i], name, length) && !names[i][length]) return i;
    if (names_used == NAMES || length >= NAME_BYTES) exit(2);
    memcpy(names[names_used], name, length);
    return names_used++;
}

static bool count_line(const char *line, bool *free_follows) {
    unsigned thread;
    int start;
    if (sscanf(line, "t%u %n", &thread, &start) != 1 || thread >= THREADS) return false;
    const char *call = line + start, *open = strchr(call, '(');
    if (!open) return false;
    if (!strncmp(call, "malloc(54321)", 13)) {
        threads[thread].begins++;
        free_follows[thread] = true;  // the marker's own free is no work of the target's
        threads[thread].within = true;
    } else if (!strncmp(call, "malloc(54323)", 13)) {
        threads[thread].ends++;
        threads[thread].within = false;
    } else if (free_follows[thread]) {
        free_follows[thread] = false;
    } else if (threads[thread].within) {
        threads[thread].counts[name_index(call, (size_t)(open - call))]++;
    }
    return true;
}

static void print_thread(unsigned thread) {
    const char *separator = "";
    printf("{\"thread\": %u, \"calls\": {", thread);
    for (int i = 0; i < names_used; i++) {
        if (!threads[thread].counts[i]) continue;
        printf("%s\"%s\": %lu", separator, names[i], threads[thread].counts[i]);
        separator = ", ";
    }
    printf("}}");
}

int main(void) {
    static bool free_follows[THREADS];
    static char line[4096];
    while (fgets(line, sizeof line, stdin))
        if (!count_line(line, free_follows)) {
            fprintf(stderr, "not a line of a dump: %s", line);
            return 1;
        }
    const char *separator = "";
    printf("[");
    for (unsigned t = 0; t < THREADS; t++) {
        if (!threads[t].begins && !threads[t].ends) continue;
        if (threads[t].begins != 1 || threads[t].ends != 1) return 3;
        printf("%s", separator);
        print_thread(t);
        separator = ",\n ";
    }
    printf("]\n");
    return 0;
}
