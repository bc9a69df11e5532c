// SPDX-License-Identifier: Apache-2.0
// The recorder's settings, from an environment that anybody may have set: lines NAME=VALUE.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz_input.h"
#include "settings.h"

enum { VARIABLES_MAX = 8, TEXT_BYTES_MAX = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    char *variable[VARIABLES_MAX + 1] = {NULL}, **kept = environ;
    if (bytes > TEXT_BYTES_MAX) return 0;
    char *text = malloc(bytes + 1), *rest = text;
    FUZZ_EXPECT(text, "no memory");
    memcpy(text, data, bytes);
    text[bytes] = 0;
    for (unsigned i = 0; i < VARIABLES_MAX && rest; i++) variable[i] = strsep(&rest, "\n");
    settings = (struct settings){0};
    environ = variable;
    bool wanted = settings_read();
    settings_delay_is_over();
    environ = kept;
    if (wanted) {
        FUZZ_EXPECT(memchr(settings.directory, 0, sizeof settings.directory), "a folder without an end");
        FUZZ_EXPECT(*settings.directory == '/', "a folder that is not absolute: %s", settings.directory);
    }
    FUZZ_EXPECT(settings.log_bytes_max, "a limit of nothing");
    free(text);
    return 0;
}
