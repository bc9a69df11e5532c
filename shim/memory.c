// What the program's memory looks like beside its calls: RssAnon along the run, the part of it that the
// program mapped for itself, and how much of a large block was ever touched. Every figure comes from the
// kernel.
#include <errno.h>
#include <link.h>
#include <string.h>

#include "log_file.h"
#include "memory.h"
#include "settings.h"
#include "sys.h"

enum {
    RANGES_MAX = 4096,
    SEGMENTS_MAX = 512,
    LOCK_TRIES_MAX = 1 << 14,
    // Counting the program's own pages may take at most one part in this many of the run.
    OWN_COST_SHARE = 100
};

// Beyond this much mapped memory a look at every page would stall the program for tens of milliseconds.
static const uint64_t OWN_BYTES_MAX = UINT64_C(16) << 30;

struct range {
    uintptr_t start, end;
};

// The program's own anonymous mappings and the zero-initialised data of its objects, sorted by address; and
// its objects' other data.
static struct {
    atomic_flag lock, measuring;
    struct range range[RANGES_MAX];
    size_t count;
    bool overflowed;  // too many to follow: own memory is unknown
    // Writable segments that are backed by their objects' files: a page of theirs is anonymous once it has
    // been written.
    struct range segment[SEGMENTS_MAX];
    size_t segments;
    uint64_t static_bytes;  // other anonymous memory before the first allocation: stacks, the loader's
    uint64_t last_bytes, last_stamp, last_cost_stamps;
} own = {.lock = ATOMIC_FLAG_INIT, .measuring = ATOMIC_FLAG_INIT};

// The lock is held for a copy of the table at most. Whoever still can't have it, because its holder will
// never run again, goes without: then own memory is unknown from here on.
static bool lock(void) {
    if (own.overflowed) return false;
    for (unsigned tries = 0; atomic_flag_test_and_set_explicit(&own.lock, memory_order_acquire); tries++) {
        if (tries == LOCK_TRIES_MAX) {
            own.overflowed = true;
            return false;
        }
        if (recorder_may_call()) {
            sys_yield();
            recorder_has_called();
        }
    }
    return true;
}
static void unlock(void) { atomic_flag_clear_explicit(&own.lock, memory_order_release); }

uint32_t memory_resident_pages(const void *block, size_t bytes) {
    enum { CHUNK = 512 };
    unsigned char present[CHUNK];
    uintptr_t page = settings.page_bytes, at = (uintptr_t)block & ~(page - 1);
    uintptr_t end = ((uintptr_t)block + bytes + page - 1) & ~(page - 1);
    uint32_t pages = 0;
    if (!recorder_may_call()) return 0;
    while (at < end) {
        size_t count = (end - at) / page < CHUNK ? (end - at) / page : CHUNK;
        if (sys_mincore(at, count * page, present)) break;  // ENOMEM: not mapped, so not resident
        for (size_t i = 0; i < count; i++) pages += present[i] & 1;
        at += count * page;
    }
    recorder_has_called();
    return pages + 1;
}

// Index of the first range that ends after start.
static size_t find(uintptr_t start) {
    size_t low = 0, high = own.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (own.range[middle].end > start) high = middle;
        else low = middle + 1;
    }
    return low;
}

static void insert(size_t at, struct range range) {
    if (own.count == RANGES_MAX) {
        own.overflowed = true;
        return;
    }
    memmove(&own.range[at + 1], &own.range[at], (own.count - at) * sizeof range);
    own.range[at] = range;
    own.count++;
}

// Cuts [start, end) out of the ranges.
static void cut(uintptr_t start, uintptr_t end) {
    size_t i = find(start);
    while (i < own.count && own.range[i].start < end) {
        struct range old = own.range[i];
        if (old.start < start && old.end > end) {
            own.range[i].end = start;
            insert(i + 1, (struct range){end, old.end});
            return;
        }
        if (old.start < start) {
            own.range[i++].end = start;
        } else if (old.end > end) {
            own.range[i].start = end;
            return;
        } else {
            memmove(&own.range[i], &own.range[i + 1], (--own.count - i) * sizeof old);
        }
    }
}

static uintptr_t page_up(uintptr_t address) {
    uintptr_t mask = settings.page_bytes - 1;
    return (address + mask) & ~mask;
}

void memory_map(uintptr_t start, size_t bytes) {
    uintptr_t end = page_up(start + bytes);
    if (!lock()) return;
    cut(start, end);
    size_t at = find(start);
    // Neighbours grow together: page-wise mapping must not fill the table.
    if (at > 0 && own.range[at - 1].end == start) own.range[at - 1].end = end;
    else if (at < own.count && own.range[at].start == end) own.range[at].start = start;
    else insert(at, (struct range){start, end});
    unlock();
}

void memory_unmap(uintptr_t start, size_t bytes) {
    if (!lock()) return;
    cut(start, page_up(start + bytes));
    unlock();
}

bool memory_is_own(uintptr_t address) {
    if (!lock()) return false;
    size_t at = find(address);
    bool found = at < own.count && own.range[at].start <= address;
    unlock();
    return found;
}

// Resident bytes of the program's own mappings. False if they are too large to look at: the time would show.
static bool ranges_resident_bytes(uint64_t *resident) {
    static struct range copy[RANGES_MAX];  // used by one measurement at a time
    uint64_t pages = 0, bytes = 0;
    if (!lock()) return false;
    size_t count = own.count;
    memcpy(copy, own.range, count * sizeof *copy);
    unlock();
    for (size_t i = 0; i < count; i++) bytes += copy[i].end - copy[i].start;
    if (bytes > OWN_BYTES_MAX) return false;
    for (size_t i = 0; i < count; i++) {
        uint32_t found = memory_resident_pages((void *)copy[i].start, copy[i].end - copy[i].start);
        if (!found) return false;
        pages += found - 1;
    }
    *resident = pages * settings.page_bytes;
    return true;
}

// The written pages of the file-backed segments: those that pagemap calls present and not of a file. 0
// without /proc.
static uint64_t segments_anon_bytes(void) {
    enum { CHUNK = 64 };
    const uint64_t present = UINT64_C(1) << 63, of_file = UINT64_C(1) << 61;
    uint64_t entry[CHUNK], pages = 0, page = settings.page_bytes;
    int fd = sys_open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0) return 0;
    for (size_t i = 0; i < own.segments; i++)
        for (uintptr_t at = own.segment[i].start; at < own.segment[i].end; at += CHUNK * page) {
            uint64_t left = (own.segment[i].end - at) / page, wanted = left < CHUNK ? left : CHUNK;
            long got = sys_pread(fd, entry, wanted * sizeof *entry, at / page * sizeof *entry);
            for (long k = 0; k < got / (long)sizeof *entry; k++)
                pages += (entry[k] & (present | of_file)) == present;
        }
    sys_close(fd);
    return pages * page;
}

// An object's writable memory: what its file backs, and the zero-initialised rest.
static int add_object(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    (void)context;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_W)) continue;
        uintptr_t start = info->dlpi_addr + segment->p_vaddr, file_end = page_up(start + segment->p_filesz);
        uintptr_t end = start + segment->p_memsz;
        start &= ~(uintptr_t)(settings.page_bytes - 1);
        if (own.segments < SEGMENTS_MAX) own.segment[own.segments++] = (struct range){start, file_end};
        if (file_end < end) memory_map(file_end, end - file_end);
    }
    return 0;
}

static uint64_t parse_number(const char **at) {
    uint64_t value = 0;
    while (**at == ' ') ++*at;
    while (**at >= '0' && **at <= '9') value = value * 10 + (uint64_t)(*(*at)++ - '0');
    return value;
}

// Resident less shared of statm is RssAnon, and the file is the cheapest one that tells. 0 where /proc is out
// of reach.
static uint64_t rss_anon_bytes(void) {
    char text[128];
    int fd = sys_open("/proc/self/statm", O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0) return 0;
    long got = sys_read(fd, text, sizeof text - 1);
    sys_close(fd);
    if (got <= 0) return 0;
    text[got] = 0;
    const char *at = text;
    parse_number(&at);
    uint64_t resident = parse_number(&at), shared = parse_number(&at);
    return (resident - shared) * settings.page_bytes;
}

void memory_start(void) {
    dl_iterate_phdr(add_object, NULL);
    uint64_t anon = rss_anon_bytes(), mapped = 0;
    ranges_resident_bytes(&mapped);
    uint64_t data = mapped + segments_anon_bytes();
    own.static_bytes = anon > data ? anon - data : 0;
}

void memory_after_fork(void) {
    atomic_flag_clear(&own.lock);
    atomic_flag_clear(&own.measuring);
}

// Bytes resident outside the heap. Counting them costs a look at every page, so an old figure serves until it
// is cheap again.
static uint64_t own_bytes(uint64_t stamp, bool final, bool *fresh) {
    uint64_t mapped;
    *fresh = false;
    if (own.overflowed || (!final && stamp - own.last_stamp < OWN_COST_SHARE * own.last_cost_stamps))
        return own.last_bytes;
    if (atomic_flag_test_and_set(&own.measuring)) return own.last_bytes;  // another thread is at it
    // The cost is CPU time: a thread that was preempted here has not cost more.
    uint64_t started_ns = clock_thread_cpu_ns();
    if (ranges_resident_bytes(&mapped)) {
        own.last_bytes = own.static_bytes + mapped + segments_anon_bytes();
        *fresh = true;
    }
    own.last_stamp = stamp;
    own.last_cost_stamps = (clock_thread_cpu_ns() - started_ns) * STAMPS_PER_S / 1000000000u;
    atomic_flag_clear(&own.measuring);
    return own.last_bytes;
}

static void update_clock_pair(struct ht_raw_header *header, struct ht_clock_pair now) {
    // Two pairs in turn: a process killed in the middle of a store leaves the other whole.
    struct ht_clock_pair *pair = header->last_pair;
    unsigned older = pair[0].stamp > pair[1].stamp;
    pair[older].mono_ns = now.mono_ns;
    atomic_thread_fence(memory_order_release);
    pair[older].stamp = now.stamp;
}

static void put_sample(struct thread_state *t, uint64_t stamp, bool final) {
    bool fresh;
    uint64_t anon = rss_anon_bytes();
    update_clock_pair(t->recording->header, clock_pair());
    // Without /proc, or a descriptor to read it, there is no sample; 0 would be a wrong one.
    if (anon) {
        uint64_t own_rss = own_bytes(stamp, final, &fresh);
        uint64_t word[5] = {stamp, anon, own_rss, clock_process_cpu_ns(), fresh};
        if (recorder_room(t)) ht_append_long(&t->cursor, HT_LONG_SAMPLE, word, 5);
    }
    int64_t step = (int64_t)(anon / 200);
    t->sample_budget_bytes = step > (1 << 20) ? step : 1 << 20;
}

void memory_sample(struct thread_state *t, uint64_t stamp, bool final) {
    struct recording *recording = t->recording;
    uint64_t last = atomic_load_explicit(&recording->sample_last_stamp, memory_order_relaxed);
    t->sample_due_stamp = stamp + SAMPLE_INTERVAL_STAMPS;
    recorder_heed_control(recording);
    // One thread at a time, and never so often that sampling itself would show.
    if (!final && (stamp < last + SAMPLE_GAP_STAMPS ||
                   !atomic_compare_exchange_strong(&recording->sample_last_stamp, &last, stamp))) {
        if (t->sample_budget_bytes < 0) t->sample_budget_bytes = 64 << 10;
        return;
    }
    if (!recorder_may_call()) {
        t->sample_budget_bytes = INT64_MAX;
        return;
    }
    int saved = errno;
    uint64_t before = clock_counter();
    put_sample(t, stamp, final);
    recorder_has_called();
    __atomic_fetch_add(&recording->header->upkeep_counts, clock_counter() - before, __ATOMIC_RELAXED);
    errno = saved;
}
