// SPDX-License-Identifier: Apache-2.0
// An allocator to preload that brings operator new and delete only in their plain forms: the others come from
// libstdc++, which builds them on malloc and aligned_alloc. It never gives memory back.
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <new>

namespace {
constexpr size_t ARENA_BYTES = 1 << 30, SIZE_BYTES = sizeof(size_t);

char arena[ARENA_BYTES];
std::atomic<size_t> used;

void *take(size_t size, size_t alignment) {
    if (alignment < 16) alignment = 16;
    size_t need = size + alignment + 16;
    if (need < size || need > ARENA_BYTES) return nullptr;
    size_t start = used.fetch_add((need + 15) & ~size_t{15});
    if (start > ARENA_BYTES - need) return nullptr;
    uintptr_t block =
        (reinterpret_cast<uintptr_t>(arena) + start + 16 + alignment - 1) / alignment * alignment;
    memcpy(reinterpret_cast<char *>(block) - SIZE_BYTES, &size, SIZE_BYTES);
    return reinterpret_cast<void *>(block);
}

void *or_enomem(void *block) {
    if (!block) errno = ENOMEM;
    return block;
}
}  // namespace

extern "C" {
void *malloc(size_t size) { return or_enomem(take(size, 16)); }
void free(void *) {}
void *calloc(size_t count, size_t size) {
    size_t bytes;
    return or_enomem(__builtin_mul_overflow(count, size, &bytes) ? nullptr : take(bytes, 16));
}
void *realloc(void *block, size_t size) {
    size_t old = 0;
    void *moved = or_enomem(take(size, 16));
    if (block) memcpy(&old, static_cast<char *>(block) - SIZE_BYTES, SIZE_BYTES);
    return moved && block ? memcpy(moved, block, old < size ? old : size) : moved;
}
void *memalign(size_t alignment, size_t size) { return or_enomem(take(size, alignment)); }
void *aligned_alloc(size_t alignment, size_t size) { return or_enomem(take(size, alignment)); }
void *valloc(size_t size) { return or_enomem(take(size, 4096)); }
int posix_memalign(void **result, size_t alignment, size_t size) {
    void *block = take(size, alignment);
    if (block) *result = block;
    return block ? 0 : ENOMEM;
}
}

void *operator new(size_t size) {
    if (void *block = take(size, 16)) return block;
    throw std::bad_alloc();
}
void operator delete(void *) noexcept {}
