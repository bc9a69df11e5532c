// SPDX-License-Identifier: Apache-2.0
#include "context_notes.h"

#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>

#include "context.h"
#include "inner_allocators.h"
#include "loader.h"
#include "real.h"
#include "state.h"

// ---- objects that bypass the recorder ----

#if defined(__x86_64__)
enum { JUMP_SLOT = R_X86_64_JUMP_SLOT, GLOB_DAT = R_X86_64_GLOB_DAT };
#elif defined(__aarch64__)
enum { JUMP_SLOT = R_AARCH64_JUMP_SLOT, GLOB_DAT = R_AARCH64_GLOB_DAT };
#endif

struct relocations {
    const ElfW(Rela) * first;
    size_t bytes;
};

struct bound_search {
    struct text text;
    bool begun;
};

static bool is_allocators(uintptr_t function) {
    return function == (uintptr_t)real.malloc || function == (uintptr_t)real.free ||
           function == (uintptr_t)real.calloc || function == (uintptr_t)real.realloc;
}

// A slot that was bound to the allocator although ours comes first. One that no call has bound yet still
// points into its own object.
static bool binds_past_us(uintptr_t base, struct relocations list) {
    for (size_t i = 0; i < list.bytes / sizeof *list.first; i++) {
        unsigned long type = ELF64_R_TYPE(list.first[i].r_info);
        if ((type == JUMP_SLOT || type == GLOB_DAT) &&
            is_allocators(*(const uintptr_t *)(base + list.first[i].r_offset)))
            return true;
    }
    return false;
}

static int visit_bound(struct dl_phdr_info *info, size_t size, void *context) {
    static unsigned long long visited;  // how many objects had been loaded when all were visited
    struct bound_search *search = context;
    if (!search->begun && size > offsetof(struct dl_phdr_info, dlpi_adds)) {
        if (info->dlpi_adds == visited) return 1;  // nothing has come since
        visited = info->dlpi_adds;
    }
    search->begun = true;
    const ElfW(Dyn) *dynamic = NULL;
    struct relocations plain = {0}, calls = {0};
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
        // Most loaders relocate the dynamic section in place; some leave offsets.
        uintptr_t value = dynamic->d_un.d_ptr;
        const void *at = (const void *)(value < info->dlpi_addr ? info->dlpi_addr + value : value);
        switch (dynamic->d_tag) {
        case DT_RELA: plain.first = at; break;
        case DT_RELASZ: plain.bytes = dynamic->d_un.d_val; break;
        case DT_JMPREL: calls.first = at; break;
        case DT_PLTRELSZ: calls.bytes = dynamic->d_un.d_val; break;
        }
    }
    // The executable cannot be bound so, and an allocator may call itself (tcmalloc does, by names of its own).
    if (!info->dlpi_name || !*info->dlpi_name || loader_object_has(info, (const void *)real.malloc)) return 0;
    bool past = (plain.first && binds_past_us(info->dlpi_addr, plain)) ||
                (calls.first && binds_past_us(info->dlpi_addr, calls));
    if (past) context_add_name(&search->text, info->dlpi_name);
    return 0;
}

// Those whose malloc or free goes straight to the allocator: dlopen with RTLD_DEEPBIND binds so, past every preloaded library.
static void note_bypassing(struct ht_raw_header *header) {
    static struct ht_raw_header *_Atomic noted;
    struct bound_search search = {0};
    if (noted == header || !context_begin_string(header, &search.text)) return;
    text_string(&search.text, "bypassed_by=");
    loader_visit(visit_bound, &search);
    if (context_end_names(header, &search.text)) noted = header;
}

static unsigned objects_at_start;

static int count_object(struct dl_phdr_info *info, size_t size, void *context) {
    (void)info;
    (void)size;
    ++*(unsigned *)context;
    return 0;
}

void context_notes_begin(void) { loader_visit(count_object, &objects_at_start); }

struct own_malloc_search {
    struct text text;
    unsigned number;
};

// One of those that were there at the start, behind us, is called by nobody, or is the allocator.
static int visit_own_malloc(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    struct own_malloc_search *search = context;
    const void *own = search->number++ < objects_at_start ? NULL : symbol_of(info, "malloc");
    if (own && own != (const void *)real.malloc) context_add_name(&search->text, info->dlpi_name);
    return 0;
}

// Libraries that were opened later and have a malloc, which the program finds by their handle.
static void note_own_malloc(struct ht_raw_header *header) {
    static struct ht_raw_header *_Atomic noted;
    struct own_malloc_search search = {0};
    if (noted == header || !objects_at_start || !context_begin_string(header, &search.text)) return;
    text_string(&search.text, "own_malloc=");
    loader_visit(visit_own_malloc, &search);
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

// Those that were opened by dlmopen, whose C library is another one.
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

void context_note_objects(struct ht_raw_header *header) {
    note_bypassing(header);
    note_own_malloc(header);
    note_namespaces(header);
}

// ---- allocators within libraries ----

static int visit_inner(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    struct text *text = context;
    const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    if (!slash || !ht_inner_allocator_of(slash + 1)) return 0;
    context_add_name(text, slash + 1);
    return 0;
}

void context_note_inner_allocators(struct ht_raw_header *header) {
    struct text text;
    if (!context_begin_string(header, &text)) return;
    text_string(&text, "inner_allocators=");
    loader_visit(visit_inner, &text);
    context_end_names(header, &text);
}

// ---- the linked-in allocator ----

enum { NAME_BYTES = 32 };

static struct {
    atomic_flag taken;
    _Atomic bool known;
    char name[NAME_BYTES];
    const char *version;  // NULL: not known
    const char *hooks;    // NULL: none were planned
} linked = {.taken = ATOMIC_FLAG_INIT};

// A character of a name that is no letter, digit or one of ._+- would be a program's mistake: it becomes a '?'.
static char readable(char c) {
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'), digit = c >= '0' && c <= '9';
    return letter || digit || c == '.' || c == '_' || c == '+' || c == '-' ? c : '?';
}

static void note_linked(struct ht_raw_header *header, const char *key, const char *value) {
    struct text text;
    if (!context_begin_string(header, &text)) return;
    text_string(&text, key);
    text_string(&text, value);
    context_end_string(header, &text, true);
}

static void note_hooks(struct ht_raw_header *header) {
    if (linked.hooks) note_linked(header, "linked_hooks=", linked.hooks);
}

// The log that is there already; a forked child that has made no call yet still has its parent's.
static struct ht_raw_header *header_now(void) {
    const struct recording *recording = recorder_current();
    return recording && epoch_now() != EPOCH_NONE ? recording->header : NULL;
}

void linked_allocator_hooked(const char *why_not) {
    linked.hooks = why_not ? why_not : "set";
    struct ht_raw_header *header = header_now();
    if (header) note_hooks(header);
}

static void note_name(struct ht_raw_header *header) {
    if (!atomic_load_explicit(&linked.known, memory_order_acquire)) return;
    note_linked(header, "linked_allocator=", linked.name);
    if (linked.version) note_linked(header, "linked_version=", linked.version);
}

void linked_allocator_version(const char *version) { linked.version = version; }

void linked_allocator_name(const char *name) {
    if (!name || !*name || atomic_flag_test_and_set(&linked.taken)) return;
    for (size_t i = 0; i + 1 < NAME_BYTES && name[i]; i++) linked.name[i] = readable(name[i]);
    atomic_store_explicit(&linked.known, true, memory_order_release);
    struct ht_raw_header *header = header_now();
    if (header) note_name(header);
}

void linked_allocator_note(struct ht_raw_header *header) {
    note_name(header);
    note_hooks(header);
}
