// SPDX-License-Identifier: Apache-2.0
// Calls a function on another stack, so that an unwinder there goes on into the caller's.
#ifndef HEAPTAPE_CALL_ON_STACK_H
#define HEAPTAPE_CALL_ON_STACK_H

#include "attributes.h"

#ifdef __x86_64__
enum { CALL_ON_STACK_CHANGES_IT = 1 };
#else
enum { CALL_ON_STACK_CHANGES_IT = 0 };  // the function is called on the caller's
#endif

// top: the end of that stack, a multiple of 16.
HIDDEN void call_on_stack(void (*function)(void *), void *argument, void *top);

#endif
