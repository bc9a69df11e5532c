// SPDX-License-Identifier: Apache-2.0
// The kernel's files about the process's memory, read without libc: how much is anonymous, which mappings
// there are, and how much of it lies where. They are read apart from the program (apart.h).
#ifndef HEAPTAPE_PROCESS_MEMORY_H
#define HEAPTAPE_PROCESS_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "state.h"

// RssAnon; 0 where /proc is out of reach.
HIDDEN uint64_t rss_anonymous_bytes(void);

// The lines of /proc/thread-self/maps.
enum mapping_kind {
    MAPPING_ANONYMOUS,  // without a name
    MAPPING_OF_FILE,
    MAPPING_STACK,  // the main thread's
    MAPPING_BREAK,  // below the program break
    MAPPING_OTHER   // what the kernel shares with every process
};

struct mapping {
    uintptr_t start, end;
    bool readable, writable, executable, shared;
    enum mapping_kind kind;
    uint64_t offset, inode;
};

struct maps_file {
    int fd;
    size_t at, filled;
    char text[4096];
};

HIDDEN bool maps_open(struct maps_file *maps);
HIDDEN bool maps_next(struct maps_file *maps, struct mapping *mapping);
HIDDEN void maps_close(struct maps_file *maps);

// Counts pages of a process by the kernel's search in its page tables (Linux 6.7), which passes over what is not there, else an
// entry for each page.
struct found_region {
    uint64_t start, end, categories;
};
struct page_counter {
    int fd;
    bool searches;  // as far as is known
    union {
        struct found_region region[512];
        uint64_t entry[512];
    };
};

// Called with each range that is resident, in order; two of them may be next to each other.
typedef void pages_visit(void *context, uintptr_t start, uintptr_t end);

// False: it is not to be had, as for a process that has changed its user. Then files' pages cannot be counted, and others in
// more time.
HIDDEN bool pages_open(struct page_counter *counter);
// The bytes that RssAnon counts in [start, end): present, and neither a file's nor the page of zeros.
// `of_file`: they are mapped from one.
HIDDEN uint64_t pages_anonymous_bytes(struct page_counter *counter, uintptr_t start, uintptr_t end,
                                      bool of_file);
// The ranges of those.
HIDDEN void pages_each(struct page_counter *counter, uintptr_t start, uintptr_t end, bool of_file,
                       pages_visit *visit, void *context);
HIDDEN void pages_close(struct page_counter *counter);

// The recorder's own memory for call sites, which grows with the program's variety: samples leave it out, so that a recording
// with call sites says the same of the program as one without.
// is_real: all of it is resident. Else its pages are counted by recorder_memory_count.
HIDDEN void recorder_memory_mapped(uintptr_t start, size_t bytes, bool is_real);
// The pages have gone; with them the addresses, or not.
HIDDEN void recorder_memory_released(uintptr_t start, size_t bytes, bool unmapped);
// Is there any that is not known to be resident?
HIDDEN bool recorder_memory_is_counted(void);
// Counts that, by one thread at a time.
HIDDEN void recorder_memory_count(struct page_counter *pages);
// Resident bytes.
HIDDEN uint64_t recorder_memory_bytes(void);

#endif
