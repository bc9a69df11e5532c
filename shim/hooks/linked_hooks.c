// SPDX-License-Identifier: Apache-2.0
// Hooks of an allocator that is linked into the program, as `record` has planned them (hook_plan.h). They are set before the
// program's own code runs: only in the program that was planned for, and all of them or none.
//
// Nothing is changed in place. The pages with the functions' entries are copied, changed there, made executable, and moved
// over the old ones, each in one system call: whatever the kernel refuses, it refuses before the program has changed. Until
// all are in place the jumps lead to the functions themselves.
#ifdef __x86_64__

#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>

#include "context_notes.h"
#include "hook_plan.h"
#include "real.h"
#include "settings.h"
#include "sys.h"
#include "wrap.h"

// ---- the hooks ----
//
// Which function was called, its slot says: code that `record` has prepared
// passes the slot behind the arguments. A function takes fewer than are passed here, which it does not notice.
//
// The allocator's own calls meanwhile pass through, those of other functions with such hooks too (calloc that calls malloc):
// GATE_BUSY_LINKED.

enum { MALLOCX_LG_ALIGN_MASK = 0x3f, MALLOCX_ZERO = 0x40, LAYOUT_ALIGNMENT = 16 };

typedef uintptr_t real_function(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);

#define PARAMETERS                                                                                           \
    uintptr_t first, uintptr_t second, uintptr_t third, uintptr_t fourth, uintptr_t fifth,                   \
        const struct ht_hook_slot *slot
// The arguments by place; one that has no place is 0.
#define ARGUMENTS      {first, second, third, fourth, fifth, 0, 0, 0}
#define CALL_REAL()    ((real_function *)slot->real)(first, second, third, fourth, fifth)
#define enter_hooked() enter_from(GATE_BUSY_OWN, __builtin_return_address(0))

struct sizes {
    enum ht_function function;
    size_t count, size, alignment;
};

// Size and alignment as the record has them.
static inline struct sizes sizes_of(const struct ht_hook_slot *slot, const uintptr_t argument[8]) {
    const struct ht_hook_shape *shape = &slot->shape;
    struct sizes sizes = {(enum ht_function)shape->function, 1, argument[shape->size],
                          argument[shape->alignment]};
    if (shape->count != HT_HOOK_NO_ARGUMENT) sizes.count = argument[shape->count];
    if (sizes.count != 1 && sizes.function != HT_CALLOC && sizes.function != HT_REALLOCARRAY) {
        sizes.size = wrap_product(sizes.count, sizes.size);
        sizes.count = 1;
    }
    if (shape->rule == HT_HOOK_FLAGS) {
        unsigned flags = (unsigned)sizes.alignment, shift = flags & MALLOCX_LG_ALIGN_MASK;
        sizes.alignment = shift ? (size_t)1 << shift : 0;
        if (shape->kind == HT_HOOK_RELEASES) sizes.function = shift ? HT_FREE_ALIGNED_SIZED : HT_FREE_SIZED;
        else if (shift) sizes.function = HT_ALIGNED_ALLOC;
        else if (flags & MALLOCX_ZERO) sizes.function = HT_CALLOC;
    } else if (shape->rule == HT_HOOK_LAYOUT) {
        if (sizes.alignment <= LAYOUT_ALIGNMENT && sizes.alignment <= sizes.size) sizes.alignment = 0;
        else sizes.function = HT_ALIGNED_ALLOC;
    }
    return sizes;
}

static inline struct wrap_call begin_allocation(struct thread_state *t, const struct ht_hook_slot *slot,
                                                const uintptr_t argument[8]) {
    struct sizes sizes = sizes_of(slot, argument);
    return (struct wrap_call){t, sizes.function, sizes.count, sizes.size, sizes.alignment};
}

// Also where an exception leaves the function: a call that failed. The call site is the hook's caller.
static inline __attribute__((always_inline)) void end_allocation(struct wrap_call *call) {
    if (likely(call->t)) call->t->stack = frame_end();
    wrap_call_end_allocation(call);
}

static inline __attribute__((always_inline)) void end_resize(struct wrap_call *call) {
    if (likely(call->t)) call->t->stack = frame_end();
    wrap_call_end_resize(call);
}

static uintptr_t on_allocation(PARAMETERS) {
    const uintptr_t argument[8] = ARGUMENTS;
    struct wrap_call call __attribute__((cleanup(end_allocation))) =
        begin_allocation(enter_hooked(), slot, argument);
    if (likely(call.t)) linked_begin_work(call.t);
    uintptr_t block = CALL_REAL();
    call.block = (void *)block;
    return block;
}

static uintptr_t on_filling(PARAMETERS) {
    const uintptr_t argument[8] = ARGUMENTS;
    struct wrap_call call __attribute__((cleanup(end_allocation))) =
        begin_allocation(enter_hooked(), slot, argument);
    if (likely(call.t)) linked_begin_work(call.t);
    uintptr_t error = CALL_REAL();
    if (!(int)error) call.block = *(void **)argument[slot->shape.block];
    return error;
}

static inline struct wrap_call begin_resize(struct thread_state *t, const struct ht_hook_slot *slot,
                                            const uintptr_t argument[8]) {
    struct sizes sizes = sizes_of(slot, argument);
    struct wrap_call call = {t, sizes.function, sizes.count, sizes.size,
                             .old = (void *)argument[slot->shape.block]};
    wrap_call_begin_resize(&call);
    return call;
}

static uintptr_t on_resizing(PARAMETERS) {
    const uintptr_t argument[8] = ARGUMENTS;
    struct wrap_call call __attribute__((cleanup(end_resize))) = begin_resize(enter_hooked(), slot, argument);
    if (likely(call.t)) linked_begin_work(call.t);
    uintptr_t block = CALL_REAL();
    call.block = (void *)block;
    return block;
}

static uintptr_t on_stretching(PARAMETERS) {
    const uintptr_t argument[8] = ARGUMENTS;
    struct wrap_call call __attribute__((cleanup(end_resize))) = begin_resize(enter_hooked(), slot, argument);
    if (likely(call.t)) linked_begin_work(call.t);
    uintptr_t size = CALL_REAL();
    if (size >= call.size) call.block = call.old;
    return size;
}

static uintptr_t on_release(PARAMETERS) {
    const uintptr_t argument[8] = ARGUMENTS;
    struct thread_state *t = enter_hooked();
    if (unlikely(!t)) return CALL_REAL();
    const struct ht_hook_shape *shape = &slot->shape;
    void *block = (void *)argument[shape->block];
    if (shape->function == HT_FREE) {
        wrap_put_free(t, block);
    } else {
        struct sizes sizes = sizes_of(slot, argument);
        bool aligned = sizes.function == HT_FREE_ALIGNED_SIZED || shape->alignment != HT_HOOK_NO_ARGUMENT;
        if (sizes.function == HT_FREE_SIZED) aligned = false;
        wrap_put_delete(t, sizes.function, block, shape->size != HT_HOOK_NO_ARGUMENT, sizes.size, aligned,
                        sizes.alignment);
    }
    linked_begin_work(t);
    uintptr_t result = CALL_REAL();
    leave(t);
    return result;
}

static uintptr_t on_question(PARAMETERS) {
    const uintptr_t argument[8] = ARGUMENTS;
    struct thread_state *t = enter_hooked();
    if (unlikely(!t)) return CALL_REAL();
    wrap_put_query(t, (const void *)argument[slot->shape.block]);
    linked_begin_work(t);
    uintptr_t result = CALL_REAL();
    leave(t);
    return result;
}

// mallctl's first argument is the name, its last two are the new value.
static struct ht_control_call control_of(const struct ht_hook_slot *slot, const uintptr_t argument[8]) {
    const struct ht_hook_shape *shape = &slot->shape;
    if (shape->function == HT_CTL_MALLCTL)
        return wrap_mallctl_call((const char *)argument[0], (const void *)argument[3], argument[4]);
    struct ht_control_call call = {.number = shape->function, .second = (int64_t)argument[shape->size]};
    if (call.number == HT_CTL_MI_COLLECT) call.second = (uint8_t)call.second;  // a bool
    return call;
}

static uintptr_t on_control(PARAMETERS) {
    const uintptr_t argument[8] = ARGUMENTS;
    struct thread_state *t = enter_hooked();
    if (unlikely(!t)) return CALL_REAL();
    struct ht_control_call call = control_of(slot, argument);
    wrap_begin_control(t, call.number, call.first, call.second);
    linked_begin_work(t);
    uintptr_t result = CALL_REAL();
    wrap_end_control(t);
    return result;
}

// The hook that takes the calls of a function of that kind.
static uintptr_t linked_hook(enum ht_hook_kind kind) {
    static uintptr_t (*const hooks[HT_HOOK_KINDS])(PARAMETERS) = {
        [HT_HOOK_ALLOCATES] = on_allocation, [HT_HOOK_FILLS] = on_filling,    [HT_HOOK_RESIZES] = on_resizing,
        [HT_HOOK_STRETCHES] = on_stretching, [HT_HOOK_RELEASES] = on_release, [HT_HOOK_ASKS] = on_question,
        [HT_HOOK_CONTROLS] = on_control};
    return (uintptr_t)hooks[kind];
}

// ---- how they are set ----

enum {
    STEP_BYTES = 64 << 10,  // from one place for the region to the next
    STEPS_MAX = 1 << 12,
    OTHER_LINKS = 2,  // of /proc/self/task: besides one for each thread
    ARCH_SHADOW_STACK_STATUS = 0x5005,
    JUMP = 0xe9
};

struct planned {
    uint64_t address, bytes, hash;
    uint64_t patch, stub, trampoline;
    struct ht_hook_shape shape;
};

// The plan, and the program as it lies in memory.
struct plan {
    char name[64], *version;  // NULL: not known
    uint64_t place, code_bytes, bytes;
    bool returns;
    const char *code, *fields;  // in the text
    struct planned function[HT_HOOK_FUNCTIONS_MAX];
    unsigned functions;
    uintptr_t base;       // of the program's addresses
    uintptr_t low, high;  // its code, whole pages
    int protection;
    uint8_t *region;
};

// Pages of the program, and the changed copy.
struct copy {
    uintptr_t at;
    size_t bytes;
    uint8_t *changed;
};

// ---- the text ----

static unsigned digit(char c) {
    if (c >= '0' && c <= '9') return (unsigned)(c - '0');
    return c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10) : 16;
}

// A number and the character behind it. False if that is another one.
static bool number(const char **text, char end, uint64_t *value) {
    const char *at = *text;
    for (*value = 0; digit(*at) < 16; at++) *value = *value << 4 | digit(*at);
    bool there = at > *text && *at == end;
    *text = at + there;
    return there;
}

static bool read_function(const char **text, struct planned *function) {
    uint64_t value[HT_HOOK_NUMBERS];
    for (unsigned i = 0; i < HT_HOOK_NUMBERS; i++)
        if (!number(text, ',', &value[i])) return false;
    uint8_t shape[sizeof function->shape];
    for (unsigned i = 0; i < sizeof shape; i++) {
        shape[i] = (uint8_t)value[HT_HOOK_NUMBERS - sizeof shape + i];
        // Behind kind, rule and function there are places of arguments.
        if (i > 2 && shape[i] > HT_HOOK_NO_ARGUMENT) return false;
    }
    *function = (struct planned){value[0], value[1], value[2], value[3], value[4], value[5], {0}};
    memcpy(&function->shape, shape, sizeof shape);
    return *(*text)++ == ';' && shape[0] < HT_HOOK_KINDS && shape[1] < HT_HOOK_RULES;
}

static bool read_plan(struct plan *plan, const char *text) {
    uint64_t version, returns;
    if (!number(&text, ':', &version) || version != HT_HOOK_VERSION) return false;
    size_t length = strcspn(text, ":");
    if (length >= sizeof plan->name || !text[length]) return false;
    memcpy(plan->name, text, length);
    plan->version = strchr(plan->name, '@');
    if (plan->version) *plan->version++ = 0;
    text += length + 1;
    if (!number(&text, ':', &plan->place) || !number(&text, ':', &plan->code_bytes) ||
        !number(&text, ':', &plan->bytes) || !number(&text, ':', &returns))
        return false;
    plan->returns = returns;
    plan->code = text;
    text += strcspn(text, ":");
    // Half a text: two digits a byte.
    if (!*text || (uint64_t)(text - plan->code) > 2 * plan->code_bytes) return false;
    plan->fields = ++text;
    text += strcspn(text, ":");
    if (!*text++) return false;
    while (*text) {
        if (plan->functions == HT_HOOK_FUNCTIONS_MAX ||
            !read_function(&text, &plan->function[plan->functions++]))
            return false;
    }
    return plan->functions && plan->bytes <= HT_HOOK_REGION_BYTES_MAX && plan->code_bytes < plan->bytes &&
           plan->bytes - plan->code_bytes >= plan->functions * sizeof(struct ht_hook_slot);
}

// ---- the program ----

// The first object is the program. Its code must be one piece.
static int find_program(struct dl_phdr_info *info, size_t size, void *context) {
    struct plan *plan = context;
    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X)) continue;
        uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (plan->functions && plan->function[0].address - segment->p_vaddr >= segment->p_memsz) continue;
        plan->base = info->dlpi_addr;
        plan->low = start & -(uintptr_t)HT_HOOK_PAGE_BYTES;
        plan->high = (start + segment->p_memsz + HT_HOOK_PAGE_BYTES - 1) & -(uintptr_t)HT_HOOK_PAGE_BYTES;
        plan->protection = (segment->p_flags & PF_R ? PROT_READ : 0) |
                           (segment->p_flags & PF_W ? PROT_WRITE : 0) | PROT_EXEC;
    }
    return 1;
}

// Whether this program is the one that was planned for, code for code.
static bool is_planned_program(struct plan *plan) {
    dl_iterate_phdr(find_program, plan);
    if (plan->protection != (PROT_READ | PROT_EXEC)) return false;
    for (unsigned i = 0; i < plan->functions; i++) {
        const struct planned *function = &plan->function[i];
        uintptr_t at = plan->base + function->address;
        if (at < plan->low || at >= plan->high || function->bytes > plan->high - at ||
            function->patch > function->bytes || function->bytes - function->patch < HT_HOOK_PATCH_BYTES ||
            function->stub >= plan->code_bytes || function->trampoline >= plan->code_bytes ||
            ht_hook_hash((const uint8_t *)at, function->bytes) != function->hash)
            return false;
    }
    return true;
}

// ---- the region ----

// Maps it where every reference between it and the program is a matter of 31 bits. NULL if nothing is free.
static uint8_t *map_region(const struct plan *plan) {
    uintptr_t wanted = plan->base + plan->place;
    for (unsigned step = 0; step < STEPS_MAX; step++, wanted -= STEP_BYTES) {
        void *at = sys_mmap((void *)wanted, plan->bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1);
        if ((uintptr_t)at == wanted) return at;
        if (at) sys_munmap(at, plan->bytes);  // a kernel that takes it for a wish
    }
    return NULL;
}

// NOLINTNEXTLINE(bugprone-casting-through-void): behind whole pages of code
static struct ht_hook_slot *slots_of(const struct plan *plan) {
    return (void *)(plan->region + plan->code_bytes);
}

static bool add_to_field(uint8_t *field, int64_t difference) {
    int32_t value;
    memcpy(&value, field, sizeof value);
    int64_t sum = value + difference;
    value = (int32_t)sum;
    memcpy(field, &value, sizeof value);
    return value == sum;
}

// The code, adjusted to where the region is, and slots that lead to the functions themselves.
static bool fill_region(const struct plan *plan) {
    unsigned bytes = 0;
    for (const char *at = plan->code; *at != ':'; at += 2, bytes++) {
        if (digit(at[0]) > 15 || digit(at[1]) > 15) return false;
        plan->region[bytes] = (uint8_t)(digit(at[0]) << 4 | digit(at[1]));
    }
    int64_t difference = (int64_t)(plan->base + plan->place - (uintptr_t)plan->region);
    uint64_t field;
    for (const char *at = plan->fields; *at != ':';)
        if (!number(&at, ',', &field) || field + 4 > bytes || !add_to_field(plan->region + field, difference))
            return false;
    struct ht_hook_slot *slot = slots_of(plan);
    for (unsigned i = 0; i < plan->functions; i++) {
        uintptr_t itself = (uintptr_t)plan->region + plan->function[i].trampoline;
        slot[i] = (struct ht_hook_slot){itself, itself, plan->function[i].shape, 0};
    }
    return true;
}

// From now on calls are recorded.
static void let_in(const struct plan *plan) {
    struct ht_hook_slot *slot = slots_of(plan);
    for (unsigned i = 0; i < plan->functions; i++)
        slot[i].hook = linked_hook((enum ht_hook_kind)plan->function[i].shape.kind);
    sys_mprotect(slot, plan->bytes - plan->code_bytes, PROT_READ);
}

// ---- the program's pages ----

static uintptr_t patch_at(const struct plan *plan, unsigned i) {
    return plan->base + plan->function[i].address + plan->function[i].patch;
}

// The pages that the patches are in, neighbours together: a patch may lie across two. The plan has them by address.
static unsigned find_pages(const struct plan *plan, struct copy *copies) {
    const uintptr_t page = HT_HOOK_PAGE_BYTES;
    unsigned count = 0;
    for (unsigned i = 0; i < plan->functions; i++) {
        uintptr_t from = patch_at(plan, i) & -page;
        uintptr_t to = (patch_at(plan, i) + HT_HOOK_PATCH_BYTES + page - 1) & -page;
        struct copy *last = count ? &copies[count - 1] : NULL;
        if (last && from <= last->at + last->bytes && from >= last->at) {
            if (to > last->at + last->bytes) last->bytes = to - last->at;
        } else {
            copies[count++] = (struct copy){from, to - from, NULL};
        }
    }
    return count;
}

static bool write_patches(const struct plan *plan, const struct copy *copy) {
    for (unsigned i = 0; i < plan->functions; i++) {
        uintptr_t at = patch_at(plan, i), stub = (uintptr_t)plan->region + plan->function[i].stub;
        if (at < copy->at || at >= copy->at + copy->bytes) continue;
        int64_t distance = (int64_t)(stub - (at + HT_HOOK_PATCH_BYTES));
        int32_t field = (int32_t)distance;
        if (field != distance) return false;
        uint8_t *to = copy->changed + (at - copy->at);
        *to = JUMP;
        memcpy(to + 1, &field, sizeof field);
    }
    return true;
}

static bool make_copy(const struct plan *plan, struct copy *copy) {
    copy->changed = sys_map_memory(copy->bytes);
    if (!copy->changed) return false;
    memcpy(copy->changed, (const void *)copy->at, copy->bytes);
    return write_patches(plan, copy) && !sys_mprotect(copy->changed, copy->bytes, plan->protection);
}

static bool put_in_place(const struct copy *copy) {
    long at = raw_syscall(SYS_mremap, (long)copy->changed, (long)copy->bytes, (long)copy->bytes,
                          MREMAP_MAYMOVE | MREMAP_FIXED, (long)copy->at, 0);
    return (uintptr_t)at == copy->at;
}

// NULL, or why the program stays as it was.
static const char *replace_pages(const struct plan *plan) {
    static struct copy copies[HT_HOOK_FUNCTIONS_MAX];
    unsigned count = find_pages(plan, copies), made = 0, placed = 0;
    while (made < count && make_copy(plan, &copies[made])) made++;
    while (made == count && placed < count && put_in_place(&copies[placed])) placed++;
    for (unsigned i = placed; i < count; i++)
        if (copies[i].changed) sys_munmap(copies[i].changed, copies[i].bytes);
    if (placed == count) return NULL;
    // Some jumps may be there. They lead through the region, which stays, to the functions themselves.
    if (!placed) sys_munmap(plan->region, plan->bytes);
    return made < count ? "the kernel refuses memory for changed code" : "the kernel refuses to replace code";
}

// ---- all of it ----

// One thread alone: another could be between two instructions that a jump replaces.
static bool is_alone(void) {
    struct stat status;
    return !raw_syscall(SYS_newfstatat, AT_FDCWD, (long)"/proc/self/task", (long)&status, 0, 0, 0) &&
           status.st_nlink == OTHER_LINKS + 1;
}

static bool has_shadow_stack(void) {
    uint64_t features = 0;
    return !raw_syscall(SYS_arch_prctl, ARCH_SHADOW_STACK_STATUS, (long)&features, 0, 0, 0, 0) && features;
}

static const char *set_hooks(struct plan *plan) {
    if (!is_alone()) return "threads are running already, or /proc is missing";
    if (plan->returns && has_shadow_stack()) return "the processor keeps a shadow stack";
    plan->region = map_region(plan);
    if (!plan->region) return "there is no room near the program";
    if (!fill_region(plan) || sys_mprotect(plan->region, plan->code_bytes, PROT_READ | PROT_EXEC)) {
        sys_munmap(plan->region, plan->bytes);
        return "the kernel refuses memory for code";
    }
    const char *why = replace_pages(plan);
    if (!why) let_in(plan);
    return why;
}

__attribute__((constructor)) static void hook_linked_in(void) {
    static struct plan plan;
    const char *text = environment(HT_HOOK_VARIABLE);
    if (!text || !*text) return;
    // Other programs that this one starts have the variable too.
    if (!read_plan(&plan, text) || !is_planned_program(&plan)) return;
    uint64_t signals = sys_block_signals();
    const char *why = set_hooks(&plan);
    sys_restore_signals(signals);
    linked_allocator_hooked(why);
    if (why) return;
    linked_allocator_version(plan.version);
    linked_allocator_name(plan.name);
}

#endif
