// SPDX-License-Identifier: Apache-2.0
// A signal handler that allocates and frees at any instant of the main thread's own allocating, the
// recorder's part of a call included; legal, because libsignal_safe_malloc serves it. It does nothing
// where it interrupted that library itself: a call within a call is the allocator's own business and
// not recorded. A second thread sends the signals. Usage: signal_malloc COUNTS SIGNALS
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "target_support.h"

enum { SIZE_MAIN = 7700, SIZE_HANDLER };

extern volatile int signal_safe_malloc_inside;

static _Atomic int handled, effective;
static int signals;
static pthread_t main_thread;

static void handle(int number) {
    (void)number;
    if (!signal_safe_malloc_inside) {
        tally_churn(SIZE_HANDLER, 2);
        effective++;
    }
    handled++;
}

// A signal is sent when the last one was handled: none is merged with another and lost.
static void *send_signals(void *argument) {
    for (int sent = 0; effective < signals; sent++) {
        pthread_kill(main_thread, SIGUSR1);
        while (handled <= sent) {
        }
    }
    return argument;
}

int main(int argc, char **argv) {
    if (argc != 3) target_fail("usage: signal_malloc COUNTS SIGNALS");
    tally_open(argv[1]);
    signals = atoi(argv[2]);
    static char stack[1 << 16];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK | SA_RESTART};
    sigaltstack(&alternate, NULL);
    sigaction(SIGUSR1, &action, NULL);
    main_thread = pthread_self();
    pthread_t sender;
    if (pthread_create(&sender, NULL, send_signals, NULL)) target_fail("no thread");
    while (effective < signals) tally_churn(SIZE_MAIN, 3);
    pthread_join(sender, NULL);
    return 12;
}
