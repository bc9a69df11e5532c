// SPDX-License-Identifier: Apache-2.0
// Holding signals back leaves the caller's mask as it was.
#include "unit_support.h"

#include <signal.h>
#include <stdbool.h>

#include "output_file.h"

static bool is_blocked(int number) {
    sigset_t now;
    sigprocmask(SIG_BLOCK, NULL, &now);
    return sigismember(&now, number) == 1;
}

static void the_callers_mask_stays(void **state) {
    (void)state;
    sigset_t mine;
    sigemptyset(&mine);
    sigaddset(&mine, SIGTERM);
    sigprocmask(SIG_SETMASK, &mine, NULL);
    remove_on_signal("/nonexistent/output");
    assert_true(is_blocked(SIGTERM) && !is_blocked(SIGINT));
    keep_on_signal("/nonexistent/output");
    assert_true(is_blocked(SIGTERM) && !is_blocked(SIGINT) && !is_blocked(SIGHUP));
}

static void held_signals_wait_until_they_are_let(void **state) {
    (void)state;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    sigset_t before = hold_signals();
    remove_on_signal("/nonexistent/output");
    assert_true(is_blocked(SIGINT) && is_blocked(SIGTERM) && is_blocked(SIGHUP));
    let_signals(before);
    assert_false(is_blocked(SIGINT) || is_blocked(SIGTERM) || is_blocked(SIGHUP));
    keep_on_signal("/nonexistent/output");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_callers_mask_stays),
                                       cmocka_unit_test(held_signals_wait_until_they_are_let)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
