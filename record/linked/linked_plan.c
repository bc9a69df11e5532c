// SPDX-License-Identifier: Apache-2.0
// Of an executable's symbols, those that are an allocator's; of each, its code moved into a region that the preloaded
// library will map near the program; of all that, the text.
#include "linked_plan.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "elf_file.h"
#include "linked_code.h"
#include "linked_functions.h"

enum {
    STUB_BYTES = 16,
    ALIGNED_BYTES = 16,
    GAP_BYTES = 64 << 10,  // between the region and the program
    FUNCTION_BYTES_MAX = 1 << 20,
    NAMES_SHOWN = 3
};

struct function {
    char *name;
    enum linked_family family;
    struct ht_hook_shape shape;
    struct elf_function at;
    uint8_t *code;
    struct moved_code moved;
    unsigned stub, trampoline;
    const char *why;  // it cannot be hooked
    bool fits;        // by the number of its arguments
    bool called;
    bool unneeded;  // the calls that matter are seen without it
};

struct search {
    struct function function[HT_HOOK_FUNCTIONS_MAX];
    unsigned functions;
    bool too_many;
    bool only_rust;       // functions were found, but all of them are Rust's own
    uint64_t base;        // of the region
    unsigned code_bytes;  // used so far
};

static void refuse(struct linked_plan *plan, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void refuse(struct linked_plan *plan, const char *format, ...) {
    va_list values;
    va_start(values, format);
    vsnprintf(plan->why, sizeof plan->why, format, values);
    va_end(values);
}

// ---- which functions ----

// A function may have several names; the first stands for it. Plain names say less than others.
static void take(void *context, const struct elf_function *found) {
    struct search *search = context;
    struct function function = {.at = *found};
    if (!linked_function(found->name, &function.family, &function.shape, &function.fits)) return;
    for (unsigned i = 0; i < search->functions; i++) {
        struct function *known = &search->function[i];
        if (known->at.address != found->address) continue;
        if (!known->at.bytes) known->at.bytes = found->bytes;
        if (function.family >= known->family || !(function.name = strdup(found->name))) return;
        free(known->name);
        known->name = function.name;
        known->family = function.family;
        known->shape = function.shape;
        known->fits &= function.fits;
        return;
    }
    if (search->functions == HT_HOOK_FUNCTIONS_MAX || !(function.name = strdup(found->name))) {
        search->too_many = true;
        return;
    }
    function.at.name = NULL;  // goes with the table
    search->function[search->functions++] = function;
}

static void drop(struct search *search, unsigned which) {
    free(search->function[which].name);
    search->function[which] = search->function[--search->functions];
}

static bool has_both(const struct search *search, unsigned family) {
    bool allocates = false, releases = false;
    for (unsigned i = 0; i < search->functions; i++) {
        const struct function *function = &search->function[i];
        if (function->family != family) continue;
        unsigned kind = function->shape.kind;
        allocates |= kind != HT_HOOK_RELEASES && kind != HT_HOOK_ASKS && kind != HT_HOOK_CONTROLS;
        releases |= function->shape.kind == HT_HOOK_RELEASES;
    }
    return allocates && releases;
}

// A family of which a program has only a part is something else of that name, unless the part is an allocator's that has its
// other functions under other names as well. Some of Rust's own functions (__rust_alloc) are called, and others are inlined
// into their callers, with what is behind them: they are half a family, always.
static void choose(struct search *search) {
    bool counts[LINKED_FAMILIES], any = false;
    for (unsigned f = 0; f < LINKED_RUST; f++) {
        counts[f] = has_both(search, f) || (any && f >= LINKED_PLAIN);
        any |= counts[f];
    }
    counts[LINKED_RUST] = false;
    search->only_rust = !any && has_both(search, LINKED_RUST);
    for (unsigned i = search->functions; i-- > 0;)
        if (!counts[search->function[i].family]) drop(search, i);
}

static int by_address(const void *a, const void *b) {
    const struct function *left = a, *right = b;
    return (left->at.address > right->at.address) - (left->at.address < right->at.address);
}

// False where there are symbols that cannot be read: what is exported would be a part only.
static bool find_functions(struct search *search, const struct elf_file *elf) {
    if (!elf_file_each_function(elf, SHT_SYMTAB, take, search) && elf_file_has_section(elf, ".symtab"))
        return false;
    elf_file_each_function(elf, SHT_DYNSYM, take, search);
    choose(search);
    qsort(search->function, search->functions, sizeof *search->function, by_address);
    return true;
}

// ---- their code ----

static uint64_t lowest_address(const struct elf_file *elf) {
    uint64_t lowest = UINT64_MAX;
    for (unsigned i = 0; i < elf->segments; i++)
        if (elf->segment[i].p_type == PT_LOAD && elf->segment[i].p_vaddr < lowest)
            lowest = elf->segment[i].p_vaddr;
    return lowest & ~(uint64_t)(HT_HOOK_PAGE_BYTES - 1);
}

static const char *prepare(struct search *search, struct function *function, const struct elf_file *elf) {
    const struct elf_function *at = &function->at;
    if (at->chosen_later) return "is chosen by the loader";
    if (!function->fits) return "takes more arguments than can be passed on";
    if (!at->bytes || at->bytes > FUNCTION_BYTES_MAX) return "has a symbol without a size";
    function->code = elf_file_at_address(elf, at->address, at->bytes);
    if (!function->code) return "is not in the file";
    function->stub = search->code_bytes;
    function->trampoline = search->code_bytes + STUB_BYTES;
    const char *why = moved_code(&function->moved, function->code, at->bytes, at->address,
                                 search->base + function->trampoline);
    if (why) return why;
    search->code_bytes =
        function->trampoline + (function->moved.length + ALIGNED_BYTES - 1) / ALIGNED_BYTES * ALIGNED_BYTES;
    return NULL;
}

// One that is no more than a jump to another one needs no hook, nor one that only asks, nor one of too many arguments that
// came with the others.
static void find_unneeded(struct search *search) {
    uint64_t to;
    for (unsigned i = 0; i < search->functions; i++) {
        struct function *function = &search->function[i];
        bool optional = function->shape.kind == HT_HOOK_ASKS || function->shape.kind == HT_HOOK_CONTROLS;
        function->unneeded = optional || (!function->fits && !function->called);
        if (!function->why || !function->code ||
            !moved_code_is_jump(function->code, function->at.bytes, function->at.address, &to))
            continue;
        for (unsigned k = 0; k < search->functions; k++)
            function->unneeded |= search->function[k].at.address == to && !search->function[k].why;
    }
}

// Somebody else's jump between the displaced instructions; and whether anybody calls a function at all.
static void find_callers(struct linked_plan *plan, struct search *search, const struct elf_file *elf) {
    struct branch_target target[HT_HOOK_FUNCTIONS_MAX];
    for (unsigned i = 0; i < search->functions; i++) {
        const struct function *function = &search->function[i];
        uint64_t entry = function->at.address, begin = entry + function->moved.patch + 1;
        uint64_t end = entry + function->moved.end;
        target[i] = (struct branch_target){.entry = entry, .begin = begin, .end = end > begin ? end : begin};
    }
    bool read = branch_scan(elf, target, search->functions);
    bool allocates = false, releases = false;
    for (unsigned i = 0; i < search->functions; i++) {
        struct function *function = &search->function[i];
        const struct function *next = i + 1 < search->functions ? &search->function[i + 1] : NULL;
        allocates |= target[i].called && function->shape.kind == HT_HOOK_ALLOCATES;
        releases |= target[i].called && function->shape.kind == HT_HOOK_RELEASES;
        function->called = target[i].called;
        if (function->why) continue;
        if (!read) function->why = "is in code that could not be read";
        else if (next && next->at.address < target[i].end) function->why = "is too short";
        else if (target[i].entered) function->why = "is entered behind its beginning";
        else if (target[i].branched && register_use_may_be_known(elf, function->at.address))
            function->why = "changes few registers, which its callers may rely on";
    }
    plan->uncalled = !allocates || !releases;
}

static bool say_refused(struct linked_plan *plan, const struct search *search) {
    unsigned refused = 0;
    char *at = plan->why, *end = plan->why + sizeof plan->why;
    for (unsigned i = 0; i < search->functions; i++) {
        const struct function *function = &search->function[i];
        if (!function->why || function->unneeded) continue;
        if (refused++ < NAMES_SHOWN)
            at += snprintf(at, (size_t)(end - at), "%s%.60s %s", at == plan->why ? "" : ", ", function->name,
                           function->why);
    }
    if (refused > NAMES_SHOWN) snprintf(at, (size_t)(end - at), ", and %u more", refused - NAMES_SHOWN);
    return refused != 0;
}

// ---- the text ----

// In the region: the jump that a function's entry leads to. The slot's address becomes a sixth argument, and the slot's
// first member is where to go. lea r9, [slot]; jmp [slot]
static void put_stub(uint8_t *code, unsigned stub, unsigned slot) {
    static const uint8_t load[] = {0x4c, 0x8d, 0x0d}, jump[] = {0xff, 0x25};
    uint32_t from_load = slot - (stub + 7), from_jump = slot - (stub + 13);
    memcpy(code + stub, load, sizeof load);
    memcpy(code + stub + 3, &from_load, 4);
    memcpy(code + stub + 7, jump, sizeof jump);
    memcpy(code + stub + 9, &from_jump, 4);
}

static void put_functions(FILE *out, const struct search *search) {
    for (unsigned i = 0; i < search->functions; i++) {
        const struct function *function = &search->function[i];
        const struct ht_hook_shape *shape = &function->shape;
        if (function->why) continue;
        fprintf(out, "%" PRIx64 ",%" PRIx64 ",%" PRIx64 ",%x,%x,%x,", function->at.address,
                function->at.bytes, ht_hook_hash(function->code, function->at.bytes), function->moved.patch,
                function->stub, function->trampoline);
        fprintf(out, "%x,%x,%x,%x,%x,%x,%x,;", shape->kind, shape->rule, shape->function, shape->block,
                shape->count, shape->size, shape->alignment);
    }
}

static char *text_of(const struct linked_plan *plan, const struct search *search) {
    unsigned code_pages =
        (search->code_bytes + HT_HOOK_PAGE_BYTES - 1) / HT_HOOK_PAGE_BYTES * HT_HOOK_PAGE_BYTES;
    size_t data_bytes = plan->functions * sizeof(struct ht_hook_slot);
    size_t bytes =
        code_pages + (data_bytes + HT_HOOK_PAGE_BYTES - 1) / HT_HOOK_PAGE_BYTES * HT_HOOK_PAGE_BYTES;
    uint8_t *code = calloc(1, search->code_bytes);
    char *text = NULL;
    size_t length;
    FILE *out = code ? open_memstream(&text, &length) : NULL;
    if (!out) {
        free(code);
        return NULL;
    }
    bool returns = false;
    unsigned slot = code_pages;
    for (unsigned i = 0; i < search->functions; i++) {
        const struct function *function = &search->function[i];
        if (function->why) continue;
        put_stub(code, function->stub, slot);
        memcpy(code + function->trampoline, function->moved.bytes, function->moved.length);
        returns |= function->moved.returns;
        slot += (unsigned)sizeof(struct ht_hook_slot);
    }
    fprintf(out, "%x:%s%s%s:%" PRIx64 ":%x:%zx:%x:", (unsigned)HT_HOOK_VERSION, plan->name,
            plan->version[0] ? "@" : "", plan->version, search->base, code_pages, bytes, (unsigned)returns);
    for (unsigned i = 0; i < search->code_bytes; i++) fprintf(out, "%02x", code[i]);
    fputc(':', out);
    for (unsigned i = 0; i < search->functions; i++)
        for (unsigned k = 0; !search->function[i].why && k < search->function[i].moved.fields; k++)
            fprintf(out, "%x,", search->function[i].trampoline + search->function[i].moved.field[k]);
    fputc(':', out);
    put_functions(out, search);
    free(code);
    if (fclose(out)) return NULL;
    return text;
}

// ---- all of it ----

// The recorder takes names without a colon or @, which end a name in the text.
static void name_plan(struct linked_plan *plan, const struct search *search, const char *allocator) {
    const char *name = allocator;
    for (unsigned i = 0; i < search->functions && !name; i++)
        name = linked_family_name(search->function[i].family);
    snprintf(plan->name, sizeof plan->name, "%s", name ? name : "own");
    for (char *c = plan->name; *c; c++)
        if (*c == ':' || *c == '@' || *c <= ' ') *c = '_';
}

static void make(struct linked_plan *plan, struct search *search, const struct elf_file *elf,
                 const char *allocator) {
    if (!find_functions(search, elf)) {
        refuse(plan, "its symbols cannot be read");
        return;
    }
    if (search->too_many) {
        refuse(plan, "it has more than %d functions that allocate", HT_HOOK_FUNCTIONS_MAX);
        return;
    }
    if (!search->functions) {
        refuse(plan, search->only_rust ? "rustc compiles parts of it into its callers"
                                       : "no function of it is known by its symbols");
        return;
    }
    // The region's size is not known yet, and need not be: it ends below the program.
    search->base = lowest_address(elf) - GAP_BYTES - HT_HOOK_REGION_BYTES_MAX;
    for (unsigned i = 0; i < search->functions; i++)
        search->function[i].why = prepare(search, &search->function[i], elf);
    find_callers(plan, search, elf);
    find_unneeded(search);
    if (say_refused(plan, search)) return;
    for (unsigned i = 0; i < search->functions; i++) plan->functions += !search->function[i].why;
    name_plan(plan, search, allocator);
    linked_version(elf, plan->name, plan->version);
    plan->text = text_of(plan, search);
    if (!plan->text) refuse(plan, "memory is short");
}

bool linked_plan_make(struct linked_plan *plan, const char *executable, const char *allocator) {
    struct search *search = calloc(1, sizeof *search);
    struct elf_file elf;
    *plan = (struct linked_plan){0};
    int fd = open(executable, O_RDONLY | O_CLOEXEC);
    bool is_elf = search && fd >= 0 && elf_file_open(&elf, fd);
    if (!moved_code_can()) refuse(plan, "this build of heaptape has no disassembler (libzydis)");
    else if (is_elf && elf.header.e_machine == EM_X86_64) make(plan, search, &elf, allocator);
    else refuse(plan, "functions can be hooked in x86-64 programs only");
    if (is_elf) elf_file_close(&elf);
    if (fd >= 0) close(fd);
    for (unsigned i = 0; search && i < search->functions; i++) {
        free(search->function[i].name);
        free(search->function[i].code);
    }
    free(search);
    return plan->text != NULL;
}

void linked_plan_free(struct linked_plan *plan) {
    free(plan->text);
    plan->text = NULL;
}
