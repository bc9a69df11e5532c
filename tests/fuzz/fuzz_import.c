// SPDX-License-Identifier: Apache-2.0
// Other recorders' traces. The first byte says which format, or that it is to be found out; the file follows.
#include "checked_conversion.h"
#include "fuzz_input.h"
#include "import_run.h"

enum { LENIENT = 16, ONE_PROCESS = 32 };

static const struct import_format *const formats[] = {
    NULL,           &import_android, &import_logalloc,    &import_malloc_wrap_raw, &import_malloc_wrap,
    &import_mtrace, &import_rep,     &import_trace_utils, &import_workload,        &import_heaptrack};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    struct fuzz_input input = {data, bytes};
    struct ht_error error = {0};
    uint8_t choice = fuzz_take_byte(&input);
    const struct import_format *format = formats[choice % 16 % (sizeof formats / sizeof *formats)];
    char path[FUZZ_PATH_BYTES];
    int fd = fuzz_memory_file(0, path);
    fuzz_reset(fd, 0);
    fuzz_write(fd, input.at, input.left, 0);
    const struct convert_request request = {.input = path,
                                            .output = checked_output_begin(1),
                                            .level = 1,
                                            .time_unit_ns = 1,
                                            .pid = 7,
                                            .pid_wanted = choice & ONE_PROCESS && format && format->has_pids,
                                            .lenient = choice & LENIENT,
                                            .quiet = true};
    if (import_run(&request, format, &error))
        FUZZ_EXPECT(error.status && *error.message, "no error reported");
    else checked_output_end(NULL);
    return 0;
}
