// SPDX-License-Identifier: Apache-2.0
#include "site_log.h"

#include <link.h>
#include <string.h>

#include "chunks.h"
#include "loader.h"
#include "real.h"
#include "site_map.h"
#include "sys.h"

#if defined(__x86_64__) && defined(HEAPTAPE_UNWINDER)

enum {
    PATH_BYTES_MAX = 1024,
    MODULES_MAX = 4096,
    OFFSET_BITS = 48  // of a location in a record; the module's number is above
};

// A loaded object that a frame was in.
struct module {
    uintptr_t start, end, bias;
    const struct link_map *object;
    uint64_t
        identity;  // of its name and build id: another may come to lie at the very place of one that is gone
    uint32_t epoch;  // of the log that has its record last
    bool gone;
};

static struct module *module_of;  // by number less one
static _Atomic uint32_t modules;
static uint32_t sites;
static struct site_map locations;  // address -> location
static struct site_map stacks;     // hash of locations and flags -> number, and the log that has it last

// Room for a record of so many words, and what every append leaves free. False: recording had to stop.
static bool room_for_words(struct thread_state *t, unsigned words) {
    return t->cursor.at + 2 + 8 * words <= chunk_append_end(t) || chunk_next(t);
}

// The object cannot go meanwhile: a frame of the calling thread is in it.
static size_t module_build_id(const struct module *module, unsigned char id[BUILD_ID_BYTES_MAX]) {
    const ElfW(Ehdr) *header = (const void *)module->start;
    if (memcmp(header->e_ident, ELFMAG, SELFMAG)) return 0;
    return build_id_read(module->bias, (const void *)(module->start + header->e_phoff), header->e_phnum, id);
}

static uint64_t identity_of(const char *name, const unsigned char *id, size_t id_bytes) {
    uint64_t identity = id_bytes;
    for (size_t i = 0; i < id_bytes; i++) identity = site_mix(identity, id[i]);
    for (; name && *name; name++) identity = site_mix(identity, (unsigned char)*name);
    return identity;
}

// The loader has no name for the executable, and a relative one for what was opened so.
static size_t read_path(const struct module *module, char path[PATH_BYTES_MAX]) {
    const char *name = module->object->l_name;
    size_t length = name ? strlen(name) : 0;
    if (!length) {
        if (!recorder_may_call()) return 0;
        long got = sys_readlink("/proc/self/exe", path, PATH_BYTES_MAX);
        recorder_has_called();
        return got > 0 ? (size_t)got : 0;
    }
    if (length > PATH_BYTES_MAX) length = PATH_BYTES_MAX;
    memcpy(path, name, length);  // NOLINT(bugprone-not-null-terminated-result): its length goes with it
    return length;
}

static bool write_module(struct thread_state *t, uint32_t number) {
    struct module *module = &module_of[number - 1];
    uint64_t word[3 + (BUILD_ID_BYTES_MAX + PATH_BYTES_MAX) / 8] = {0};
    char path[PATH_BYTES_MAX];
    size_t id_bytes = module_build_id(module, (unsigned char *)&word[3]),
           path_bytes = read_path(module, path);
    memcpy((char *)&word[3] + id_bytes, path, path_bytes);
    word[0] = stamp_now();
    word[1] = number;
    word[2] = id_bytes | path_bytes << 32;
    unsigned words = 3 + (unsigned)((id_bytes + path_bytes + 7) / 8);
    if (!room_for_words(t, words)) return false;
    ht_append_long(&t->cursor, HT_LONG_MODULE, word, words);
    module->epoch = t->epoch;
    return true;
}

static uint32_t module_at(uintptr_t address) {
    struct found_object found;
    if (real.find_object((void *)address, &found)) return 0;
    struct module module = {(uintptr_t)found.start, (uintptr_t)found.end, found.map->l_addr, found.map};
    unsigned char id[BUILD_ID_BYTES_MAX];
    size_t id_bytes = module_build_id(&module, id);
    module.identity = identity_of(module.object->l_name, id, id_bytes);
    for (uint32_t i = 0; i < modules; i++) {
        struct module *known = &module_of[i];
        if (known->identity != module.identity || (!known->gone && known->start != module.start)) continue;
        module.epoch = known->epoch;
        if (known->gone) *known = module;  // it has come back
        return i + 1;
    }
    if (!module_of) module_of = site_memory(MODULES_MAX * sizeof *module_of);
    if (!module_of || modules == MODULES_MAX) return 0;
    module_of[modules] = module;
    atomic_store_explicit(&modules, modules + 1, memory_order_release);
    return modules;
}

static uint64_t location_of(uintptr_t address) {
    const uint64_t offset_mask = (UINT64_C(1) << OFFSET_BITS) - 1;
    uint64_t location = site_map_get(&locations, address);
    if (location) return location;
    uint32_t module = module_at(address);
    location = module
                   ? (uint64_t)module << OFFSET_BITS | ((address - module_of[module - 1].bias) & offset_mask)
                   : address & offset_mask;
    if (location) site_map_put(&locations, address, location);
    return location;
}

// The stack that was numbered last: most new ones have frames in common with the one before.
static struct {
    uint32_t walk, epoch;                   // epoch: of the log that has all its modules
    uint64_t location[HT_SITE_FRAMES_MAX];  // of each frame; 0: one of the recorder's own
    uint32_t number, stream;                // in which stream it was written, plus one; 0: none
    bool has_own;                           // frames
} numbered;

// Looks up so many frames from one on, and writes the modules that the log does not have. False: recording had to stop.
static bool look_up(struct thread_state *t, const struct stack_walk *walk, uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; i++) {
        uintptr_t address = walk->frame[i].address;
        bool own = address >= real.own_start && address < real.own_end;  // of a hook that works in parts
        if (own) numbered.has_own = true;
        uint64_t location = own ? 0 : location_of(address);
        uint32_t module = (uint32_t)(location >> OFFSET_BITS);
        if (module && module_of[module - 1].epoch != t->epoch && !write_module(t, module)) return false;
        numbered.location[i] = location;
    }
    return true;
}

// How many frames it shares with the one before is told if that is this stream's last site.
static bool find_locations(struct thread_state *t, const struct stack_walk *walk, struct ht_site_like *like) {
    bool follows = walk->number == numbered.walk + 1 && numbered.epoch == t->epoch;
    uint32_t shared = follows ? walk->shared : 0, at = shared ? walk->shared_at : walk->frames;
    uint32_t stream = numbered.has_own ? 0 : numbered.stream;
    // A child of vfork may be killed in here, and goes on as its parent.
    numbered.epoch = EPOCH_NONE;
    numbered.stream = 0;
    atomic_signal_fence(memory_order_seq_cst);
    numbered.has_own = shared && numbered.has_own;  // perhaps
    if (shared)
        memmove(&numbered.location[at], &numbered.location[walk->shared_from],
                shared * sizeof *numbered.location);
    if (!look_up(t, walk, 0, at) || !look_up(t, walk, at + shared, walk->frames)) return false;
    if (shared && !numbered.has_own && stream == t->chunk->stream + 1)
        *like =
            (struct ht_site_like){numbered.number, (uint8_t)at, (uint8_t)walk->shared_from, (uint8_t)shared};
    numbered.walk = walk->number;
    atomic_signal_fence(memory_order_seq_cst);
    numbered.epoch = t->epoch;
    return true;
}

static bool write_site(struct thread_state *t, const struct stack_walk *walk, uint32_t number,
                       const struct ht_site_like *like) {
    uint64_t word[3 + HT_SITE_FRAMES_MAX] = {stamp_now(), number | (uint64_t)walk->flags << 32};
    unsigned words = like->count ? 3 : 2, kind = like->count ? HT_LONG_SITE_LIKE : HT_LONG_SITE;
    memcpy(&word[2], like, sizeof *like);
    for (uint32_t i = 0; i < walk->frames; i++) {
        if (i == like->at) i += like->count;
        if (i < walk->frames && numbered.location[i]) word[words++] = numbered.location[i];
    }
    if (!room_for_words(t, words)) return false;
    // The next chunk, too, is of the stream that tells the base.
    ht_append_long(&t->cursor, kind, word, words);
    numbered.number = number;
    atomic_signal_fence(memory_order_seq_cst);
    numbered.stream = t->chunk->stream + 1;
    return true;
}

// Numbers it as one that no log has yet: if there is no memory to remember it, each of its calls would write it again. 0: there
// is none, or too many stacks.
static uint32_t new_number(uint64_t hash) {
    uint32_t number = sites + 1;
    if (number > HT_SITES_MAX || !site_map_put(&stacks, hash, number)) return 0;
    return sites = number;
}

uint32_t site_log_number(struct thread_state *t, const struct stack_walk *walk) {
    struct ht_site_like like = {0};
    uint64_t hash = walk->flags;
    if (!find_locations(t, walk, &like)) return 0;
    for (uint32_t i = 0; i < walk->frames; i++)
        if (numbered.location[i]) hash = site_mix(hash, numbered.location[i]);
    uint64_t known = site_map_get(&stacks, hash);
    if (known >> 32 == t->epoch) return (uint32_t)known;
    uint32_t number = known ? (uint32_t)known : new_number(hash);
    if (!number || !write_site(t, walk, number, &like)) return 0;
    site_map_put(&stacks, hash, (uint64_t)t->epoch << 32 | number);
    return number;
}

bool site_log_is_gone(uint64_t address, uint64_t value) {
    (void)value;
    for (uint32_t i = 0; i < modules; i++)
        if (module_of[i].gone && address >= module_of[i].start && address < module_of[i].end) return true;
    return false;
}

// One that is loaded, under the loader's lock: it stays meanwhile.
static int note_loaded(struct dl_phdr_info *info, size_t size, void *argument) {
    struct site_modules *loaded = argument;
    unsigned char id[BUILD_ID_BYTES_MAX];
    (void)size;
    size_t id_bytes = build_id_read(info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum, id);
    uint64_t identity = identity_of(info->dlpi_name, id, id_bytes);
    for (uint32_t i = 0; i < loaded->count; i++)
        if (module_of[i].bias == info->dlpi_addr && module_of[i].identity == identity)
            loaded->present[i / 8] |= (uint8_t)(1 << i % 8);
    return 0;
}

void site_log_find_modules(struct site_modules *loaded) {
    static_assert(sizeof loaded->present * 8 >= MODULES_MAX, "a bit for each module");
    *loaded = (struct site_modules){.count = atomic_load_explicit(&modules, memory_order_acquire)};
    loader_visit(note_loaded, loaded);  // else none is known to be loaded: those that are will come back
}

bool site_log_drop_modules(const struct site_modules *loaded) {
    bool any = false;
    for (uint32_t i = 0; i < loaded->count; i++) {
        if (module_of[i].gone || loaded->present[i / 8] >> i % 8 & 1) continue;
        module_of[i].gone = any = true;
    }
    if (any) site_map_sweep(&locations, site_log_is_gone);
    return any;
}

#else
uint32_t site_log_number(struct thread_state *t, const struct stack_walk *walk) {
    (void)t;
    (void)walk;
    return 0;
}
void site_log_find_modules(struct site_modules *loaded) { loaded->count = 0; }
bool site_log_drop_modules(const struct site_modules *loaded) { return loaded->count; }
bool site_log_is_gone(uint64_t address, uint64_t value) {
    (void)address;
    (void)value;
    return false;
}
#endif
