// One allocator under test, as its replay-NAME knows it. Each executable links exactly one of these.
#ifndef HEAPTAPE_ALLOCATOR_H
#define HEAPTAPE_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>

struct ht_allocator {
    const char *soname;                        // how the file name of the object that must serve begins
    bool is_null;                              // hands out addresses only: every block is the same page
    void (*version)(char *text, size_t room);  // asks the library itself; leaves text empty if it can't tell
    void (*replaying)(bool yes);  // told when this thread's calls begin and cease to be the trace's;
                                  // NULL for all that serve every call alike
};

extern const struct ht_allocator ht_allocator;

#endif
