// A thread of the launcher that a child's kernel asks before it executes some of the child's system calls (a seccomp
// filter with a listener). The child waits with the call until it is answered.
#ifndef HEAPTAPE_KERNEL_LISTENER_H
#define HEAPTAPE_KERNEL_LISTENER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct seccomp_notif;
struct seccomp_notif_resp;

// Fills in the answer to one call; it begins as the order to continue with the call. False: nothing is answered any
// more.
typedef bool ht_answer_call(void *context, int listener, const struct seccomp_notif *asked,
                            struct seccomp_notif_resp *answer);

struct ht_kernel_listener {
    pthread_t thread;
    int sockets[2];      // ours; the one that the filter's listener is sent through
    _Atomic bool ended;  // the child has
    bool listened;
    ht_answer_call *answer;
    void *context;
};

// False, with errno, without a thread or sockets.
bool ht_kernel_listener_start(struct ht_kernel_listener *listener, ht_answer_call *answer, void *context);
// The child has ended. True if it had such a filter.
bool ht_kernel_listener_stop(struct ht_kernel_listener *listener);

#endif
