// SPDX-License-Identifier: Apache-2.0
// Ends that run no destructor: _exit, _Exit and quick_exit. How much of the live large blocks was ever touched is noted before
// them, as at_exit() does at the others. They may come in a signal handler and in a child of vfork.
#include "wrap.h"

static void end_at_once(int status) {
    if (real.exit_at_once) real.exit_at_once(status);
    for (;;) raw_syscall(SYS_exit_group, status, 0, 0, 0, 0, 0);
}

EXPORT _Noreturn void wrap_exit_at_once(int status) __asm__("_exit");
_Noreturn void wrap_exit_at_once(int status) {
    recorder_before_sudden_exit();
    end_at_once(status);
    __builtin_unreachable();
}

EXPORT _Noreturn void wrap_c_exit_at_once(int status) __asm__("_Exit");
_Noreturn void wrap_c_exit_at_once(int status) {
    recorder_before_sudden_exit();
    end_at_once(status);
    __builtin_unreachable();
}

// Its handlers run behind the note, and may end the process by _exit: there is one note.
EXPORT _Noreturn void wrap_quick_exit(int status) __asm__("quick_exit");
_Noreturn void wrap_quick_exit(int status) {
    recorder_before_sudden_exit();
    if (real.quick_exit) real.quick_exit(status);
    end_at_once(status);
    __builtin_unreachable();
}
