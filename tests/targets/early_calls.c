// SPDX-License-Identifier: Apache-2.0
// Allocates as early as a program can: in the resolver of an indirect function, when no object's thread-local
// variables have their first values yet, before the constructors of the libraries, and in its own.
// Usage: early_calls COUNTS
#include "target_support.h"

enum { SIZE_RESOLVER = 7690, SIZE_PREINIT, SIZE_CONSTRUCTOR, SIZE_MAIN };

static void *from_resolver, *from_preinit, *from_constructor;
static unsigned resolver_calls;

static int answer(void) { return 42; }

// Runs while the program is being linked: it may count only in memory of its own.
static int (*choose_answer(void))(void) {
    from_resolver = malloc(SIZE_RESOLVER);
    resolver_calls++;
    return answer;
}
int chosen(void) __attribute__((ifunc("choose_answer")));

static void before_constructors(int argc, char **argv, char **environment) {
    (void)environment;
    tally_open(argc > 1 ? argv[1] : NULL);
    from_preinit = tally_malloc(SIZE_PREINIT);
    tally_churn(SIZE_PREINIT, 10);
}
__attribute__((section(".preinit_array"), used)) static void (*const preinit)(int, char **,
                                                                              char **) = before_constructors;

__attribute__((constructor)) static void construct(void) {
    from_constructor = tally_malloc(SIZE_CONSTRUCTOR);
    tally_churn(SIZE_CONSTRUCTOR, 10);
}

int main(void) {
    for (unsigned i = 0; i < resolver_calls; i++) tally_count(SIZE_RESOLVER);
    if (!from_resolver || chosen() != 42) return 1;
    free(from_resolver);
    from_preinit = realloc(from_preinit, 100000);
    free(from_preinit);
    free(from_constructor);
    tally_churn(SIZE_MAIN, 1000);
    return 121;
}
