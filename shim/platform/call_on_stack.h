// Calls a function on another stack, so that an unwinder there goes on into the caller's.
#ifndef HEAPTAPE_CALL_ON_STACK_H
#define HEAPTAPE_CALL_ON_STACK_H

#include "attributes.h"

// top: the end of that stack, a multiple of 16.
HIDDEN void call_on_stack(void (*function)(void *), void *argument, void *top);

#endif
