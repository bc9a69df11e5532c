// SPDX-License-Identifier: Apache-2.0
// The program's first allocation comes from setlocale, which holds the locale lock, as in binutils' as. A
// recorder whose start-up asks for a translated message (dlerror does) corrupts that lock, and the next
// setlocale never returns. Usage: setlocale_first COUNTS
#include <dlfcn.h>
#include <locale.h>

#include "target_support.h"

enum { SIZE_FREED = 7940 };

int main(int argc, char **argv) {
    setenv("LC_ALL", "C.UTF-8", 1);
    setlocale(LC_ALL, "");
    tally_open(argc > 1 ? argv[1] : NULL);
    setlocale(LC_ALL, "C");
    setlocale(LC_ALL, "");
    tally_churn(SIZE_FREED, 1000);
    // A message that a recorder's own failed look-up left behind would be freed here, as a foreign block.
    (void)!dlsym(RTLD_DEFAULT, "no_such_symbol");
    (void)!dlerror();
    (void)!dlerror();
    return 15;
}
