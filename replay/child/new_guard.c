// SPDX-License-Identifier: Apache-2.0
#include "new_guard.h"

#include <signal.h>

static __thread struct ht_lane *replaying;  // by this thread

void ht_new_guard(struct ht_lane *lane) { replaying = lane; }

static void end_making(void) { longjmp(replaying->without_memory, 1); }

// Without memory an operator new calls the program's new-handler, for which it asks the C++ library: it finds ours,
// which come first.
__attribute__((visibility("default"))) void (*replay_new_handler(void))(void) __asm__(
    "_ZSt15get_new_handlerv");
void (*replay_new_handler(void))(void) { return replaying && replaying->making ? end_making : NULL; }

__attribute__((visibility("default"))) void (*replay_set_new_handler(void (*handler)(void)))(void) __asm__(
    "_ZSt15set_new_handlerPFvvE");
void (*replay_set_new_handler(void (*handler)(void)))(void) {
    (void)handler;
    return replay_new_handler();
}

// One that is compiled as C cannot throw, and aborts (mimalloc's). Where others do, they go on with it.
static void aborted(int number) {
    (void)number;
    if (replaying && replaying->making) end_making();
}

void ht_new_guard_prepare(void) {
    struct sigaction action = {.sa_handler = aborted, .sa_flags = SA_NODEFER};
    sigaction(SIGABRT, &action, NULL);
}
