// SPDX-License-Identifier: Apache-2.0
// An allocator, to be preloaded, of powers of two in shared lists under one lock, and of mappings for what is larger. WRONG_MALLOC
// names the one thing that is wrong with it; without, nothing is.
//
//     edge             a block of 4,097 bytes and the like has the room of one byte less
//     usable_page      malloc_usable_size of a mapping tells a page more than there is
//     memalign_64k     larger alignments than 64 KiB are 64 KiB
//     valloc           valloc aligns to 16 bytes
//     calloc_kept      a mapping that was kept for the next call is not cleared by calloc
//     product_32       calloc multiplies in 32 bits
//     size_32          malloc takes sizes for 32 bits
//     realloc_aligned  realloc of an aligned block copies from where its room begins
//     realloc_failed   realloc that finds no memory has freed the block
//     count_16         a block beyond the 65,536th live one is the first again
//     lead             free of an aligned mapping leaves what lies before the block
//     one_in_16        every 16th free of a small block is lost
//     foreign          frees by other threads than the one that made the block are lost
//     ended            the memory of a thread that has ended is given to others, with what is live in it
//     race_kept        the kept mappings are taken without the lock
//     race_realloc     realloc moves a block without the lock
//     shared           the heap is in shared mappings: a child of fork writes into its parent's
//     no_memory        where the kernel has none, the next call ends in a segmentation fault
//     deadlock         realloc of a mapping holds the lock when it calls malloc
//     circle           free of a block of 3,000 to 4,000 bytes never ends
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { CLASSES = 16, LARGE = 32768, KEPT = 8, PAGE = 4096, CHUNK = 1 << 20 };

struct header {            // before each block
    size_t room;           // bytes behind it
    uint32_t class, lead;  // class: CLASSES of a mapping; lead: from where its room begins to the block
    const void *maker;
    void *start;
};
_Static_assert(sizeof(struct header) == 32, "blocks stay aligned");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct header *lists[CLASSES], *kept[KEPT];
static char *chunk, *chunk_end;
static unsigned long frees, live;
static struct header *first_block;
static __thread char me;

static bool wrong(const char *name) {
    static const char *wanted;
    if (!wanted) wanted = getenv("WRONG_MALLOC") ? getenv("WRONG_MALLOC") : "";
    return !strcmp(wanted, name);
}

static void take_lock(bool really) {
    if (really) pthread_mutex_lock(&lock);
}

static void give_lock(bool really) {
    if (really) pthread_mutex_unlock(&lock);
}

static void *map(size_t bytes) {
    int how = wrong("shared") ? MAP_SHARED : MAP_PRIVATE;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, how | MAP_ANONYMOUS, -1, 0);
    if (at != MAP_FAILED) return at;
    if (wrong("no_memory")) return (void *)16;
    errno = ENOMEM;
    return NULL;
}

static struct header *make_mapping(size_t bytes, bool *dirty) {
    struct header *found = NULL;
    bool locked = !wrong("race_kept");
    take_lock(locked);
    for (int i = 0; i < KEPT && !found; i++) {
        if (!kept[i] || kept[i]->room < bytes || kept[i]->room > 2 * bytes) continue;
        found = kept[i];
        kept[i] = NULL;
    }
    give_lock(locked);
    *dirty = found;
    if (found) return found;
    size_t whole = (bytes + sizeof *found + PAGE - 1) / PAGE * PAGE;
    found = map(whole);
    if (found) *found = (struct header){.room = whole - sizeof *found, .class = CLASSES};
    return found;
}

static void end_mapping(struct header *block) {
    bool locked = !wrong("race_kept");
    take_lock(locked);
    for (int i = 0; i < KEPT && block; i++) {
        if (kept[i]) continue;
        kept[i] = block;
        block = NULL;
    }
    give_lock(locked);
    if (block) munmap(block, block->room + sizeof *block);
}

static struct header *make_small(size_t bytes) {
    unsigned class = bytes <= 16 ? 0 : 60 - (unsigned)__builtin_clzl(bytes - 1);
    if (wrong("edge") && bytes > 1000 && ((bytes - 1) & (bytes - 2)) == 0) class --;
    take_lock(true);
    struct header *block = lists[class];
    size_t whole = ((size_t)16 << class) + sizeof *block;
    if (wrong("count_16") && ++live > 65536) block = first_block;
    else if (block) lists[class] = block->start;
    else if ((size_t)(chunk_end - chunk) >= whole ||
             ((chunk = map(CHUNK)), (chunk_end = chunk ? chunk + CHUNK : NULL), chunk)) {
        block = (struct header *)chunk;
        chunk += whole;
    }
    if (block) *block = (struct header){.room = whole - sizeof *block, .class = class};
    if (!first_block) first_block = block;
    give_lock(true);
    if (!block) errno = ENOMEM;
    return block;
}

static void *make(size_t bytes, bool *dirty) {
    *dirty = true;
    if (bytes > PTRDIFF_MAX) {
        errno = ENOMEM;
        return NULL;
    }
    if (wrong("size_32")) bytes = (uint32_t)bytes;
    struct header *block = bytes > LARGE ? make_mapping(bytes, dirty) : make_small(bytes);
    if (!block) return NULL;
    block->start = block + 1;
    block->maker = &me;
    return block + 1;
}

// What a thread leaves when it ends.
static pthread_key_t key;
static bool has_key;
static __thread struct header *mine[64];

static void forget_mine(void *list) {
    struct header **blocks = list;
    for (int i = 0; i < 64; i++)
        if (blocks[i]) free(blocks[i] + 1);
}

static void note_mine(struct header *block, bool made) {
    static bool main_known;
    static const void *main_thread;
    if (!main_known) main_thread = &me, main_known = true;
    if (!wrong("ended") || &me == main_thread || block->room < 1000 || block->room > 4096) return;
    for (int i = 0; i < 64; i++) {
        if (mine[i] != (made ? NULL : block)) continue;
        mine[i] = made ? block : NULL;
        break;
    }
    if (has_key) pthread_setspecific(key, mine);
}

__attribute__((constructor)) static void make_key(void) {
    has_key = wrong("ended") && !pthread_key_create(&key, forget_mine);
}

static void *allocate(size_t bytes) {
    bool dirty;
    void *block = make(bytes, &dirty);
    if (block) note_mine((struct header *)block - 1, true);
    return block;
}

void *malloc(size_t bytes) { return allocate(bytes); }

void free(void *at) {
    if (!at) return;
    struct header *block = (struct header *)at - 1;
    note_mine(block, false);
    if (block->lead) {
        struct header *whole = (struct header *)block->start - 1;
        if (wrong("lead") && whole->class == CLASSES) {
            uintptr_t from = ((uintptr_t)block + PAGE - 1) / PAGE * PAGE;
            munmap((void *)from, (uintptr_t)(whole + 1) + whole->room - from);
            return;
        }
        block = whole;
    }
    if (wrong("foreign") && block->maker != &me) return;
    if (wrong("circle") && block->room == 4096 && *(char *)(block + 1) == 0x55)
        for (volatile bool on = true; on;) {
        }
    if (block->class == CLASSES) {
        end_mapping(block);
        return;
    }
    take_lock(true);
    if (live) live--;
    if (!wrong("one_in_16") || ++frees % 16) {
        block->start = lists[block->class];
        lists[block->class] = block;
    }
    give_lock(true);
}

size_t malloc_usable_size(void *at) {
    if (!at) return 0;
    const struct header *block = (struct header *)at - 1;
    return block->room + (wrong("usable_page") && block->class == CLASSES ? PAGE : 0);
}

void *calloc(size_t count, size_t size) {
    bool dirty;
    size_t bytes = wrong("product_32") ? (uint32_t)count * (uint32_t)size : 0;
    if (!wrong("product_32") && __builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    void *block = make(bytes, &dirty);
    if (wrong("calloc_kept") && bytes > LARGE) dirty = false;
    return block && dirty ? memset(block, 0, bytes) : block;
}

void *realloc(void *at, size_t bytes) {
    if (!at) return allocate(bytes);
    if (!bytes) return free(at), NULL;
    struct header *block = (struct header *)at - 1;
    size_t had = block->room;
    if (bytes <= had && bytes >= had / 2) return at;
    if (wrong("realloc_failed") && bytes > PTRDIFF_MAX) free(at);
    bool holds = wrong("deadlock") && block->class == CLASSES && bytes < had;
    take_lock(holds);
    void *moved = allocate(bytes);
    give_lock(holds);
    if (!moved) return NULL;
    memcpy(moved, wrong("realloc_aligned") && block->lead ? block->start : at, had < bytes ? had : bytes);
    if (wrong("race_realloc") && !block->lead && block->class < CLASSES) {
        struct header *next = lists[block->class];
        for (volatile int i = 0; i < 20; i++) {
        }
        block->start = next;
        lists[block->class] = block;
        return moved;
    }
    free(at);
    return moved;
}

void *memalign(size_t alignment, size_t bytes) {
    if (wrong("memalign_64k") && alignment > 65536) alignment = 65536;
    if (alignment <= 16 || bytes > PTRDIFF_MAX) return allocate(bytes);
    char *whole = allocate(bytes + alignment + sizeof(struct header));
    if (!whole) return NULL;
    char *at = (char *)(((uintptr_t)whole + sizeof(struct header) + alignment - 1) & -alignment);
    struct header *outer = (struct header *)whole - 1, *inner = (struct header *)at - 1;
    *inner = (struct header){.room = outer->room - (size_t)(at - whole),
                             .class = outer->class,
                             .lead = (uint32_t)(at - whole),
                             .start = whole,
                             .maker = outer->maker};
    return at;
}

void *aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
void *valloc(size_t bytes) { return memalign(wrong("valloc") ? 16 : PAGE, bytes); }
void *pvalloc(size_t bytes) {
    return bytes > PTRDIFF_MAX ? allocate(bytes) : valloc((bytes + PAGE - 1) / PAGE * PAGE);
}

int posix_memalign(void **block, size_t alignment, size_t bytes) {
    if (alignment < sizeof(void *) || alignment & (alignment - 1)) return EINVAL;
    void *made = memalign(alignment, bytes);
    if (made) *block = made;
    return made ? 0 : ENOMEM;
}
