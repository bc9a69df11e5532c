// SPDX-License-Identifier: Apache-2.0
#include "core_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>
#include <sys/stat.h>
#include <unistd.h>

#include "all_bytes.h"
#include "grow.h"
#include "sorted.h"

enum { SEGMENTS_MAX = 1 << 20, FILES_MAX = 1 << 16, NOTES_BYTES_MAX = 256 << 20 };

int core_file_open(struct core_file *core, const char *path, struct ht_error *error) {
    *core = (struct core_file){
        .path = path,
        .space = {.memory_fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), .pagemap_fd = -1}};
    return core->space.memory_fd < 0 ? ht_error_system(error, path, "cannot be read") : 0;
}

// ---- notes ----

// That begins there; of those that segments make, which are ordered.
static struct space_mapping *mapping_of_segment(const struct core_file *core, uint64_t start) {
    size_t found = HT_FIRST_FROM(core->space.mappings, core->dumped, start, start);
    return found < core->dumped && core->space.mappings[found].start == start ? &core->space.mappings[found]
                                                                              : NULL;
}

// A mapping of a file, which has no segment where nothing of it was dumped.
static bool name_mapping(struct core_file *core, uint64_t start, uint64_t end, uint64_t file_offset,
                         const char *name) {
    struct space *space = &core->space;
    const uint64_t page = SPACE_PAGE_BYTES - 1;
    struct space_mapping *mapping = mapping_of_segment(core, start);
    if (mapping) {
        mapping->name = name;
        mapping->file_offset = file_offset;
        mapping->anonymous = false;
        return true;
    }
    if (start >= end || (start | end) & page || end >> 47) return true;
    if (!ht_grow(&space->mappings, &space->mapping_room, space->mapping_count + 1, sizeof *space->mappings))
        return false;
    space->mappings[space->mapping_count++] = (struct space_mapping){
        .start = start, .end = end, .file_offset = file_offset, .readable = true, .name = name};
    return true;
}

// NT_FILE has: how many, the unit of offsets, {start, end, offset in units} of each, and then their names.
static bool name_mappings(struct core_file *core, char *note, size_t bytes) {
    uint64_t head[2];
    if (bytes < sizeof head || note[bytes - 1]) return true;
    memcpy(head, note, sizeof head);
    uint64_t count = head[0], entries_bytes = count * 3 * 8;
    if (count > FILES_MAX || entries_bytes > bytes - sizeof head) return true;
    const char *entries = note + sizeof head, *name = entries + entries_bytes, *end = note + bytes;
    for (uint64_t i = 0; i < count && name < end; i++, name += strlen(name) + 1) {
        uint64_t entry[3];
        memcpy(entry, entries + i * sizeof entry, sizeof entry);
        if (!name_mapping(core, entry[0], entry[1], entry[2] * head[1], name)) return false;
    }
    return true;
}

static void note_command(struct core_file *core, const char *note, size_t bytes) {
    prpsinfo_t info;
    if (bytes < sizeof info) return;
    memcpy(&info, note, sizeof info);
    size_t length = strnlen(info.pr_psargs, sizeof info.pr_psargs);
    memcpy(core->command, info.pr_psargs, length);
    core->command[length] = 0;
}

static bool read_notes(struct core_file *core, char *notes, size_t bytes) {
    for (size_t at = 0; at + sizeof(Elf64_Nhdr) <= bytes;) {
        Elf64_Nhdr header;
        memcpy(&header, notes + at, sizeof header);
        size_t name = at + sizeof header, rest = name + (((size_t)header.n_namesz + 3) & ~(size_t)3);
        size_t next = rest + (((size_t)header.n_descsz + 3) & ~(size_t)3);
        if (rest > bytes || header.n_descsz > bytes - rest) return true;
        if (header.n_type == NT_FILE && !name_mappings(core, notes + rest, header.n_descsz)) return false;
        if (header.n_type == NT_PRPSINFO) note_command(core, notes + rest, header.n_descsz);
        at = next;
    }
    return true;
}

// ---- segments ----

static bool add_segment(struct space *space, struct space_segment segment) {
    if (!ht_grow(&space->segments, &space->segment_room, space->segment_count + 1, sizeof segment))
        return false;
    space->segments[space->segment_count++] = segment;
    return true;
}

static bool add_mapping(struct space *space, const Elf64_Phdr *header) {
    const uint64_t page = SPACE_PAGE_BYTES - 1;
    if (!header->p_memsz || header->p_vaddr & page || header->p_memsz >> 47 || header->p_vaddr >> 47)
        return true;
    struct space_mapping mapping = {
        .start = header->p_vaddr,
        .end = header->p_vaddr + ((header->p_memsz + page) & ~page),
        .readable = header->p_flags & PF_R,
        .writable = header->p_flags & PF_W,
        .anonymous = true,
        .name = "",
    };
    if (!ht_grow(&space->mappings, &space->mapping_room, space->mapping_count + 1, sizeof mapping))
        return false;
    space->mappings[space->mapping_count++] = mapping;
    uint64_t bytes = header->p_filesz < header->p_memsz ? header->p_filesz : header->p_memsz;
    return !bytes || add_segment(space, (struct space_segment){mapping.start, bytes, header->p_offset,
                                                               space->memory_fd});
}

// More segments than a header can count are counted in the first section's.
static int count_segments(const struct core_file *core, const Elf64_Ehdr *header, uint64_t *count,
                          struct ht_error *error) {
    *count = header->e_phnum;
    Elf64_Shdr section;
    if (header->e_phnum != PN_XNUM) return 0;
    if (!ht_read_at(core->space.memory_fd, &section, sizeof section, header->e_shoff))
        return ht_error_input(error, core->path, header->e_shoff,
                              "expected a section that counts the segments, found the file's end");
    *count = section.sh_info;
    return 0;
}

static int read_header(const struct core_file *core, Elf64_Ehdr *header, struct ht_error *error) {
    struct stat file;
    bool known = !fstat(core->space.memory_fd, &file);
    if (known && S_ISREG(file.st_mode) && !file.st_size)
        return ht_error_input(error, core->path, 0, "expected a core file, found an empty file");
    if (known && S_ISDIR(file.st_mode))
        return ht_error_input(error, core->path, 0, "expected a core file, found a folder");
    if (!ht_read_at(core->space.memory_fd, header, sizeof *header, 0) ||
        memcmp(header->e_ident, ELFMAG, SELFMAG) || header->e_type != ET_CORE)
        return ht_error_input(error, core->path, 0, "expected a core file, found another");
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != EM_X86_64 ||
        header->e_phentsize != sizeof(Elf64_Phdr))
        return ht_error_input(error, core->path, 0,
                              "expected a core of x86-64, found one of another machine");
    return 0;
}

static int read_segments(struct core_file *core, Elf64_Phdr *headers, uint64_t count,
                         struct ht_error *error) {
    struct stat file;
    uint64_t bytes = 0;
    if (fstat(core->space.memory_fd, &file)) return ht_error_system(error, core->path, "cannot be read");
    for (uint64_t i = 0; i < count; i++) {
        uint64_t end = headers[i].p_offset + headers[i].p_filesz;
        if (headers[i].p_filesz && (end < headers[i].p_filesz || end > (uint64_t)file.st_size))
            return ht_error_input(error, core->path, headers[i].p_offset,
                                  "expected %llu bytes of a segment, found the file's end after %llu",
                                  (unsigned long long)headers[i].p_filesz,
                                  (unsigned long long)(headers[i].p_offset < (uint64_t)file.st_size
                                                           ? (uint64_t)file.st_size - headers[i].p_offset
                                                           : 0));
        // Segments that share bytes would be a memory as large as one likes.
        if ((bytes += headers[i].p_filesz) > (uint64_t)file.st_size)
            return ht_error_input(error, core->path, headers[i].p_offset,
                                  "expected segments apart, found more bytes than the file has");
        if (headers[i].p_type == PT_LOAD && !add_mapping(&core->space, &headers[i]))
            return ht_error_memory(error, core->path, "segments");
    }
    return 0;
}

static int read_all_notes(struct core_file *core, const Elf64_Phdr *headers, uint64_t count,
                          struct ht_error *error) {
    for (uint64_t i = 0; i < count; i++) {
        if (headers[i].p_type != PT_NOTE || core->space.names || headers[i].p_filesz > NOTES_BYTES_MAX)
            continue;
        char *notes = malloc(headers[i].p_filesz + 1);
        if (!notes) return ht_error_memory(error, core->path, "notes");
        core->space.names = notes;
        if (ht_read_at(core->space.memory_fd, notes, headers[i].p_filesz, headers[i].p_offset) &&
            !read_notes(core, notes, headers[i].p_filesz))
            return ht_error_memory(error, core->path, "mappings");
    }
    return 0;
}

int core_file_read(struct core_file *core, struct ht_error *error) {
    Elf64_Ehdr header;
    uint64_t count;
    if (read_header(core, &header, error) || count_segments(core, &header, &count, error)) return -1;
    if (!count || count > SEGMENTS_MAX)
        return ht_error_input(error, core->path, 0, "expected 1 to %d segments, found %llu", SEGMENTS_MAX,
                              (unsigned long long)count);
    Elf64_Phdr *headers = malloc(count * sizeof *headers);
    if (!headers) return ht_error_memory(error, core->path, "segments");
    int failed = 0;
    if (!ht_read_at(core->space.memory_fd, headers, count * sizeof *headers, header.e_phoff))
        failed = ht_error_input(error, core->path, header.e_phoff,
                                "expected %llu segments' headers, found the file's end",
                                (unsigned long long)count);
    if (!failed) failed = read_segments(core, headers, count, error);
    space_order(&core->space);
    core->dumped = core->space.mapping_count;
    if (!failed) failed = read_all_notes(core, headers, count, error);
    free(headers);
    if (failed) return -1;
    if (!core->space.segment_count)
        return ht_error_input(error, core->path, 0, "expected a segment with bytes, found none");
    space_order(&core->space);
    return space_add_files(&core->space, "", NULL, error);
}
