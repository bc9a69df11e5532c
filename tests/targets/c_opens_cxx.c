// SPDX-License-Identifier: Apache-2.0
// A C program into which C++ comes by dlopen and leaves again, its operator new with it; threads and calls
// follow. Usage: c_opens_cxx COUNTS PLUGIN
#include <dlfcn.h>
#include <pthread.h>

#include "target_support.h"

enum { SIZE_MAIN = 7620 };

__attribute__((visibility("default"))) void count_for_plugin_size(size_t size) { tally_count(size); }

static void *use_plugin(void *path) {
    void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!plugin) target_fail(dlerror());
    int (*run)(void) = (int (*)(void))dlsym(plugin, "plugin_run");
    if (!run || run() != 7) target_fail("the plugin failed");
    if (dlclose(plugin)) target_fail("dlclose");
    tally_churn(SIZE_MAIN, 1000);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 3) target_fail("usage: c_opens_cxx COUNTS PLUGIN");
    tally_open(argv[1]);
    tally_churn(SIZE_MAIN, 100);
    for (int i = 0; i < 5; i++) {
        pthread_t thread;
        use_plugin(argv[2]);
        if (pthread_create(&thread, NULL, use_plugin, argv[2])) target_fail("no thread");
        pthread_join(thread, NULL);
    }
    return 100;
}
