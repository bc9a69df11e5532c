// SPDX-License-Identifier: Apache-2.0
#include "remove_on_signal.h"

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const int deadly[] = {SIGINT, SIGTERM, SIGHUP};
enum { DEADLY = sizeof deadly / sizeof *deadly, FILES_MAX = 4 };

// A handler has no other way to know them. Changed only while the signals wait.
static char doomed[FILES_MAX][PATH_MAX];

static void remove_them(int number) {
    for (int i = 0; i < FILES_MAX; i++)
        if (*doomed[i]) unlink(doomed[i]);
    // Its disposition was reset when we came here: the signal ends us once we return.
    raise(number);
}

sigset_t hold_signals(void) {
    sigset_t set, before;
    sigemptyset(&set);
    for (int i = 0; i < DEADLY; i++) sigaddset(&set, deadly[i]);
    pthread_sigmask(SIG_BLOCK, &set, &before);
    return before;
}

void let_signals(sigset_t as_before) { pthread_sigmask(SIG_SETMASK, &as_before, NULL); }

// Signals that were ignored stay so.
static void heed_signals(bool removes) {
    struct sigaction old, action = {.sa_handler = SIG_DFL};
    if (removes) action = (struct sigaction){.sa_handler = remove_them, .sa_flags = (int)SA_RESETHAND};
    for (int i = 0; i < DEADLY; i++)
        if (!sigaction(deadly[i], NULL, &old) && old.sa_handler != SIG_IGN)
            sigaction(deadly[i], &action, NULL);
}

void remove_on_signal(const char *path) {
    sigset_t before = hold_signals();
    int i = 0;
    while (i < FILES_MAX && *doomed[i]) i++;
    if (i < FILES_MAX && snprintf(doomed[i], PATH_MAX, "%s", path) >= PATH_MAX) *doomed[i] = 0;
    heed_signals(true);
    let_signals(before);
}

void keep_on_signal(const char *path) {
    int i = 0, others = 0;
    while (i < FILES_MAX && strcmp(doomed[i], path)) i++;
    if (i == FILES_MAX) return;
    sigset_t before = hold_signals();
    *doomed[i] = 0;
    for (int j = 0; j < FILES_MAX; j++) others += *doomed[j] != 0;
    if (!others) heed_signals(false);
    let_signals(before);
}
