// SPDX-License-Identifier: Apache-2.0
// Allocates before main and after it: constructors and destructors of statics, thread-locals, a
// plugin that is opened and closed, handlers of atexit. Usage: early_late COUNTS PLUGIN
#include <dlfcn.h>

#include <thread>

#include "target_support.h"

enum { SIZE_EARLY = 7600, SIZE_LATE, SIZE_ATEXIT, SIZE_THREAD_LOCAL, SIZE_FINI };

// Runs before every other constructor of the program, because the counters must be there.
__attribute__((constructor(101))) static void open_counters(int argc, char **argv, char **) {
    tally_open(argc > 1 ? argv[1] : nullptr);
}

// The plugin counts through the program: it has counters of its own only if it maps them.
extern "C" __attribute__((visibility("default"))) void count_for_plugin(size_t size, int calls) {
    tally_churn(size, calls);
}

namespace {
struct Early {
    void *kept;
    Early() : kept(tally_malloc(SIZE_EARLY)) { tally_churn(SIZE_EARLY, 10); }
    ~Early() {
        tally_churn(SIZE_LATE, 10);
        free(kept);
    }
};
Early early;

struct Local {
    void *kept = tally_malloc(SIZE_THREAD_LOCAL);
    ~Local() {
        tally_churn(SIZE_THREAD_LOCAL, 10);
        free(kept);
    }
    void touch() { *static_cast<volatile char *>(kept) = 1; }
};
thread_local Local local;

void at_exit() { tally_churn(SIZE_ATEXIT, 10); }
}  // namespace

__attribute__((destructor(101))) static void very_late() { tally_churn(SIZE_FINI, 10); }

int main(int argc, char **argv) {
    if (argc < 3) target_fail("usage: early_late COUNTS PLUGIN");
    atexit(at_exit);
    local.touch();
    std::thread([] { local.touch(); }).join();
    for (int i = 0; i < 3; i++) {
        void *plugin = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
        if (!plugin) target_fail(dlerror());
        auto run = reinterpret_cast<void (*)()>(dlsym(plugin, "plugin_run"));
        if (!run) target_fail("the plugin has no plugin_run");
        run();
        dlclose(plugin);
    }
    return 11;
}
