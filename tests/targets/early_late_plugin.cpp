// SPDX-License-Identifier: Apache-2.0
// The shared library that early_late opens and closes: allocates as it comes and as it goes.
#include <cstddef>

extern "C" void count_for_plugin(size_t size, int calls);

enum { SIZE_PLUGIN_IN = 7610, SIZE_PLUGIN_RUN, SIZE_PLUGIN_OUT };

namespace {
struct InAndOut {
    InAndOut() { count_for_plugin(SIZE_PLUGIN_IN, 10); }
    ~InAndOut() { count_for_plugin(SIZE_PLUGIN_OUT, 10); }
};
InAndOut in_and_out;
}  // namespace

extern "C" __attribute__((visibility("default"))) void plugin_run() { count_for_plugin(SIZE_PLUGIN_RUN, 10); }
