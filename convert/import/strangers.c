// SPDX-License-Identifier: Apache-2.0
#include "strangers.h"

#include <stdbool.h>
#include <string.h>

// What a file begins with, or has anywhere in its head, with something else.
static const struct {
    const char *start, *within, *with, *what;
} strangers[] = {
    {NULL, "-- malloc(", "",
     "the output of valgrind --trace-malloc=yes, which has neither threads nor times"},
    {NULL, "-- calloc(", "",
     "the output of valgrind --trace-malloc=yes, which has neither threads nor times"},
    {NULL, "-- free(", "", "the output of valgrind --trace-malloc=yes, which has neither threads nor times"},
    {NULL, "malloc(", " = ", "ltrace's output, which lacks the calls that libraries make"},
    {NULL, "calloc(", " = ", "ltrace's output, which lacks the calls that libraries make"},
    {NULL, "free(", " = ", "ltrace's output, which lacks the calls that libraries make"},
    {NULL, "execve(", " = ", "strace's output, which has no calls of malloc"},
    {NULL, "brk(", " = ", "strace's output, which has no calls of malloc"},
    {"==", NULL, NULL, "valgrind's output, which has no calls of malloc"},
    {"desc: ", NULL, NULL, "massif's file, which has sums, but no calls"},
    {"{\"dhatFileVersion\"", NULL, NULL, "DHAT's file, which has sums, but no calls"},
    {"heap_v2/", NULL, NULL, "jemalloc's heap profile, which has sums, but no calls"},
    {"heap profile:", NULL, NULL, "a heap profile, which has sums, but no calls"},
    {"PERFILE2", NULL, NULL, "perf's file, which has samples, but not all calls"},
    {"memray", NULL, NULL, "memray's file, which only memray reads"},
};

static bool has(const char *head, size_t bytes, const char *words) {
    return memmem(head, bytes, words, strlen(words)) != NULL;
}

const char *stranger_named(const char *head, size_t bytes) {
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++) {
        const char *start = strangers[i].start, *within = strangers[i].within;
        if (start && bytes >= strlen(start) && !memcmp(head, start, strlen(start))) return strangers[i].what;
        if (within && has(head, bytes, within) && has(head, bytes, strangers[i].with))
            return strangers[i].what;
    }
    return NULL;
}
