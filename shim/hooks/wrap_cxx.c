// SPDX-License-Identifier: Apache-2.0
// operator new and delete. Of an allocator's own (tcmalloc's, jemalloc's, mimalloc's) most forms never call malloc:
// those are recorded here. The C++ library's are malloc and free, which are called and recorded in their place. All
// others are built on malloc, which wrap.c sees: those pass through.
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include "loader.h"
#include "ops.h"
#include "state.h"
#include "sys.h"
#include "wrap.h"

enum new_form {
    NEW,
    NEW_ARRAY,
    NEW_NOTHROW,
    NEW_ARRAY_NOTHROW,
    NEW_ALIGN,
    NEW_ARRAY_ALIGN,
    NEW_ALIGN_NOTHROW,
    NEW_ARRAY_ALIGN_NOTHROW
};
enum delete_form {
    DELETE,
    DELETE_ARRAY,
    DELETE_SIZED,
    DELETE_ARRAY_SIZED,
    DELETE_ALIGN,
    DELETE_ARRAY_ALIGN,
    DELETE_SIZED_ALIGN,
    DELETE_ARRAY_SIZED_ALIGN,
    DELETE_NOTHROW,
    DELETE_ARRAY_NOTHROW,
    DELETE_ALIGN_NOTHROW,
    DELETE_ARRAY_ALIGN_NOTHROW
};

static const enum ht_function new_function[8] = {HT_NEW,         HT_NEW_ARRAY,        HT_NEW,
                                                 HT_NEW_ARRAY,   HT_NEW_ALIGNED,      HT_NEW_ARRAY_ALIGNED,
                                                 HT_NEW_ALIGNED, HT_NEW_ARRAY_ALIGNED};
static const enum ht_function delete_function[12] = {
    HT_DELETE,         HT_DELETE_ARRAY,         HT_DELETE_SIZED,         HT_DELETE_ARRAY_SIZED,
    HT_DELETE_ALIGNED, HT_DELETE_ARRAY_ALIGNED, HT_DELETE_SIZED_ALIGNED, HT_DELETE_ARRAY_SIZED_ALIGNED,
    HT_DELETE,         HT_DELETE_ARRAY,         HT_DELETE_ALIGNED,       HT_DELETE_ARRAY_ALIGNED};

// operator new may throw: then the call is recorded as failed on the way out. It runs with the gate open,
// because what it allocates beside its block (the exception, whatever a new-handler does) is the program's to
// free.
struct new_call {
    enum ht_function function;
    size_t size, alignment;
    void *block;
    const void *caller;
};

static void finish_new(struct new_call *call) {
    // The allocator has returned: the record alone is left.
    struct thread_state *t = enter_from(GATE_BUSY_OWN, call->caller);
    if (!t) return;
    wrap_put_new(t, call->function, call->block, call->alignment, call->size);
    leave(t);
}

static __attribute__((noinline)) void *new_own(enum new_form form, size_t size, size_t second,
                                               const void *third, const void *caller) {
    struct new_call call __attribute__((cleanup(finish_new))) = {
        new_function[form], size, form >= NEW_ALIGN ? second : 0, NULL, caller};
    call.block = real.new_[form](size, second, third);
    return call.block;
}

struct first_call {
    struct thread_state *t;  // NULL: not recorded
    enum ht_function function;
    size_t size, alignment;
    void *block;
};

static void finish_first(struct first_call *call) {
    if (!call->t) return;
    wrap_put_new(call->t, call->function, call->block, call->alignment, call->size);
    leave(call->t);
}

// What malloc does not give is left to the library, which asks again (that is recorded as malloc), calls the
// new-handler and throws.
HT_ALWAYS_INLINE void *new_by_malloc(enum new_form form, size_t size, size_t second, const void *third,
                                     const void *caller) {
    struct thread_state *t = enter_from(GATE_BUSY_REAL, caller);
    void *block = NULL;
    if (t) {
        block = real.malloc(size ? size : 1);
        if (likely(block)) wrap_put_new(t, new_function[form], block, 0, size);
        leave(t);
    }
    return likely(block) ? block : real.new_[form](size, second, third);
}

// The first call of a form: with the gate closed, an allocation inside it passes through and leaves its block
// behind. Later calls know; one that fails shows nothing, and is recorded as one of new in either case.
static __attribute__((noinline)) void *new_first(enum new_form form, size_t size, size_t second,
                                                 const void *third, const void *caller) {
    struct first_call call __attribute__((cleanup(finish_first))) = {
        enter_from(GATE_BUSY_REAL, caller), new_function[form], size, form >= NEW_ALIGN ? second : 0, NULL};
    passed(NULL);
    call.block = real.new_[form](size, second, third);
    if (call.t && call.block) real.new_kind[form] = call.block == self.passed_block ? NEW_ON_MALLOC : NEW_OWN;
    return call.block;
}

static _Atomic bool came_late;

// A C++ library that came later than the first call. Another thread may be within dlopen, and wait there for this one.
static __attribute__((noinline, cold)) void resolve_late(void) {
    if (!real.malloc) free(malloc(1));  // the very first call of the process resolves everything
    struct thread_state *t = recorder_idle_thread();
    if (t) close_gate(t, GATE_BUSY_SETUP, stack_pointer());
    real_resolve_cxx();
    if (t) leave(t);
    came_late = real.new_[NEW] != NULL;
}

// It must stay for as long as we remember its functions. What the loader allocates for that is recorded, because it also
// frees what it allocated when the program opened the library.
void wrap_before_unload(void) {
    if (likely(!came_late) || !atomic_exchange(&came_late, false)) return;
    const char *library = loader_object_of((void *)real.new_[NEW]).name;
    if (*library && real.dlopen) real.dlopen(library, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

// A throwing form may not return NULL: its caller builds an object there. Where there is no C++ library, there is neither
// a new-handler to ask nor a bad_alloc to throw, and the program ends, as it would by an exception that nobody catches:
// the one line that the shim ever prints, and SIGABRT, of this thread. Who handles that ends by the trap.
static _Noreturn void end_without_memory(void) {
    static const char why[] =
        "libmalloc_wrap.so: operator new: out of memory, without a C++ library to throw bad_alloc\n";
    sys_write(STDERR_FILENO, why, sizeof why - 1);
    sys_tgkill(sys_getpid(), sys_gettid(), SIGABRT);
    __builtin_trap();
}

// Inlined, as is do_delete: of each operator the form is known.
HT_ALWAYS_INLINE void *do_new(enum new_form form, size_t size, size_t second, const void *third,
                              const void *caller) {
    if (unlikely(!real.new_[form])) {
        resolve_late();
        if (!real.new_[form]) {
            // No C++ library anywhere: memory it is.
            void *block = form < NEW_ALIGN ? malloc(size) : aligned_alloc(second, size);
            if (!block && form % 4 < NEW_NOTHROW) end_without_memory();
            return block;
        }
    }
    const unsigned char kind = real.new_kind[form];  // clang 14 takes no atomic object here
    switch (kind) {
    case NEW_BY_MALLOC: return new_by_malloc(form, size, second, third, caller);
    case NEW_OWN: return new_own(form, size, second, third, caller);
    case NEW_UNKNOWN: return new_first(form, size, second, third, caller);
    default: return real.new_[form](size, second, third);
    }
}

HT_ALWAYS_INLINE void do_delete(enum delete_form form, void *block, size_t second, size_t third,
                                const void *caller) {
    if (boot_owns(block)) return;
    if (unlikely(!real.delete_[form])) {
        resolve_late();
        if (!real.delete_[form]) {
            free(block);
            return;
        }
    }
    // The record first, as in free().
    struct thread_state *t = real.delete_own[form] ? enter_from(GATE_BUSY_OWN, caller) : NULL;
    if (t) {
        bool sized = form == DELETE_SIZED || form == DELETE_ARRAY_SIZED || form == DELETE_SIZED_ALIGN ||
                     form == DELETE_ARRAY_SIZED_ALIGN;
        bool both = form == DELETE_SIZED_ALIGN || form == DELETE_ARRAY_SIZED_ALIGN;
        bool aligned = both || form == DELETE_ALIGN || form == DELETE_ARRAY_ALIGN ||
                       form == DELETE_ALIGN_NOTHROW || form == DELETE_ARRAY_ALIGN_NOTHROW;
        wrap_put_delete(t, delete_function[form], block, sized, second, aligned, both ? third : second);
    }
    real.delete_[form](block, second, third);
    if (t) leave(t);
}

#if __SIZEOF_SIZE_T__ == 8
#define SZ "m"
#else
#define SZ "j"
#endif
#define NEW_1(name, symbol, form)                                                                            \
    EXPORT void *name(size_t size) __asm__(symbol);                                                          \
    void *name(size_t size) { return do_new(form, size, 0, NULL, __builtin_return_address(0)); }
#define NEW_2(name, symbol, form)                                                                            \
    EXPORT void *name(size_t size, size_t second) __asm__(symbol);                                           \
    void *name(size_t size, size_t second) {                                                                 \
        return do_new(form, size, second, NULL, __builtin_return_address(0));                                \
    }
#define NEW_3(name, symbol, form)                                                                            \
    EXPORT void *name(size_t size, size_t second, const void *third) __asm__(symbol);                        \
    void *name(size_t size, size_t second, const void *third) {                                              \
        return do_new(form, size, second, third, __builtin_return_address(0));                               \
    }
#define DELETE_1(name, symbol, form)                                                                         \
    EXPORT void name(void *block) __asm__(symbol);                                                           \
    void name(void *block) { do_delete(form, block, 0, 0, __builtin_return_address(0)); }
#define DELETE_2(name, symbol, form)                                                                         \
    EXPORT void name(void *block, size_t second) __asm__(symbol);                                            \
    void name(void *block, size_t second) { do_delete(form, block, second, 0, __builtin_return_address(0)); }
#define DELETE_3(name, symbol, form)                                                                         \
    EXPORT void name(void *block, size_t second, size_t third) __asm__(symbol);                              \
    void name(void *block, size_t second, size_t third) {                                                    \
        do_delete(form, block, second, third, __builtin_return_address(0));                                  \
    }

NEW_1(wrap_new, "_Znw" SZ, NEW)
NEW_1(wrap_new_array, "_Zna" SZ, NEW_ARRAY)
NEW_2(wrap_new_nothrow, "_Znw" SZ "RKSt9nothrow_t", NEW_NOTHROW)
NEW_2(wrap_new_array_nothrow, "_Zna" SZ "RKSt9nothrow_t", NEW_ARRAY_NOTHROW)
NEW_2(wrap_new_align, "_Znw" SZ "St11align_val_t", NEW_ALIGN)
NEW_2(wrap_new_array_align, "_Zna" SZ "St11align_val_t", NEW_ARRAY_ALIGN)
NEW_3(wrap_new_align_nothrow, "_Znw" SZ "St11align_val_tRKSt9nothrow_t", NEW_ALIGN_NOTHROW)
NEW_3(wrap_new_array_align_nothrow, "_Zna" SZ "St11align_val_tRKSt9nothrow_t", NEW_ARRAY_ALIGN_NOTHROW)
DELETE_1(wrap_delete, "_ZdlPv", DELETE)
DELETE_1(wrap_delete_array, "_ZdaPv", DELETE_ARRAY)
DELETE_2(wrap_delete_sized, "_ZdlPv" SZ, DELETE_SIZED)
DELETE_2(wrap_delete_array_sized, "_ZdaPv" SZ, DELETE_ARRAY_SIZED)
DELETE_2(wrap_delete_align, "_ZdlPvSt11align_val_t", DELETE_ALIGN)
DELETE_2(wrap_delete_array_align, "_ZdaPvSt11align_val_t", DELETE_ARRAY_ALIGN)
DELETE_3(wrap_delete_sized_align, "_ZdlPv" SZ "St11align_val_t", DELETE_SIZED_ALIGN)
DELETE_3(wrap_delete_array_sized_align, "_ZdaPv" SZ "St11align_val_t", DELETE_ARRAY_SIZED_ALIGN)
DELETE_2(wrap_delete_nothrow, "_ZdlPvRKSt9nothrow_t", DELETE_NOTHROW)
DELETE_2(wrap_delete_array_nothrow, "_ZdaPvRKSt9nothrow_t", DELETE_ARRAY_NOTHROW)
DELETE_3(wrap_delete_align_nothrow, "_ZdlPvSt11align_val_tRKSt9nothrow_t", DELETE_ALIGN_NOTHROW)
DELETE_3(wrap_delete_array_align_nothrow, "_ZdaPvSt11align_val_tRKSt9nothrow_t", DELETE_ARRAY_ALIGN_NOTHROW)
