// SPDX-License-Identifier: Apache-2.0
#include "inner_allocators.h"

#include <stdio.h>

const char *ht_inner_allocators_words(char text[HT_INNER_ALLOCATORS_BYTES], const char *files) {
    size_t used = 0;
    text[0] = 0;
    while (files && *files) {
        size_t length = strcspn(files, ":"), room = HT_INNER_ALLOCATORS_BYTES - used;
        const struct ht_inner_allocator *inner = ht_inner_allocator_of(files);
        int more = inner ? snprintf(text + used, room,
                                    "%s%.*s has an allocator of its own, which is not recorded%s%s%s",
                                    used ? "; " : "", (int)length, files, inner->off ? ": " : "",
                                    inner->off ? inner->off : "", inner->off ? " makes it call malloc" : "")
                         : 0;
        if (more < 0 || (size_t)more >= room) break;
        used += (size_t)more;
        files += length + (files[length] == ':');
    }
    text[used] = 0;
    return text;
}
