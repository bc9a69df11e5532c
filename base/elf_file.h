// SPDX-License-Identifier: Apache-2.0
// Reads what a 64-bit ELF file says of itself: segments, needed libraries, sections, symbols. Any file may be
// given, a hostile one too: what does not lie inside the file reads as absent.
#ifndef HEAPTAPE_ELF_FILE_H
#define HEAPTAPE_ELF_FILE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_file {
    int fd;
    uint64_t bytes;  // size of the file
    Elf64_Ehdr header;
    Elf64_Phdr *segment;
    unsigned segments;
    Elf64_Shdr *section;  // none in a file whose section headers were cut off
    unsigned sections;
    char *section_names;  // ends in a zero byte, as all strings here
    uint64_t section_name_bytes;
    Elf64_Dyn *dynamic;  // none in a static executable
    unsigned dynamics;
    char *dynamic_strings;
    uint64_t dynamic_string_bytes;
};

// False if this is no ELF file of the machine's own word size and byte order. It must be closed if it was
// opened.
bool elf_file_open(struct elf_file *elf, int fd);
void elf_file_close(struct elf_file *elf);

// Whether it is for the processor that this program is for.
bool elf_file_is_native(const struct elf_file *elf);

// The name that PT_INTERP gives, NULL if there is none. Valid until text goes.
const char *elf_file_interpreter(const struct elf_file *elf, char *text, size_t room);

// The string of the index-th entry of that tag (DT_NEEDED, DT_SONAME), or NULL behind the last one.
const char *elf_file_dynamic_string(const struct elf_file *elf, int64_t tag, unsigned index);

bool elf_file_has_section(const struct elf_file *elf, const char *name);

// Calls visit with the name of every function or object that a symbol table (SHT_DYNSYM or SHT_SYMTAB)
// defines. False if there is no such table, or one too large to read in passing.
bool elf_file_each_symbol(const struct elf_file *elf, uint32_t table_type,
                          void (*visit)(void *context, const char *name), void *context);

// A function that a symbol table defines: where the loader puts its code, relative to the file's other addresses.
struct elf_function {
    const char *name;
    uint64_t address, bytes;  // bytes 0: not stated
    bool chosen_later;        // the code there only chooses the function
};
bool elf_file_each_function(const struct elf_file *elf, uint32_t table_type,
                            void (*visit)(void *context, const struct elf_function *function), void *context);

// What the loader puts at an address, as far as it comes from the file; to be freed. NULL if that is not all there.
void *elf_file_at_address(const struct elf_file *elf, uint64_t address, uint64_t bytes);

// The same for what the file takes from others (SHT_DYNSYM). Of a weak symbol it does without.
bool elf_file_each_import(const struct elf_file *elf,
                          void (*visit)(void *context, const char *name, bool weak), void *context);

// The read-only data (.rodata), to be freed; NULL if there is none.
char *elf_file_read_only_data(const struct elf_file *elf, uint64_t *bytes);
// Whether it holds the text.
bool elf_file_data_holds(const struct elf_file *elf, const char *text);

#endif
