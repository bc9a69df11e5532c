#include "remove_on_signal.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static const int deadly[] = {SIGINT, SIGTERM, SIGHUP};
enum { DEADLY = sizeof deadly / sizeof *deadly };

// A handler has no other way to know it.
static char doomed[PATH_MAX];

static void remove_it(int number) {
    unlink(doomed);
    // Its disposition was reset when we came here: the signal ends us once we return.
    raise(number);
}

static void mask(int how) {
    sigset_t set;
    sigemptyset(&set);
    for (int i = 0; i < DEADLY; i++) sigaddset(&set, deadly[i]);
    sigprocmask(how, &set, NULL);
}

void hold_signals(void) { mask(SIG_BLOCK); }

void remove_on_signal(const char *path) {
    struct sigaction old, removes = {.sa_handler = remove_it, .sa_flags = SA_RESETHAND};
    struct sigaction dies = {.sa_handler = SIG_DFL};
    if (path && snprintf(doomed, sizeof doomed, "%s", path) >= (int)sizeof doomed) path = NULL;
    for (int i = 0; i < DEADLY; i++)
        if (!sigaction(deadly[i], NULL, &old) && old.sa_handler != SIG_IGN)
            sigaction(deadly[i], path ? &removes : &dies, NULL);
    mask(SIG_UNBLOCK);
}
