// SPDX-License-Identifier: Apache-2.0
#include "elsewhere_note.h"

#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "context.h"
#include "loader.h"
#include "real.h"

static unsigned objects_at_start;

static int count_object(struct dl_phdr_info *info, size_t size, void *context) {
    (void)info;
    (void)size;
    ++*(unsigned *)context;
    return 0;
}

void elsewhere_begin(void) { loader_visit(count_object, &objects_at_start); }

struct search {
    struct text text;
    unsigned number;
};

// One of those that were there at the start, behind us, is called by nobody, or is the allocator.
static int visit_object(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    struct search *search = context;
    const void *own = search->number++ < objects_at_start ? NULL : symbol_of(info, "malloc");
    if (own && own != (const void *)real.malloc) context_add_name(&search->text, info->dlpi_name);
    return 0;
}

static void note_own_malloc(struct ht_raw_header *header) {
    static struct ht_raw_header *_Atomic noted;
    struct search search = {0};
    if (noted == header || !objects_at_start || !context_begin_string(header, &search.text)) return;
    text_string(&search.text, "own_malloc=");
    loader_visit(visit_object, &search);
    if (context_end_names(header, &search.text)) noted = header;
}

// glibc 2.35 and later lists the namespaces for debuggers, of which its header says so only from then on.
struct namespaces {
    int version;
    struct link_map *first;
    uintptr_t breakpoint;
    int state;
    uintptr_t loader;
    const struct namespaces *next;
};

static void note_namespaces(struct ht_raw_header *header) {
    enum { HAS_NEXT = 2, CONSISTENT = 0 };
    static struct ht_raw_header *_Atomic noted;
    struct text text;
    const struct namespaces *main = symbol_anywhere("_r_debug");
    if (noted == header || !main || main->version < HAS_NEXT || !main->next || !loader_lock()) return;
    if (context_begin_string(header, &text)) {
        text_string(&text, "other_namespaces=");
        for (const struct namespaces *other = main->next; other; other = other->next)
            if (other->state == CONSISTENT && other->first && other->first->l_name)
                context_add_name(&text, other->first->l_name);
        if (context_end_names(header, &text)) noted = header;
    }
    loader_unlock();
}

void elsewhere_note(struct ht_raw_header *header) {
    note_own_malloc(header);
    note_namespaces(header);
}
