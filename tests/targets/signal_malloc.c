// A signal handler that allocates, frees, and frees the main thread's blocks, at any instant of the
// main thread's own allocating; legal, because libsignal_safe_malloc serves it. A second thread
// sends the signals. Usage: signal_malloc COUNTS [SIGNALS]
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "target_support.h"

enum { SIZE_MAIN = 7700, SIZE_HANDLER, SIZE_HANDED };

static _Atomic(void *) handed;
static _Atomic int handled, stop;
static int signals;
static pthread_t main_thread;

static void handle(int number) {
    (void)number;
    tally_churn(SIZE_HANDLER, 2);
    free(atomic_exchange(&handed, NULL));
    atomic_fetch_add(&handled, 1);
}

// A signal is sent when the last one was handled: none is merged with another and lost.
static void *send_signals(void *argument) {
    for (int sent = 0; sent < signals; sent++) {
        pthread_kill(main_thread, SIGUSR1);
        while (atomic_load(&handled) <= sent) {
        }
    }
    stop = 1;
    return argument;
}

int main(int argc, char **argv) {
    tally_open(argc > 1 ? argv[1] : NULL);
    signals = argc > 2 ? atoi(argv[2]) : 20000;
    static char stack[1 << 16];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK | SA_RESTART};
    sigaltstack(&alternate, NULL);
    sigaction(SIGUSR1, &action, NULL);
    main_thread = pthread_self();
    pthread_t sender;
    if (pthread_create(&sender, NULL, send_signals, NULL)) target_fail("no thread");
    while (!stop) {
        tally_churn(SIZE_MAIN, 3);
        free(atomic_exchange(&handed, tally_malloc(SIZE_HANDED)));
    }
    pthread_join(sender, NULL);
    return handled == signals ? 12 : 1;
}
