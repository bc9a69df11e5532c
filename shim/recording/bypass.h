#ifndef HEAPTAPE_BYPASS_H
#define HEAPTAPE_BYPASS_H

#include "raw_layout.h"

// Names, in the header's context as `bypassed_by`, the loaded objects whose malloc or free goes straight to
// the allocator: dlopen with RTLD_DEEPBIND binds so, past every preloaded library.
__attribute__((visibility("hidden"))) void bypass_note(struct ht_raw_header *header);
// From here on it does nothing: in a child of a process with several threads the loader's list may be locked by one of those, for
// ever, as glibc's fork leaves this lock as it is.
__attribute__((visibility("hidden"))) void bypass_stop(void);

#endif
