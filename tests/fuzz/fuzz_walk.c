// SPDX-License-Identifier: Apache-2.0
// The heap of a process, as `walk` reads it. An input is a core file, or names a version of glibc and words of the memory
// of a process, or of its core, that are not what they should be.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core_file.h"
#include "fuzz_input.h"
#include "walk_image.h"
#include "walk_json.h"

enum { PATCHES_MAX = 256, MODE_LIVE = 0x80 };

// ---- patches ----

static uint64_t take_number(struct fuzz_input *input, size_t bytes) {
    uint64_t number = 0;
    fuzz_take(input, &number, bytes);
    return number;
}

// Where in the image, in words.
static uint8_t *take_place(struct fuzz_input *input, struct walk_image *image, unsigned region,
                           uint64_t *address) {
    const struct walk_part *part = &image->parts[region % REGIONS];
    uint64_t offset = take_number(input, 2) % (part->bytes / 8) * 8;
    *address = part->address + offset;
    return part->at + offset;
}

static uint64_t take_value(struct fuzz_input *input, struct walk_image *image, unsigned kind, uint64_t now,
                           uint64_t address) {
    uint64_t elsewhere;
    int8_t step = (int8_t)fuzz_take_byte(input);
    switch (kind % 8) {
    case 0: return take_number(input, 8);
    case 1: take_place(input, image, (uint8_t)step, &elsewhere); return elsewhere;
    case 2: return (uint8_t)step;
    case 3: return now + (uint64_t)(step * 16);
    case 4: return now ^ UINT64_C(1) << (step & 63);
    case 5: {
        uint64_t word;
        memcpy(&word, take_place(input, image, (uint8_t)step, &elsewhere), sizeof word);
        return word;
    }
    case 6: return address + (uint64_t)(step * 16);
    default: return take_number(input, 3) << (step & 63);
    }
}

// A word, or some that lie apart and are changed alike.
static void patch(struct fuzz_input *input, struct walk_image *image) {
    unsigned kind = fuzz_take_byte(input), count = 1, stride = 0;
    uint64_t address;
    uint8_t *at = take_place(input, image, kind, &address);
    if (kind & 0x40) count += fuzz_take_byte(input), stride = 8U * (1U + fuzz_take_byte(input) % 128);
    struct fuzz_input value_input = *input;
    for (unsigned i = 0; i < count && at + 8 <= image->bytes + image->size;
         i++, at += stride, address += stride) {
        uint64_t now;
        memcpy(&now, at, sizeof now);
        *input = value_input;
        uint64_t value = take_value(input, image, kind >> 3, now, address);
        memcpy(at, &value, sizeof value);
    }
}

// ---- a walk ----

// Whatever malloc it is, the records of these are looked for, as if it were theirs.
static void count_others(struct space *space, const struct modules *modules) {
    static const char *const names[] = {"jemalloc", "tcmalloc", "mimalloc"};
    for (size_t i = 0; modules->count && i < sizeof names / sizeof *names; i++) {
        struct other other = {0};
        struct ht_error error;
        bool found = false;
        (void)other_walk(&other, space, names[i], &modules->module[0], &found, &error);
        other_free(&other);
    }
}

static void walk(struct space *space, const char *core) {
    struct modules modules;
    struct allocator allocator;
    struct glibc glibc = {0};
    struct accounts accounts = {0};
    struct outside outside = {0};
    struct ht_error error;
    bool walked = false;
    int failed = modules_read(&modules, space, &error);
    if (!failed) {
        allocator_find(&allocator, &modules);
        walked = allocator.libc && glibc_layout_of(allocator.glibc_minor) &&
                 glibc_find(&glibc, space, allocator.glibc_minor, allocator.libc->name);
    }
    if (!failed && walked)
        failed = glibc_walk(&glibc, &error) || accounts_take(&accounts, &glibc, NULL, &error);
    if (!failed) failed = outside_take(&outside, space, walked ? &glibc : NULL, NULL, &error);
    if (!failed) {
        json_t *object = walk_json(&(struct walk_result){.core = core,
                                                         .modules = &modules,
                                                         .allocator = &allocator,
                                                         .glibc = walked ? &glibc : NULL,
                                                         .accounts = &accounts,
                                                         .outside = &outside});
        FUZZ_EXPECT(object, "no JSON");
        char *text = json_dumps(object, 0);
        FUZZ_EXPECT(text, "JSON that has no text");
        free(text);
        json_decref(object);
    }
    if (!failed) count_others(space, &modules);
    accounts_free(&accounts);
    glibc_free(&glibc);
    modules_free(&modules);
}

static void walk_core(const void *bytes, size_t size) {
    char path[FUZZ_PATH_BYTES];
    int fd = fuzz_memory_file(0, path);
    struct core_file core;
    struct ht_error error;
    fuzz_reset(fd, 0);
    fuzz_write(fd, bytes, size, 0);
    FUZZ_EXPECT(!core_file_open(&core, path, &error), "no core");
    if (!core_file_read(&core, &error)) walk(&core.space, core.command);
    space_free(&core.space);
}

// ---- memory of our own, at the addresses that it has in the image ----

static bool map_parts(const struct walk_image *image) {
    static int state;  // 1: mapped, -1: there was no room
    for (int i = REGION_TEXT; !state && i < REGIONS; i++) {
        const struct walk_part *part = &image->parts[i];
        void *place = (void *)part->address;
        if (mmap(place, part->bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != place)
            state = -1;
    }
    if (!state) state = 1;
    return state > 0;
}

// lost: which pages were never touched.
static void fill_parts(const struct walk_image *image, uint64_t lost) {
    unsigned page = 0;
    for (int i = REGION_TEXT; i < REGIONS; i++) {
        const struct walk_part *part = &image->parts[i];
        for (size_t at = 0; at < part->bytes; at += SPACE_PAGE_BYTES, page++) {
            void *place = (void *)(part->address + at);
            if (lost >> page & 1) madvise(place, SPACE_PAGE_BYTES, MADV_DONTNEED);
            else memcpy(place, part->at + at, SPACE_PAGE_BYTES);
        }
    }
}

static void walk_ourselves(const struct walk_image *image, uint64_t lost) {
    if (!map_parts(image)) return;
    fill_parts(image, lost);
    char *text = malloc(4096), *at = text;
    FUZZ_EXPECT(text, "no memory");
    for (int i = REGION_TEXT; i < REGIONS; i++) {
        const struct walk_part *part = &image->parts[i];
        unsigned long long end = part->address + part->bytes;
        at +=
            sprintf(at, "%llx-%llx %s %08llx 08:01 %d %s\n", (unsigned long long)part->address, end,
                    part->permissions, (unsigned long long)part->file_offset, *part->name == '/', part->name);
    }
    struct space space = {.memory_fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC),
                          .pagemap_fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC),
                          .no_scan = lost >> 63};
    struct ht_error error;
    FUZZ_EXPECT(space.memory_fd >= 0 && space.pagemap_fd >= 0, "no memory of our own");
    FUZZ_EXPECT(!space_parse_maps(&space, text, "maps", &error), "%s", error.message);
    walk(&space, NULL);
    space_free(&space);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    struct fuzz_input input = {data, bytes};
    if (bytes && *data == 0x7f) {
        walk_core(data, bytes);
        return 0;
    }
    unsigned mode = fuzz_take_byte(&input);
    uint64_t lost = mode & MODE_LIVE ? take_number(&input, 8) : 0;
    struct walk_image *image =
        walk_image_make(GLIBC_OLDEST + (int)(mode & 0x7f) % (GLIBC_NEWEST - GLIBC_OLDEST + 1));
    for (int i = 0; i < PATCHES_MAX && input.left; i++) patch(&input, image);
    if (mode & MODE_LIVE) walk_ourselves(image, lost);
    else walk_core(image->bytes, image->size);
    return 0;
}
