// SPDX-License-Identifier: Apache-2.0
#ifndef HEAPTAPE_BYPASS_H
#define HEAPTAPE_BYPASS_H

#include "raw_layout.h"

// Names, in the header's context as `bypassed_by`, the loaded objects whose malloc or free goes straight to
// the allocator: dlopen with RTLD_DEEPBIND binds so, past every preloaded library. Not where
// another thread holds the lock of the loader's list.
__attribute__((visibility("hidden"))) void bypass_note(struct ht_raw_header *header);

#endif
