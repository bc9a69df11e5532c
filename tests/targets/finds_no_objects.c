// SPDX-License-Identifier: Apache-2.0
// Stands for a libc before glibc 2.35: the function by which call sites are found finds nothing.
#include <stdlib.h>

__attribute__((visibility("default"))) int _dl_find_object(void *address, void *result) {
    (void)address;
    (void)result;
    return -1;
}

int main(void) {
    for (int i = 0; i < 100; i++) free(malloc(100));
    return 0;
}
