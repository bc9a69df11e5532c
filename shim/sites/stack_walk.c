// SPDX-License-Identifier: Apache-2.0
#include "stack_walk.h"

#include <string.h>

#include "frame_size.h"
#include "older_libc.h"
#include "real.h"
#include "settings.h"
#include "site_map.h"
#include "state.h"
#include "sys.h"

__thread struct own_stack own_stack;

#if defined(__x86_64__) && defined(HEAPTAPE_UNWINDER)
#include <sys/auxv.h>
#include <unwind.h>

enum {
    MAIN_STACK_BYTES_MAX = 128 << 20,  // the kernel maps nothing nearer to its end
    THREAD_BYTES_MAX = 256 << 10,      // what libc and thread-local storage take of a stack's end
    FRAME_BYTES_MAX = 256 << 10,
    BELOW_BYTES = 16 << 10
};

// After a return address: how far up the next one lies, in the low bits, in units of 8 bytes.
#define STEP_VARIES (UINT64_C(1) << 62)
#define STEP_ENDS   (UINT64_C(1) << 61)  // nothing follows
#define STEP_BROKEN (UINT64_C(1) << 60)  // because the unwinder could not go on
#define STEP_UNITS  (STEP_BROKEN - 1)
static struct site_map steps;

// libgcc's own code, which calls malloc under a lock that the unwinder takes, for programs that register frames (JITs).
static uintptr_t unwinder_start, unwinder_end;

// Without the function that finds objects, libgcc takes the loader's lock.
bool stack_walk_start(void) {
    struct found_object object;
    if (!real.find_object || real.find_object((void *)(uintptr_t)_Unwind_Backtrace, &object)) return false;
    unwinder_start = (uintptr_t)object.start;
    unwinder_end = (uintptr_t)object.end;
    return true;
}

bool stack_walk_is_unwinders(uintptr_t address) {
    return address >= unwinder_start && address < unwinder_end;
}

static bool unwinder_is_lost;
void stack_walk_unwinder_is_lost(void) { unwinder_is_lost = true; }

// A thread is known by its thread pointer: a child's first thread may be another one's copy, on the stack of that.
static uintptr_t first_thread;
__attribute__((constructor)) static void note_first_thread(void) {
    first_thread = (uintptr_t)__builtin_thread_pointer();
}

void stack_walk_new_thread(void) {
    if (own_stack.end) return;
    // All that is known of a thread of libc's making is that its stack ends where libc has its own of it. To ask libc for the
    // rest takes a lock, which the thread may hold while it makes its first call.
    own_stack.end = (uintptr_t)__builtin_thread_pointer();
    if (sys_gettid() != sys_getpid() || (first_thread && first_thread != own_stack.end)) return;
    uint64_t bytes = sys_limit(RLIMIT_STACK);
    // The kernel puts the executable's name above the first frame.
    own_stack.end = getauxval(AT_EXECFN) & ~(uintptr_t)7;
    own_stack.bytes = bytes < MAIN_STACK_BYTES_MAX ? bytes : MAIN_STACK_BYTES_MAX;
}

static uintptr_t address_before(uintptr_t cfa) { return ((const uintptr_t *)cfa)[-1]; }

// The last walk, and on which stack it was.
static struct {
    uintptr_t stack_end;
    uint32_t frames, flags;
    uint32_t first_steady;  // from this frame on none varies, as far as is known
    uint32_t
        first_there;  // from this or that one on, all have their return addresses on the stack that is walked now
    struct stack_frame frame[HT_SITE_FRAMES_MAX];
} last_walk;

// Half a walk is none: a child may be forked meanwhile, by another thread or as one of vfork that is killed in here.
static void remember_walk(const struct stack_walk *walk) {
    uint32_t frames = walk->regular ? walk->frames : 0;
    last_walk.frames = 0;
    atomic_signal_fence(memory_order_seq_cst);
    last_walk.stack_end = own_stack.end;
    last_walk.flags = walk->flags;
    // What was walked by what is known does not vary; of the others it is yet to be learned.
    last_walk.first_steady = walk->unwound ? frames : 0;
    memcpy(last_walk.frame, walk->frame, frames * sizeof *last_walk.frame);
    atomic_signal_fence(memory_order_seq_cst);
    last_walk.frames = frames;
}

// A coroutine's stack may have been made within this one, with a page above it that must not be touched.
static uint32_t find_first_there(uintptr_t cfa) {
    uint32_t first = last_walk.frames;
    uintptr_t page = settings.page_bytes, readable = (cfa - 1) / page;
    if (last_walk.stack_end != own_stack.end || !stack_is_own(cfa)) return first;
    const struct stack_frame *frame = &last_walk.frame[first];
    for (; frame > &last_walk.frame[last_walk.first_steady] && frame[-1].cfa >= cfa; frame--) {
        uintptr_t at = frame[-1].cfa - sizeof at;
        if (at / page != readable && !sys_can_read(at)) break;
        readable = at / page;
        if (address_before(frame[-1].cfa) != frame[-1].address) break;
    }
    return (uint32_t)(frame - last_walk.frame);
}

// If the frame at `cfa` is one of the last walk's, from *at on: how many come behind so many frames of this one, from there on.
static uint32_t take_from_last(struct stack_walk *walk, uint32_t frames, uintptr_t cfa, unsigned frames_max,
                               uint32_t *at) {
    while (*at < last_walk.frames && last_walk.frame[*at].cfa < cfa) ++*at;
    if (*at == last_walk.frames || last_walk.frame[*at].cfa != cfa) return 0;
    uint32_t shared = last_walk.frames - *at;
    if (shared > frames_max - frames) shared = frames_max - frames;
    memcpy(&walk->frame[frames], &last_walk.frame[*at], shared * sizeof *walk->frame);
    return shared;
}

// May the tables be read that the unwinder reads? Set for each walk.
static bool may_unwind;

static uint64_t step_by_table(uintptr_t address) {
    uint64_t step = may_unwind ? frame_size(address) / 8 : 0;
    if (step) site_map_put(&steps, address, step);
    return step;
}

// What is known of the frames from one on: where the next one lies, or that there is none. False: nothing.
static bool step_from(const struct stack_frame *frame, uintptr_t *next, bool *ends, uint32_t *flags) {
    uint64_t step = site_map_get(&steps, frame->address);
    if (!step) step = step_by_table(frame->address);
    *ends = step & STEP_ENDS;
    *flags = step & STEP_BROKEN ? HT_SITE_BROKEN : 0;
    *next = frame->cfa + 8 * (step & STEP_UNITS);
    return step && !(step & STEP_VARIES) && (*ends || *next <= own_stack.end);
}

// From the frame at `cfa` on by what is known, behind the frames that there are. False: the step from the frame at *unknown_cfa
// is not, and no frame is added.
static bool walk_by_steps(struct stack_walk *walk, uintptr_t cfa, unsigned frames_max,
                          uintptr_t *unknown_cfa) {
    uint32_t frames = walk->frames, at = last_walk.first_there, shared = 0, flags = 0;
    for (bool ends = false; !ends;) {
        uint32_t taken = shared ? 0 : take_from_last(walk, frames, cfa, frames_max, &at);
        if (taken) {
            shared = taken;
            walk->shared_at = frames;
            walk->shared_from = at;
            flags = last_walk.flags;
            frames += taken;
            if (at + taken == last_walk.frames && !(flags & HT_SITE_CUT)) break;
        } else {
            walk->frame[frames++] = (struct stack_frame){address_before(cfa), cfa};
        }
        const struct stack_frame *outermost = &walk->frame[frames - 1];
        *unknown_cfa = outermost->cfa;
        if (!step_from(outermost, &cfa, &ends, &flags)) return false;
        if (frames == frames_max && !ends) {
            flags = HT_SITE_CUT;
            break;
        }
    }
    walk->flags = flags;
    walk->frames = frames;
    walk->shared = shared;
    return true;
}

struct unwinding {
    struct stack_walk *walk;
    uintptr_t cfa, last_cfa;
    uintptr_t unknown_cfa;  // what is known does not lead beyond that frame
    unsigned frames_max;
    bool seeks_end, gap;  // of the stack, beyond the frames that are kept; are two frames far apart
    uint32_t sought;      // so many frames beyond
    bool interrupted;     // is one of the frames, by a signal
    bool known;           // the rest is
    bool broken;          // there is no rest, for the unwinder
    bool irregular;       // that may be otherwise another time
};

// For a return address into an object: the end of the frame that it leads to, as the register's number and the offset above.
// The tables of other code may come and go.
static struct site_map bases;
enum { BASE_OFFSET_SHIFT = 8 };
#define BASE_UNKNOWN (UINT64_C(1) << 63)
#define BASE_MISSING (UINT64_C(1) << 62)

static uint64_t find_base(uintptr_t address) {
    struct found_object object;
    uint64_t known = site_map_get(&bases, address);
    if (known) return known;
    struct frame_base base = frame_base(address);
    if (base.state == FRAME_BASE_MISSING) return BASE_MISSING;
    bool plain = base.state == FRAME_BASE_KNOWN && base.number && base.number < 1 << BASE_OFFSET_SHIFT &&
                 base.offset <= FRAME_BYTES_MAX;
    known = plain ? base.offset << BASE_OFFSET_SHIFT | base.number : BASE_UNKNOWN;
    if (!real.find_object((void *)(address - 1), &object)) site_map_put(&bases, address, known);
    return known;
}

// The end of the frame that has such a base; 0: that cannot be told.
static uintptr_t next_cfa(struct _Unwind_Context *context, uintptr_t cfa, uint64_t base) {
    enum { REGISTERS = 16, SAVED_BY_CALLEES = 1 << 3 | 1 << 6 | 1 << 12 | 1 << 13 | 1 << 14 | 1 << 15 };
    uint64_t number = base & ((1 << BASE_OFFSET_SHIFT) - 1), offset = base >> BASE_OFFSET_SHIFT;
    if (base == BASE_UNKNOWN) return 0;
    if (number == FRAME_STACK_POINTER) return cfa + offset;
    if (number >= REGISTERS || !(SAVED_BY_CALLEES >> number & 1)) return 0;
    return _Unwind_GetGR(context, (int)number) + offset;
}

// A coroutine's first function may return to anywhere, as it never does, and code that changes stacks may have tables that do
// not say so: the unwinder would read what is no memory, for the next return address, and the code there, if that has no table.
static bool can_go_on(struct _Unwind_Context *context, uintptr_t cfa, uint64_t base) {
    enum { CODE_BYTES = 16 };
    struct found_object object;
    uintptr_t next = next_cfa(context, cfa, base), page = settings.page_bytes;
    if (!next) return true;
    bool is_near = next > cfa && (next - 1) / page == (cfa - 1) / page;
    if (!is_near && !stack_is_own(next) && !sys_can_read(next - sizeof next)) return false;
    uintptr_t returns_to = address_before(next);
    return !returns_to || !real.find_object((void *)(returns_to - 1), &object) ||
           (sys_can_read(returns_to) && sys_can_read(returns_to + CODE_BYTES - sizeof next));
}

static _Unwind_Reason_Code go_on(struct unwinding *unwinding, struct _Unwind_Context *context, uintptr_t cfa,
                                 uintptr_t address) {
    uint64_t base = find_base(address);
    unwinding->irregular = base != BASE_MISSING && !can_go_on(context, cfa, base);
    unwinding->broken = base == BASE_MISSING || unwinding->irregular;
    return unwinding->broken ? _URC_END_OF_STACK : _URC_NO_REASON;
}

// Mostly one frame is new, and the unwinder takes a thousand instructions for each.
static bool rest_is_known(struct unwinding *unwinding, uintptr_t cfa, uintptr_t address) {
    if (cfa <= unwinding->unknown_cfa || !stack_is_own(cfa) || address_before(cfa) != address) return false;
    unwinding->known = walk_by_steps(unwinding->walk, cfa, unwinding->frames_max, &unwinding->unknown_cfa);
    return unwinding->known;
}

static _Unwind_Reason_Code take_frame(struct _Unwind_Context *context, void *argument) {
    struct unwinding *unwinding = argument;
    struct stack_walk *walk = unwinding->walk;
    // A signal interrupts before the instruction at the address; a caller's address lies behind its call. Nothing was pushed
    // below such a frame, where the stack may end.
    int interrupted = 0;
    uintptr_t cfa = _Unwind_GetCFA(context), address = _Unwind_GetIPInfo(context, &interrupted);
    if (cfa != unwinding->cfa && !walk->frames) return _URC_NO_REASON;  // the shim's own
    if (!address) return _URC_NO_REASON;  // behind the first frame of the thread
    // A frame that is its own caller has no end. It lies 0 bytes above itself.
    unwinding->gap |= walk->frames && cfa - unwinding->last_cfa - 1 >= FRAME_BYTES_MAX;
    unwinding->last_cfa = cfa;
    unwinding->interrupted |= interrupted;
    if (walk->frames < unwinding->frames_max) {
        if (!interrupted && rest_is_known(unwinding, cfa, address)) return _URC_END_OF_STACK;
        walk->frame[walk->frames++] = (struct stack_frame){address + (interrupted != 0), cfa};
        return go_on(unwinding, context, cfa, address + (interrupted != 0));
    }
    walk->flags = HT_SITE_CUT;
    unwinding->sought++;
    bool goes_on = unwinding->seeks_end && !unwinding->gap && cfa < own_stack.end - own_stack.bytes;
    return goes_on ? go_on(unwinding, context, cfa, address + (interrupted != 0)) : _URC_END_OF_STACK;
}

// Do the frames lead without a gap to the end of this thread's stack, or to what is known of it? Then that is known to begin
// below them, as far as all of it can be read: a stack of the program's making may lie right below, behind a page that must
// not be touched, and the words that distinguish another thread's stacks may lie there.
static void extend_own_stack(const struct unwinding *unwinding) {
    uintptr_t first = unwinding->cfa, last = unwinding->last_cfa, end = own_stack.end;
    if (unwinding->gap || first >= end || last >= end || last < first) return;
    uintptr_t page = settings.page_bytes, start = end - own_stack.bytes,
              lowest = first > BELOW_BYTES ? first - BELOW_BYTES : 0;
    if (last < start && end - last > THREAD_BYTES_MAX) return;
    for (uintptr_t at = (start - 1) & ~(page - 1); start > lowest && sys_can_read(at); at -= page) start = at;
    if (start <= first && end - start <= OWN_STACK_BYTES_MAX) own_stack.bytes = end - start;
}

// A coroutine's stack does not lead to this thread's, however far it is followed: after each time that one was in vain, so many
// walks of the thread do without that following them costs each as much as a few frames do.
static __thread uint32_t walks_without __attribute__((tls_model("initial-exec")));
enum { SOUGHT_OF_ONE = 8 };

static bool is_to_seek_end(uintptr_t cfa) {
    if (stack_is_own(cfa) || cfa >= own_stack.end) return false;
    if (!walks_without) return true;
    walks_without--;
    return false;
}

// Walks by libgcc. If that finds nothing, the caller alone is known.
static void unwind(struct stack_walk *walk, uintptr_t cfa, uintptr_t unknown_cfa, unsigned frames_max) {
    uintptr_t caller = address_before(cfa);
    struct unwinding unwinding = {.walk = walk,
                                  .cfa = cfa,
                                  .last_cfa = cfa,
                                  .unknown_cfa = unknown_cfa,
                                  .frames_max = frames_max,
                                  .seeks_end = is_to_seek_end(cfa)};
    struct found_object object;
    walk->flags = walk->frames = walk->shared = 0;
    walk->unwound = may_unwind;
    if (may_unwind) _Unwind_Backtrace(take_frame, &unwinding);
    walk->regular = !unwinding.interrupted && !unwinding.irregular;
    if (!walk->frames || walk->frame[0].address != caller) {
        walk->frame[0] = (struct stack_frame){caller, cfa};
        walk->frames = 1;
        walk->flags = HT_SITE_BROKEN;
        walk->unwound = false;
        return;
    }
    if (unwinding.seeks_end) extend_own_stack(&unwinding);
    if (unwinding.seeks_end && !stack_is_own(cfa)) walks_without = unwinding.sought / SOUGHT_OF_ONE;
    const struct stack_frame *last = &walk->frame[walk->frames - 1];
    bool is_whole = unwinding.known || walk->flags & HT_SITE_CUT;
    if (!is_whole && (unwinding.broken || real.find_object((void *)last->address, &object)))
        walk->flags |= HT_SITE_BROKEN;
}

static bool lies_as_found(const struct stack_walk *walk) {
    if (!stack_is_own(walk->frame[0].cfa)) return false;
    uintptr_t first = walk->frame[0].cfa;
    for (uint32_t i = 0; i < walk->frames; i++) {
        uintptr_t at = walk->frame[i].cfa;
        if (at > own_stack.end || (at - first) % 8 || (i && at <= walk->frame[i - 1].cfa) ||
            address_before(at) != walk->frame[i].address)
            return false;
    }
    return true;
}

void stack_walk(struct stack_walk *walk, uintptr_t cfa, unsigned frames_max) {
    static uint32_t walks;
    uintptr_t unknown_cfa = cfa, caller = address_before(cfa);
    may_unwind = !unwinder_is_lost && !stack_walk_is_unwinders(caller);
    walk->number = walks++;
    walk->unwound = false;
    walk->regular = true;
    walk->flags = walk->frames = walk->shared = 0;
    last_walk.first_there = find_first_there(cfa);
    if (!stack_is_own(cfa) || !walk_by_steps(walk, cfa, frames_max, &unknown_cfa)) {
        unwind(walk, cfa, unknown_cfa, frames_max);
        walk->regular = walk->regular && lies_as_found(walk);
    }
    remember_walk(walk);
}

// False: from there on it is not the same each time, or cannot be remembered.
static bool learn_step(uintptr_t address, uint64_t step) {
    uint64_t known = site_map_get(&steps, address);
    if (known == step) return true;
    bool is_kept = site_map_put(&steps, address, known ? STEP_VARIES : step);
    return is_kept && !known;
}

void stack_walk_learn(const struct stack_walk *walk, unsigned frames_max) {
    if (!walk->unwound || !walk->regular) return;
    last_walk.first_steady = 0;
    for (uint32_t i = 0; i < walk->frames; i++) {
        uint64_t step = STEP_ENDS | (walk->flags & HT_SITE_BROKEN ? STEP_BROKEN : 0);
        if (i + 1 < walk->frames) step = (walk->frame[i + 1].cfa - walk->frame[i].cfa) / 8;
        else if (walk->frames == frames_max) return;
        if (walk->frame[i].address && !learn_step(walk->frame[i].address, step))
            last_walk.first_steady = i + 1;
    }
}

void stack_walk_forget(bool (*gone)(uint64_t address, uint64_t value)) {
    site_map_sweep(&steps, gone);
    site_map_sweep(&bases, gone);
    last_walk.frames = 0;
}

#else
bool stack_walk_start(void) { return false; }
bool stack_walk_is_unwinders(uintptr_t address) { return !address; }
void stack_walk_unwinder_is_lost(void) {}
void stack_walk_new_thread(void) {}
void stack_walk(struct stack_walk *walk, uintptr_t cfa, unsigned frames_max) {
    (void)cfa;
    (void)frames_max;
    walk->frames = 0;
}
void stack_walk_learn(const struct stack_walk *walk, unsigned frames_max) {
    (void)walk;
    (void)frames_max;
}
void stack_walk_forget(bool (*gone)(uint64_t address, uint64_t value)) { (void)gone; }
#endif
