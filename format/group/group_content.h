// SPDX-License-Identifier: Apache-2.0
// What the context of a group's trace says in numbers (docs/reference/group-format.md, "The trace of a group"): between JSON
// and the structs of its reader and writer.
#ifndef HEAPTAPE_GROUP_CONTENT_H
#define HEAPTAPE_GROUP_CONTENT_H

#include <jansson.h>

#include "group_facts.h"

enum {
    HT_GROUP_PAGE_BYTES_MAX = 1 << 16,
    HT_GROUP_PAGES_MAX = 1 << 28,  // numbers of a layout
    HT_GROUP_CONTEXT_BYTES_MAX = 16 << 20
};

struct ht_group_content {
    uint32_t page_bytes, processes, moments;
    struct ht_group_process *process;
    uint32_t *layout_pages;  // of each process: numbers of its layout's pages
    struct ht_group_moment *moment;
    struct ht_group_presence *presence;  // of each process, at each moment
};

// Room for so many, all zero. False for want of memory; to be freed in any case.
bool ht_group_content_make(struct ht_group_content *content, uint32_t processes, uint32_t moments);
void ht_group_content_free(struct ht_group_content *content);

// NULL for want of memory.
json_t *ht_group_content_json(const struct ht_group_content *content);
// Checks all that it says. Returns NULL, or what is wrong; to be freed in any case.
const char *ht_group_content_read(const json_t *group, struct ht_group_content *content);

#endif
