#include "site_log.h"

#include <link.h>
#include <string.h>

#include "build_id.h"
#include "real.h"
#include "site_map.h"
#include "sys.h"

#if defined(__x86_64__) && defined(HEAPTAPE_UNWINDER)
#include <dlfcn.h>

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

// A stack, as it is written.
struct site {
    uint32_t number, epoch;
    uint32_t frames, flags;
    uint64_t location[];
};

static struct module *module_of;  // by number less one
static _Atomic uint32_t modules;
static uint32_t sites;
static struct site_map locations;  // address -> location
static struct site_map stacks;     // hash of locations and flags -> struct site

// Room for a record of so many words, and what every append leaves free. False: recording had to stop.
static bool room_for_words(struct thread_state *t, unsigned words) {
    return t->cursor.at + 2 + 8 * words <= recorder_append_end(t) || recorder_next_chunk(t);
}

// Of an object that cannot go meanwhile: a frame of the calling thread is in it.
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
    struct dl_find_object found;
    if (_dl_find_object((void *)address, &found)) return 0;
    struct module module = {(uintptr_t)found.dlfo_map_start, (uintptr_t)found.dlfo_map_end,
                            found.dlfo_link_map->l_addr, found.dlfo_link_map};
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

static bool write_site(struct thread_state *t, struct site *site) {
    uint64_t word[2 + HT_SITE_FRAMES_MAX];
    for (uint32_t i = 0; i < site->frames; i++) {
        uint32_t module = (uint32_t)(site->location[i] >> OFFSET_BITS);
        if (module && module_of[module - 1].epoch != t->epoch && !write_module(t, module)) return false;
        word[2 + i] = site->location[i];
    }
    if (!room_for_words(t, 2 + site->frames)) return false;
    word[0] = stamp_now();
    word[1] = site->number | (uint64_t)site->flags << 32;
    ht_append_long(&t->cursor, HT_LONG_SITE, word, 2 + site->frames);
    site->epoch = t->epoch;
    return true;
}

static struct site *new_site(uint32_t frames, uint32_t flags, const uint64_t *location) {
    struct site *site = sites < HT_SITES_MAX ? site_memory(sizeof *site + frames * sizeof *location) : NULL;
    if (!site) return NULL;
    *site = (struct site){++sites, EPOCH_NONE, frames, flags};
    memcpy(site->location, location, frames * sizeof *location);
    return site;
}

uint32_t site_log_number(struct thread_state *t, const struct stack_walk *walk) {
    uint64_t location[HT_SITE_FRAMES_MAX], hash = walk->flags;
    uint32_t frames = 0;
    for (uint32_t i = 0; i < walk->frames; i++) {
        uintptr_t address = walk->frame[i].address;
        if (address >= real.own_start && address < real.own_end) continue;  // of a hook that works in parts
        location[frames] = location_of(address);
        hash = site_mix(hash, location[frames++]);
    }
    struct site *site = (struct site *)(uintptr_t)site_map_get(&stacks, hash);
    if (!site) {
        site = new_site(frames, walk->flags, location);
        if (!site || !site_map_put(&stacks, hash, (uintptr_t)site)) return 0;
    }
    return site->epoch == t->epoch || write_site(t, site) ? site->number : 0;
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
    dl_iterate_phdr(note_loaded, loaded);
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
