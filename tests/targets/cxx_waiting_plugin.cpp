// SPDX-License-Identifier: Apache-2.0
// A C++ library for c_opens_cxx whose constructor waits, within dlopen, for a thread that calls operator new.
#include <new>
#include <pthread.h>
#include <unistd.h>

extern "C" void count_for_plugin_size(size_t size);

enum { SIZE_NEW = 7630, WAIT_S = 20 };

static void *allocate(void *unused) {
    void *volatile block = ::operator new(SIZE_NEW);
    count_for_plugin_size(SIZE_NEW);
    ::operator delete(block);
    return unused;
}

__attribute__((constructor)) static void start() {
    pthread_t thread;
    alarm(WAIT_S);
    if (!pthread_create(&thread, nullptr, allocate, nullptr)) pthread_join(thread, nullptr);
    alarm(0);
}

extern "C" __attribute__((visibility("default"))) int plugin_run() { return 7; }
