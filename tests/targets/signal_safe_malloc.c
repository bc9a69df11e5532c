// An allocator that a signal handler may call at any instant: one atomic addition per block, nothing
// is ever reused. The program signal_malloc is linked with it, so that its handler is legal C.
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { HEADER = 16 };
static const size_t arena_bytes = (size_t)4 << 30;
static char *_Atomic arena;
static _Atomic size_t arena_used;

static char *arena_start(void) {
    char *start = arena, *nothing = NULL;
    if (start) return start;
    start = mmap(NULL, arena_bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) return NULL;
    if (!__atomic_compare_exchange_n(&arena, &nothing, start, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
        munmap(start, arena_bytes);
        return nothing;
    }
    return start;
}

void *memalign(size_t alignment, size_t size) {
    char *start = arena_start();
    if (alignment < HEADER) alignment = HEADER;
    size_t taken = HEADER + alignment + ((size + 15) & ~(size_t)15);
    if (!start || size > arena_bytes / 2) return errno = ENOMEM, NULL;
    size_t offset = __atomic_fetch_add(&arena_used, taken, __ATOMIC_RELAXED);
    if (offset + taken > arena_bytes) return errno = ENOMEM, NULL;
    uintptr_t block = ((uintptr_t)start + offset + HEADER + alignment - 1) & ~(alignment - 1);
    ((size_t *)block)[-1] = size;
    return (void *)block;
}

void *malloc(size_t size) { return memalign(HEADER, size); }
void free(void *block) { (void)block; }
void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

void *calloc(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) return errno = ENOMEM, NULL;
    return memalign(HEADER, bytes);  // fresh from mmap, so zero
}

void *realloc(void *old, size_t size) {
    void *block = memalign(HEADER, size);
    if (!old || !block) return block;
    size_t kept = ((size_t *)old)[-1];
    return memcpy(block, old, kept < size ? kept : size);
}

int posix_memalign(void **result, size_t alignment, size_t size) {
    void *block = memalign(alignment, size);
    if (!block) return ENOMEM;
    *result = block;
    return 0;
}
