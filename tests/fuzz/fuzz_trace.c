// SPDX-License-Identifier: Apache-2.0
// Traces: header, index, sections, columns, events, facts, texts, and the replay form that is made of them.
#include "checked_trace.h"
#include "sealed_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    struct fuzz_input input = {data, bytes};
    char path[FUZZ_PATH_BYTES];
    sealed_trace_write(&input, fuzz_memory_file(0, path));
    checked_trace(path, false);
    return 0;
}
