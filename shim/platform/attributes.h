// SPDX-License-Identifier: Apache-2.0
// What all files of the shim use to describe functions and branches.
#ifndef HEAPTAPE_ATTRIBUTES_H
#define HEAPTAPE_ATTRIBUTES_H

#define likely(condition)   __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)
#define HIDDEN              __attribute__((visibility("hidden")))
#define EXPORT              __attribute__((visibility("default")))

#endif
