// SPDX-License-Identifier: Apache-2.0
#include "register_use.h"

#ifdef HEAPTAPE_ZYDIS

#include <stdlib.h>

#include "instruction.h"

enum { PLACES_MAX = 4096, INSTRUCTIONS_MAX = 1 << 16, WINDOW_BYTES = 4096, INSTRUCTION_BYTES_MAX = 15 };

// Code that is reached: where it begins. The first `done` have been looked at.
struct walk {
    const struct elf_file *elf;
    uint64_t place[PLACES_MAX];
    unsigned places, done, instructions;
    uint8_t *window;
    uint64_t window_at, window_bytes;
};

static void reach(struct walk *walk, uint64_t address) {
    for (unsigned i = walk->places; i-- > 0;)
        if (walk->place[i] == address) return;
    if (walk->places < PLACES_MAX) walk->place[walk->places++] = address;
}

// How much of the program's code begins there.
static uint64_t code_from(const struct elf_file *elf, uint64_t address) {
    for (unsigned i = 0; i < elf->segments; i++) {
        const Elf64_Phdr *segment = &elf->segment[i];
        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X) && address >= segment->p_vaddr &&
            address - segment->p_vaddr < segment->p_filesz)
            return segment->p_filesz - (address - segment->p_vaddr);
    }
    return 0;
}

// The code at an address, and how much of it there is: a whole instruction, except at the segment's end.
static const uint8_t *code_at(struct walk *walk, uint64_t address, uint64_t *bytes) {
    uint64_t skipped = address - walk->window_at;
    if (!walk->window || skipped > walk->window_bytes ||
        walk->window_bytes - skipped < INSTRUCTION_BYTES_MAX) {
        uint64_t left = code_from(walk->elf, address);
        free(walk->window);
        walk->window_at = address;
        walk->window_bytes = left < WINDOW_BYTES ? left : WINDOW_BYTES;
        walk->window = elf_file_at_address(walk->elf, address, walk->window_bytes);
        skipped = 0;
    }
    *bytes = walk->window ? walk->window_bytes - skipped : 0;
    return walk->window + (walk->window ? skipped : 0);
}

// A call by a register or by memory, or a jump by memory as the last call of a function and the loader's stubs have it. One
// by an index is a switch's.
static bool goes_by_pointer(const ZydisDecodedInstruction *instruction) {
    enum { NO_INDEX = 4, WITH_SIB = 4, A_REGISTER = 3 };
    if (instruction_has_relative_target(instruction)) return false;
    if (instruction->mnemonic == ZYDIS_MNEMONIC_CALL) return true;
    if (instruction->mnemonic != ZYDIS_MNEMONIC_JMP || instruction->raw.modrm.mod == A_REGISTER) return false;
    return instruction->raw.modrm.rm != WITH_SIB || instruction->raw.sib.index == NO_INDEX;
}

// Up to where control leaves. True if a pointer was followed.
static bool look(struct walk *walk, uint64_t at) {
    ZydisDecodedInstruction instruction;
    uint64_t bytes;
    while (walk->instructions++ < INSTRUCTIONS_MAX) {
        const uint8_t *code = code_at(walk, at, &bytes);
        if (!bytes || !instruction_decode(code, bytes, &instruction)) return false;
        if (goes_by_pointer(&instruction)) return true;
        if (instruction_has_relative_target(&instruction)) reach(walk, instruction_target(&instruction, at));
        if (instruction_is_last(&instruction)) return false;
        at += instruction.length;
    }
    return false;
}

bool register_use_may_be_known(const struct elf_file *elf, uint64_t address) {
    struct walk *walk = calloc(1, sizeof *walk);
    bool found = false;
    if (!walk) return true;
    walk->elf = elf;
    reach(walk, address);
    while (!found && walk->done < walk->places) found = look(walk, walk->place[walk->done++]);
    free(walk->window);
    free(walk);
    return !found;
}

#else

bool register_use_may_be_known(const struct elf_file *elf, uint64_t address) {
    (void)elf, (void)address;
    return true;
}

#endif
