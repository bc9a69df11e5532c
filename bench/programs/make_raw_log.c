// SPDX-License-Identifier: Apache-2.0
// Writes a raw log of any length, as the shim would: a long recording without the long wait.
// make_raw_log LOG EVENTS [THREADS [EVENTS_PER_S [SEED]]]
//
// Each thread has a table of blocks. A step takes an entry, from the few hot ones most often, and allocates
// where it is empty and frees where it is not, so that lifetimes go from a few calls to the whole length.
// Sizes, the reuse of addresses and reallocs are like those of real programs; some blocks are freed by
// another thread. EVENTS_PER_S of 0: as fast as it goes.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "grow.h"
#include "random_numbers.h"
#include "raw_append.h"
#include "raw_state.h"

enum {
    THREADS_MAX = 64,
    TABLE = 1 << 14,  // entries a thread
    CLASSES = 128,
    CHUNK_BYTES_FIRST = 4096,
    CHUNK_BYTES_LAST = 256 << 10,
    DOUBLINGS = 6,
    PACE_EVENTS = 2000
};
static const uint64_t RESERVE_BYTES = UINT64_C(256) << 30;

struct free_list {
    uint64_t *address;
    size_t count, room;
};

struct block {
    uint64_t address;
    uint32_t size;
};

struct thread {
    struct ht_cursor cursor;
    struct ht_raw_chunk *chunk;
    uint8_t *limit;
    uint64_t calls;
    uint64_t fresh;  // addresses that have never been used
    struct free_list list[CLASSES];
    struct block block[TABLE];
};

struct generator {
    uint8_t *mapping;
    struct ht_raw_header *header;
    struct ht_raw_log clock;  // for log_clock_now and log_clock_pair
    struct thread *thread;
    unsigned threads;
    struct ht_random random;
    uint64_t live_bytes, live_bytes_most;
};

static _Noreturn void die(const char *what) {
    perror(what);
    exit(1);
}

// ---- the log ----

static void open_log(struct generator *g, const char *path) {
    unlink(path);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)RESERVE_BYTES)) die(path);
    g->mapping = mmap(NULL, RESERVE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (g->mapping == MAP_FAILED) die("mmap");
    close(fd);
    madvise(g->mapping, RESERVE_BYTES, MADV_RANDOM);
    g->header = (struct ht_raw_header *)(void *)g->mapping;
#if defined(__x86_64__)
    const uint32_t kind = HT_CLOCK_TSC, shift = 4;
#elif defined(__aarch64__)
    const uint32_t kind = HT_CLOCK_CNTVCT, shift = 0;
#else
    const uint32_t kind = HT_CLOCK_GETTIME, shift = 2;
#endif
    *g->header = (struct ht_raw_header){.version = HT_RAW_VERSION,
                                        .min_reader = HT_RAW_MIN_READER,
                                        .header_bytes = HT_RAW_HEADER_BYTES,
                                        .page_bytes = 4096,
                                        .pid = (uint32_t)getpid(),
                                        .clock_kind = kind,
                                        .clock_shift = shift,
                                        .chunks_end = HT_RAW_HEADER_BYTES,
                                        .reserve_bytes = RESERVE_BYTES,
                                        .state = HT_RAW_RECORDING};
    g->clock.header = *g->header;
    g->header->first_pair = log_clock_pair(&g->clock);
    memcpy(g->header->magic, HT_RAW_MAGIC, sizeof g->header->magic);
}

static void close_log(struct generator *g, const char *path) {
    g->header->last_pair[0] = log_clock_pair(&g->clock);
    g->header->state = HT_RAW_EXITED;
    uint64_t end = g->header->chunks_end;
    munmap(g->mapping, RESERVE_BYTES);
    if (truncate(path, (off_t)end)) die(path);
}

static void next_chunk(struct generator *g, struct thread *t) {
    struct ht_raw_chunk *old = t->chunk;
    uint32_t index = old ? old->index + 1 : 0;
    uint64_t bytes = index < DOUBLINGS ? (uint64_t)CHUNK_BYTES_FIRST << index : CHUNK_BYTES_LAST;
    uint64_t offset = __atomic_fetch_add(&g->header->chunks_end, bytes, __ATOMIC_SEQ_CST);
    if (offset + bytes > RESERVE_BYTES) die("the log's reservation is full");
    struct ht_raw_chunk *chunk = (struct ht_raw_chunk *)(void *)(g->mapping + offset);
    if (madvise(chunk, bytes, MADV_POPULATE_WRITE)) die("madvise");
    *chunk = (struct ht_raw_chunk){.stream = old ? old->stream : g->header->streams++,
                                   .tid = g->header->pid + (uint32_t)(t - g->thread),
                                   .index = index,
                                   .bytes = bytes,
                                   .base_stamp = t->cursor.last_stamp,
                                   .base_address = t->cursor.last_address,
                                   .calls_before = t->calls};
    if (old) old->used = (uint32_t)(t->cursor.at - (uint8_t *)old);
    __atomic_store_n(&chunk->magic, HT_CHUNK_MAGIC, __ATOMIC_RELEASE);
    t->chunk = chunk;
    t->cursor.at = (uint8_t *)(chunk + 1);
    t->limit = (uint8_t *)chunk + bytes - HT_APPEND_ROOM_BYTES;
    if (old) madvise(old, old->bytes, MADV_DONTNEED);
}

static struct ht_cursor *room(struct generator *g, struct thread *t) {
    if (t->cursor.at >= t->limit) next_chunk(g, t);
    return &t->cursor;
}

// ---- the program ----

// Mostly small, as in real programs: 16 to 128 bytes for nine of ten.
static uint32_t random_size(uint64_t random) {
    unsigned kind = random & 255;
    random >>= 8;
    if (kind < 200) return 8 + (uint32_t)(random % 8) * 16;
    if (kind < 250) return 16 + (uint32_t)(random % 1000);
    if (kind < 255) return 1024 + (uint32_t)(random % 15000);
    return 16384 + (uint32_t)(random % 40000);
}

static unsigned class_of(uint32_t size) { return size <= 1024 ? (size + 15) / 16 : 65 + (size - 1) / 4096; }
static uint64_t class_bytes(unsigned class) {
    return class <= 64 ? (uint64_t)class * 16 + 16 : (uint64_t)(class - 64) * 4096 + 16;
}

static uint64_t take_address(struct thread *t, uint32_t size) {
    struct free_list *list = &t->list[class_of(size)];
    if (list->count) return list->address[--list->count];
    uint64_t address = t->fresh;
    t->fresh += class_bytes(class_of(size));
    return address;
}

static void give_address(struct thread *t, const struct block *block) {
    struct free_list *list = &t->list[class_of(block->size)];
    if (!ht_grow(&list->address, &list->room, list->count + 1, sizeof *list->address)) die("realloc");
    list->address[list->count++] = block->address;
}

static void allocate(struct generator *g, struct thread *t, struct block *block, uint64_t random) {
    block->size = random_size(random);
    block->address = take_address(t, block->size);
    unsigned op = (random >> 40 & 15) == 0 ? HT_RAW_CALLOC : HT_RAW_MALLOC;
    ht_append_call(room(g, t), op, log_clock_now(&g->clock), block->address, block->size);
    g->live_bytes += block->size;
    if (g->live_bytes > g->live_bytes_most) g->live_bytes_most = g->live_bytes;
}

static void release(struct generator *g, struct thread *t, struct block *block) {
    ht_append_bare(room(g, t), HT_RAW_FREE, log_clock_now(&g->clock), block->address);
    give_address(t, block);
    g->live_bytes -= block->size;
    *block = (struct block){0};
}

static void resize(struct generator *g, struct thread *t, struct block *block) {
    uint32_t size = block->size * 2 < 50000 ? block->size * 2 : 50000;
    ht_append_call(room(g, t), HT_RAW_REALLOC_BEGIN, log_clock_now(&g->clock), block->address, size);
    give_address(t, block);
    g->live_bytes = g->live_bytes - block->size + size;
    *block = (struct block){take_address(t, size), size};
    ht_append_bare(room(g, t), HT_RAW_REALLOC_END, log_clock_now(&g->clock), block->address);
}

// One call of the thread.
static void step(struct generator *g, struct thread *t) {
    uint64_t random = ht_random_next(&g->random);
    unsigned region = random & 255;
    size_t entries = region < 224 ? 16 : region < 252 ? 1024 : TABLE;
    struct thread *owner = (random >> 8 & 63) == 0 ? &g->thread[(random >> 16) % g->threads] : t;
    struct block *block = &owner->block[(random >> 24) % entries];
    if (!block->address) allocate(g, t, block, ht_random_next(&g->random));
    else if ((random >> 14 & 31) == 0) resize(g, t, block);
    else release(g, t, block);
    t->calls++;
}

static void sample(struct generator *g, struct thread *t) {
    struct ht_clock_pair now = log_clock_pair(&g->clock);
    struct ht_clock_pair *pair = g->header->last_pair;
    pair[pair[0].stamp > pair[1].stamp] = now;
    uint64_t rss = g->live_bytes_most + (1 << 20);
    uint64_t word[5] = {log_clock_now(&g->clock), rss, 1 << 20, now.mono_ns - g->header->first_pair.mono_ns,
                        1};
    ht_append_long(room(g, t), HT_LONG_SAMPLE, word, 5);
}

static void sleep_until(struct generator *g, uint64_t mono_ns) {
    uint64_t now = log_clock_pair(&g->clock).mono_ns;
    if (now >= mono_ns) return;
    uint64_t wait = mono_ns - now;
    nanosleep(&(struct timespec){(time_t)(wait / 1000000000), (long)(wait % 1000000000)}, NULL);
}

int main(int argc, char **argv) {
    static struct generator g;
    if (argc < 3) {
        fputs("usage: make_raw_log LOG EVENTS [THREADS [EVENTS_PER_S [SEED]]]\n", stderr);
        return 2;
    }
    uint64_t events = strtoull(argv[2], NULL, 10);
    double per_s = argc > 4 ? strtod(argv[4], NULL) : 0;
    g.threads = argc > 3 ? (unsigned)atoi(argv[3]) : 4;
    g.random.state = argc > 5 ? strtoull(argv[5], NULL, 10) : 1;
    if (!events || g.threads < 1 || g.threads > THREADS_MAX) {
        fprintf(stderr, "make_raw_log: events, and 1 to %d threads expected\n", THREADS_MAX);
        return 2;
    }
    g.thread = calloc(g.threads, sizeof *g.thread);
    if (!g.thread) die("calloc");
    open_log(&g, argv[1]);
    for (unsigned i = 0; i < g.threads; i++) {
        g.thread[i].fresh = UINT64_C(0x7f0000000000) + ((uint64_t)i << 36);
        g.thread[i].cursor.last_stamp = log_clock_now(&g.clock);
    }
    for (uint64_t done = 0; done < events; done++) {
        // A thread makes some calls while the others wait, as on a machine with fewer cores.
        struct thread *t = &g.thread[done / 64 % g.threads];
        if (done % PACE_EVENTS == 0) {
            if (per_s > 0)
                sleep_until(&g, g.header->first_pair.mono_ns + (uint64_t)((double)done / per_s * 1e9));
            if (done % (100 * PACE_EVENTS) == 0) sample(&g, t);
        }
        step(&g, t);
    }
    close_log(&g, argv[1]);
    return 0;
}
