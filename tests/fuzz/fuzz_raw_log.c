// SPDX-License-Identifier: Apache-2.0
// Raw logs, byte by byte: header, context, chunks, records, the count of calls, the whole conversion.
#include "checked_conversion.h"
#include "packed_log.h"
#include "raw_reader.h"
#include "trace_json.h"

static void look_into(const char *path) {
    struct ht_raw_log log;
    struct ht_error error = {0};
    uint64_t calls;
    uint32_t threads;
    if (ht_raw_open(&log, path, &error)) return;
    ht_raw_context(&log, "run");
    json_decref(trace_json_context(&log));
    if (ht_raw_count_calls(&log, &calls, &threads, &error))
        FUZZ_EXPECT(error.status && *error.message, "a count that fails without an error");
    ht_raw_close(&log);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    struct fuzz_input input = {data, bytes};
    char path[FUZZ_PATH_BYTES];
    packed_log_unpack(&input, fuzz_memory_file(0, path));
    look_into(path);
    checked_conversion(path, NULL, 1);
    return 0;
}
