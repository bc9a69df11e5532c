// SPDX-License-Identifier: Apache-2.0
// What a process does as a whole: forks, ends, unloads libraries.
#include <errno.h>
#include <sched.h>
#include <signal.h>

#include "apart.h"
#include "context_notes.h"
#include "loader.h"
#include "settings.h"
#include "sites.h"
#include "wrap.h"

// ---- forks ----
//
// Forks for which libc runs no handlers of pthread_atfork: _Fork, and clone without CLONE_VM. A child by clone may also
// share the program's descriptors, though it is no thread.

struct child {
    int (*function)(void *);
    void *argument;
};

// On its copy of the parent's memory, where the struct still is. It may be there on another stack.
static int in_child(void *copy) {
    struct child child = *(const struct child *)copy;
    recorder_in_forked_child();
    return child.function(child.argument);
}

// The three arguments at the end may be missing. Not a thread of libc's, which makes those otherwise.
HOOK("clone", int, wrap_clone,
     (int (*function)(void *), void *stack, int flags, void *argument, void *parent_tid, void *tls,
      void *child_tid)) {
    if (!real.clone) real.clone = symbol_behind_us("clone");
    if (!real.clone) {
        errno = ENOSYS;
        return -1;
    }
    if (flags & CLONE_FILES) apart_shares_descriptors();
    if (wrap_clone_shares_storage((unsigned)flags) && function) recorder_shares_storage();
    // Without a function libc refuses it. A child with thread-local storage of its own may have nothing of ours there.
    if ((flags & (CLONE_VM | CLONE_SETTLS)) || !function)
        return real.clone(function, stack, flags, argument, parent_tid, tls, child_tid);
    struct child child = {function, argument};
    recorder_before_fork();
    int result = real.clone(in_child, stack, flags, &child, parent_tid, tls, child_tid);
    recorder_after_fork();
    return result;
}

// glibc has it from 2.34 on. Which C library will be there is not known: a build for several systems is made with an old one.
HOOK("_Fork", pid_t, wrap_bare_fork, (void)) {
    if (!real.bare_fork) real.bare_fork = symbol_behind_us("_Fork");
    recorder_before_fork();
    pid_t pid =
        real.bare_fork ? real.bare_fork() : (pid_t)with_errno(raw_syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0, 0));
    if (pid == 0) recorder_in_forked_child();
    else recorder_after_fork();
    return pid;
}

// ---- ends ----
//
// Ends that run no destructor: _exit, _Exit and quick_exit. How much of the live large blocks was ever touched is noted before
// them, as at_exit() does at the others. They may come in a signal handler and in a child of vfork.

static void end_at_once(int status) {
    if (real.exit_at_once) real.exit_at_once(status);
    for (;;) raw_syscall(SYS_exit_group, status, 0, 0, 0, 0, 0);
}

HOOK("_exit", _Noreturn void, wrap_exit_at_once, (int status)) {
    recorder_before_sudden_exit();
    end_at_once(status);
    __builtin_unreachable();
}

HOOK("_Exit", _Noreturn void, wrap_c_exit_at_once, (int status)) {
    recorder_before_sudden_exit();
    end_at_once(status);
    __builtin_unreachable();
}

// Its handlers run behind the note, and may end the process by _exit: there is one note.
HOOK("quick_exit", _Noreturn void, wrap_quick_exit, (int status)) {
    recorder_before_sudden_exit();
    if (real.quick_exit) real.quick_exit(status);
    end_at_once(status);
    __builtin_unreachable();
}

// ---- libraries ----

// Objects that go past us may be gone by the exit: this is where they go.
EXPORT int dlclose(void *library) {
    struct thread_state *t = recorder_idle_thread();
    if (!real.dlclose) real.dlclose = symbol_behind_us("dlclose");
    if (t && !recorder_sealed) {
        // The loader may allocate while it lists its objects: that is not the program's.
        close_gate(t, GATE_BUSY_SETUP, stack_pointer());
        context_note_objects(t->recording->header);
        open_gate(t);
    }
    wrap_before_unload();
    int failed = real.dlclose ? real.dlclose(library) : -1;
    if (t && !recorder_sealed && settings.site_frames) {
        close_gate(t, GATE_BUSY_SETUP, stack_pointer());
        sites_after_unload();
        open_gate(t);
    }
    return failed;
}
