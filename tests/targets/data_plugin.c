// SPDX-License-Identifier: Apache-2.0
// A library with much data, initialised and not.
#include <string.h>

enum { DATA_BYTES = 8 << 20, ZEROS_BYTES = 16 << 20 };

static char data[DATA_BYTES] = {1};
static char zeros[ZEROS_BYTES];

void touch_data(void) {
    memset(data, 1, sizeof data);
    memset(zeros, 1, sizeof zeros);
}
