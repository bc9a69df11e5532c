// SPDX-License-Identifier: Apache-2.0
#include "inner_allocators_note.h"

#include <link.h>
#include <string.h>

#include "context.h"
#include "inner_allocators.h"
#include "loader.h"

static int visit_object(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    struct text *text = context;
    const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    if (!slash || !ht_inner_allocator_of(slash + 1)) return 0;
    context_add_name(text, slash + 1);
    return 0;
}

void inner_allocators_note(struct ht_raw_header *header) {
    struct text text;
    if (!context_begin_string(header, &text)) return;
    text_string(&text, "inner_allocators=");
    loader_visit(visit_object, &text);
    context_end_names(header, &text);
}
