// SPDX-License-Identifier: Apache-2.0
// Opens a library with RTLD_DEEPBIND: its calls go straight to libc, past every preloaded library. Blocks
// cross the border in both directions. Usage: deepbind_main COUNTS PLUGIN
#include <dlfcn.h>

#include "target_support.h"

enum { SIZE_MAIN = 7640, SIZE_GIVEN, CROSSING = 100 };

int main(int argc, char **argv) {
    if (argc < 3) target_fail("usage: deepbind_main COUNTS PLUGIN");
    tally_open(argv[1]);
    tally_churn(SIZE_MAIN, 1000);
    void *plugin = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    if (!plugin) target_fail(dlerror());
    void *(*make)(void) = (void *(*)(void))dlsym(plugin, "plugin_make");
    void (*drop)(void *) = (void (*)(void *))dlsym(plugin, "plugin_drop");
    void *(*larger)(void *) = (void *(*)(void *))dlsym(plugin, "plugin_larger");
    if (!make || !drop || !larger) target_fail("the plugin lacks a function");
    for (int i = 0; i < CROSSING; i++) {
        free(make());                            // allocated unseen, freed seen: foreign
        drop(tally_malloc(SIZE_GIVEN));          // allocated seen, freed unseen
        free(larger(tally_malloc(SIZE_GIVEN)));  // moved unseen
        drop(make());                            // not seen at all
    }
    dlclose(plugin);
    tally_churn(SIZE_MAIN, 1000);
    return 101;
}
