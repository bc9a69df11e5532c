// SPDX-License-Identifier: Apache-2.0
// Work for which files are opened, or much stack is needed, done apart from the program.
//
// A descriptor of ours would be the whole process's: other threads may close it, or be given its number and
// find our file under it, and forked children inherit it. And a hook's caller may have hardly any stack. So
// such work is done by a thread that lives only that long, on a stack of ours and with a table of descriptors
// of its own, which begins empty; the caller waits for it to be gone. A process's only thread does it itself, on that
// stack, if no other process shares its descriptors.
#ifndef HEAPTAPE_APART_H
#define HEAPTAPE_APART_H

#include <stdbool.h>
#include <stddef.h>

#include "attributes.h"

enum { APART_ARGUMENT_BYTES_MAX = 64 };

// Runs the function on a copy of the argument, which is copied back afterwards. It has the caller's
// thread-local storage, so to itself and to libc it is the caller, but not to the kernel. False where there
// can be no such thread: nothing was done then.
HIDDEN bool run_apart(void (*function)(void *), void *argument, size_t bytes);

// Points to a byte that is not zero while the process has one thread only. NULL, as at the start: it never has.
HIDDEN void apart_while_alone(const char *alone);

// Whether it has one thread only, as far as is known.
HIDDEN bool apart_is_alone(void);

// Would the calling thread wait for one of lower priority? What the kernel starts for it may be ordinary: it does so for
// threads that are real-time by another process's leave (SCHED_RESET_ON_FORK, as of sound servers). To be asked before
// run_apart() by who can do without it.
HIDDEN bool apart_must_not_wait(void);

// Another process has this one's descriptors too, from here on and for as long as it lives.
HIDDEN void apart_shares_descriptors(void);

// From here on not by threads, but by processes on the same memory, for which nobody else waits unless by
// __WALL. Closing a message queue in any thread of a process ends the notification that the process has asked
// for, even where the queue stays open.
HIDDEN void apart_in_processes(void);

// In a forked child: the stack's user is a thread of the parent's.
HIDDEN void apart_after_fork(void);

// Calls a function on another stack, so that an unwinder there goes on into the caller's.
#ifdef __x86_64__
enum { CALL_ON_STACK_CHANGES_IT = 1 };
#else
enum { CALL_ON_STACK_CHANGES_IT = 0 };  // the function is called on the caller's
#endif

// top: the end of that stack, a multiple of 16.
HIDDEN void call_on_stack(void (*function)(void *), void *argument, void *top);

#endif
