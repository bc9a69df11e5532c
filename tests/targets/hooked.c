// SPDX-License-Identifier: Apache-2.0
// A program with an allocator of its own under jemalloc's names, whose functions begin in all ways that a recorder may meet
// when it hooks them. Built with one of the SPOILED_ definitions, one function cannot be hooked.
//
// hooked lines OUT [CALLS]: random calls, printed as `heaptape dump --no-time` shows them.
// hooked threads|fork|kill COUNTS: calls of tallied sizes.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "own_functions_target.h"

enum { ROOM_BYTES = 32, FLAG_ZERO = 0x40, FLAG_ALIGNMENT = 0x3f };

void *je_malloc(size_t size);
void *je_calloc(size_t count, size_t size);
void *je_realloc(void *block, size_t size);
void je_free(void *block);
int je_posix_memalign(void **block, size_t alignment, size_t size);
void *je_aligned_alloc(size_t alignment, size_t size);
void *je_mallocx(size_t size, int flags);
void *je_rallocx(void *block, size_t size, int flags);
size_t je_xallocx(void *block, size_t size, size_t extra, int flags);
void je_dallocx(void *block, int flags);
void je_sdallocx(void *block, size_t size, int flags);
size_t je_sallocx(const void *block, int flags);
void *jemalloc_malloc(size_t size);

// ---- the allocator: libc's blocks, with what lies before them and their size ----

static void *take(size_t size, size_t alignment) {
    if (alignment < ROOM_BYTES) alignment = ROOM_BYTES;
    if (size > SIZE_MAX / 2) return NULL;
    char *start = malloc(size + 2 * alignment);
    if (!start) return NULL;
    uintptr_t block = ((uintptr_t)start + 2 * alignment - 1) / alignment * alignment;
    const uintptr_t kept[2] = {(uintptr_t)start, size};
    memcpy((char *)block - sizeof kept, kept, sizeof kept);
    return (void *)block;
}

static size_t size_of(const void *block) {
    size_t size;
    memcpy(&size, (const char *)block - sizeof size, sizeof size);
    return size;
}

static void give(void *block) {
    char *start;
    if (!block) return;
    memcpy(&start, (char *)block - 2 * sizeof start, sizeof start);
    free(start);
}

// What the functions below do, behind their odd beginnings.
#define BODY __attribute__((used, noinline))
BODY void *malloc_body(size_t size) { return take(size, 0); }

// Calls a function that is hooked, too.
BODY void *calloc_body(size_t count, size_t size) {
    void *block = je_malloc(count * size);
    return block ? memset(block, 0, count * size) : NULL;
}

BODY void *realloc_body(void *block, size_t size) {
    if (block && !size) {
        je_free(block);
        return NULL;
    }
    void *moved = je_malloc(size);
    if (!moved) errno = ENOMEM;
    if (moved && block) memcpy(moved, block, size_of(block) < size ? size_of(block) : size);
    if (moved) give(block);
    return moved;
}

BODY void free_body(void *block) { give(block); }
BODY void *aligned_body(size_t alignment, size_t size) { return take(size, alignment); }

BODY int posix_memalign_body(void **block, size_t alignment, size_t size) {
    *block = take(size, alignment);
    return *block ? 0 : ENOMEM;
}

BODY void *mallocx_body(size_t size, int flags) {
    void *block = take(size, flags & FLAG_ALIGNMENT ? (size_t)1 << (flags & FLAG_ALIGNMENT) : 0);
    return block && flags & FLAG_ZERO ? memset(block, 0, size) : block;
}

void *(*const mallocx_pointer)(size_t, int) = mallocx_body;
__attribute__((used)) volatile int planted = 4;

__attribute__((noinline)) void *je_rallocx(void *block, size_t size, int flags) {
    (void)flags;
    return realloc_body(block, size);
}

// Blocks shrink where they are, and do not grow. As in any allocator there is a call of something that the compiler does not
// know: without it callers may rely on registers, and the function is not hooked.
__attribute__((noinline)) size_t je_xallocx(void *block, size_t size, size_t extra, int flags) {
    (void)extra, (void)flags;
    if (!block) abort();
    if (size <= size_of(block)) memcpy((char *)block - sizeof size, &size, sizeof size);
    return size_of(block);
}

__attribute__((noinline)) void je_sdallocx(void *block, size_t size, int flags) {
    (void)size, (void)flags;
    give(block);
}

// A question may be too short: nobody needs it.
__asm__(".text\n.p2align 4\n.globl je_sallocx\n.type je_sallocx, @function\n"
        "je_sallocx: mov -8(%rdi), %rax\nret\n.size je_sallocx, . - je_sallocx\n.p2align 4\n");

#define FUNCTION(name, code)                                                                                 \
    __asm__(".text\n.globl " name "\n.type " name ", @function\n" name ":\n" code "\n.size " name            \
            ", . - " name "\n.p2align 4\n");

// A mark for indirect calls that must stay first, then a load relative to itself.
FUNCTION("je_malloc", "endbr64\n movl planted(%rip), %eax\n jmp malloc_body")
// A second name.
__asm__(".globl jemalloc_malloc\n.set jemalloc_malloc, je_malloc\n");
// A short jump that has to become a long one.
FUNCTION("je_calloc", "test %rdi, %rdi\n je 1f\n nop\n 1: jmp calloc_body")
// A call, which must return here.
FUNCTION("je_realloc", "sub $8, %rsp\n call realloc_body\n add $8, %rsp\n ret")
// The same by a pointer.
FUNCTION("je_mallocx", "push %rbx\n call *mallocx_pointer(%rip)\n pop %rbx\n ret")
// Nothing but five bytes.
FUNCTION("je_aligned_alloc", ".byte 0xe9\n .long aligned_body - . - 4")
// Two bytes of a jump to another function that is hooked.
FUNCTION("je_dallocx", "jmp je_free_near")

#define SOUND_FREE "push %rbx\n push %rbp\n mov %rdi, %rbx\n pop %rbp\n pop %rbx\n jmp free_body"
#if defined SPOILED_SHORT  // two bytes, to what has no name that is known
FUNCTION("je_free", "je_free_near: jmp far_free")
FUNCTION("far_free", SOUND_FREE)
#elif defined SPOILED_LOOP
FUNCTION("je_free", "je_free_near: xor %eax, %eax\n 1: inc %eax\n cmp $4, %eax\n jb 1b\n jmp free_body")
#elif defined SPOILED_ENTRY
FUNCTION("je_free", "je_free_near: nop\n enter_here: " SOUND_FREE)
FUNCTION("enters_behind", ".byte 0xe9\n .long enter_here - . - 4")
#elif defined SPOILED_MOVE
FUNCTION("je_free", "je_free_near: mov %rdi, %rcx\n jrcxz 1f\n " SOUND_FREE "\n 1: ret")
#else
FUNCTION("je_free", "je_free_near: " SOUND_FREE)
#endif

// Across two pages, away from all others, with a number behind the address that is relative to the instruction's end.
__asm__(".section .text.far, \"ax\", @progbits\n.p2align 12\n.skip 8192 + 4093, 0xcc\n"
        ".globl je_posix_memalign\n.type je_posix_memalign, @function\nje_posix_memalign:\n"
        "cmpl $5, planted(%rip)\n jg 1f\n jmp posix_memalign_body\n 1: ud2\n"
        ".size je_posix_memalign, . - je_posix_memalign\n.previous\n");

// ---- lines ----

static void allocate(struct object *object) {
    size_t size = random_size(), alignment = random_alignment();
    void *block = NULL;
    switch (below(7)) {
    case 0:
        writer_print(&out, "malloc(%zu)", size);
        born(object, je_malloc(size), size, 0);
        break;
    case 1:
        writer_print(&out, "malloc(%zu)", size);
        born(object, jemalloc_malloc(size), size, 0);
        break;
    case 2:
        writer_print(&out, "calloc(3, %zu)", size);
        block = je_calloc(3, size);
        must_be_zero(block, 3 * size);
        born(object, block, 3 * size, 0);
        break;
    case 3:
        writer_print(&out, "aligned_alloc(%zu, %zu)", alignment, size);
        born(object, je_aligned_alloc(alignment, size), size, alignment);
        break;
    case 4:
        writer_print(&out, "posix_memalign(%zu, %zu)", alignment, size);
        if (je_posix_memalign(&block, alignment, size)) target_fail("posix_memalign failed");
        born(object, block, size, alignment);
        break;
    case 5:
        writer_print(&out, "calloc(1, %zu)", size);
        block = je_mallocx(size, FLAG_ZERO);
        must_be_zero(block, size);
        born(object, block, size, 0);
        break;
    default:
        writer_print(&out, "aligned_alloc(%zu, %zu)", alignment, size);
        born(object, je_mallocx(size, __builtin_ctzl(alignment)), size, alignment);
    }
}

static void change(struct object *object) {
    size_t size = random_size();
    check(object, object->size);
    if (below(3) == 0) {
        expanded(object, "realloc", je_xallocx(object->block, size, 0, 0) >= size, size);
        return;
    }
    writer_print(&out, "realloc(#%lu, %zu)", object->birth, size);
    object->alignment = 0;
    resized(object, below(2) ? je_realloc(object->block, size) : je_rallocx(object->block, size, 0), size);
}

static void release(struct object *object) {
    check(object, object->size);
    switch (below(3)) {
    case 0:
        writer_print(&out, "free_sized(#%lu, %zu)\n", object->birth, object->size);
        je_sdallocx(object->block, object->size, 0);
        break;
    case 1:
        writer_print(&out, "free(#%lu)\n", object->birth);
        je_dallocx(object->block, 0);
        break;
    default: writer_print(&out, "free(#%lu)\n", object->birth); je_free(object->block);
    }
    object->block = NULL;
}

static void rare_calls(void) {
    if (je_malloc(SIZE_MAX)) target_fail("a call that cannot succeed did");
    writer_print(&out, "malloc(%zu) = NULL (failed)\n", SIZE_MAX);
    je_free(NULL);
    writer_print(&out, "free(NULL)\n");
    struct object object;
    writer_print(&out, "realloc(NULL, 77)");
    born(&object, je_realloc(NULL, 77), 77, 0);
    errno = 35;
    if (je_realloc(object.block, SIZE_MAX) || errno != ENOMEM)
        target_fail("a realloc that cannot succeed did");
    writer_print(&out, "realloc(?, %zu) = NULL (failed)\n", SIZE_MAX);
    errno = 35;
    if (je_realloc(object.block, 0) || errno != 35) target_fail("errno changed");
    writer_print(&out, "realloc(#%lu, 0) = NULL (released)\n", object.birth);
}

static void lines(const char *path, unsigned long calls) {
    print_calls(path, calls, &(struct turns){allocate, change, release}, rare_calls);
}

// ---- situations ----

static void *work(void *times) {
    for (long i = 0; i < (long)times; i++) {
        void *block = je_realloc(je_calloc(1, 7801), 7900);
        tally_count(7801);
        je_free(block);
        je_dallocx(je_malloc(7802), 0);
        tally_count(7802);
    }
    return NULL;
}

static void in_threads(void) {
    pthread_t thread[8];
    for (int i = 0; i < 8; i++)
        if (pthread_create(&thread[i], NULL, work, (void *)2000)) target_fail("no thread");
    for (int i = 0; i < 8; i++) pthread_join(thread[i], NULL);
}

static void in_children(void) {
    void *inherited = je_malloc(7803);
    tally_count(7803);
    for (int i = 0; i < 4; i++) {
        pid_t child = fork();
        if (child == 0) {
            je_free(inherited);
            work((void *)500);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    je_free(inherited);
}

int main(int argc, char **argv) {
    if (argc < 3) target_fail("usage: hooked MODE FILE [CALLS]");
    if (!strcmp(argv[1], "lines")) {
        lines(argv[2], argc > 3 ? strtoul(argv[3], NULL, 10) : 100000);
        return 52;
    }
    tally_open(argv[2]);
    if (!strcmp(argv[1], "threads")) in_threads();
    else if (!strcmp(argv[1], "fork")) in_children();
    else target_fail("unknown mode");
    work((void *)1000);
    if (argc > 3) kill(getpid(), SIGKILL);
    return 52;
}
