// SPDX-License-Identifier: Apache-2.0
#include "linked_code.h"

#include <stdlib.h>
#include <string.h>

#include "hook_plan.h"
#ifdef HEAPTAPE_ZYDIS
#include <Zydis/Zydis.h>
#endif

// ---- what branches where ----

enum { PIECE_BYTES = 32 << 20, BRANCH_BYTES_MAX = 6 };

struct scan {
    struct branch_target *target;
    unsigned count;
    uint64_t lowest, highest;
};

static void take_target(const struct scan *scan, uint64_t target) {
    if (target < scan->lowest || target >= scan->highest) return;
    for (unsigned i = 0; i < scan->count; i++) {
        struct branch_target *one = &scan->target[i];
        if (target == one->entry) one->called = one->branched = true;
        else if (target >= one->begin && target < one->end) one->entered = true;
    }
}

static void take_pointer(const struct scan *scan, uint64_t word) {
    for (unsigned i = 0; word >= scan->lowest && word < scan->highest && i < scan->count; i++)
        if (word == scan->target[i].entry) scan->target[i].called = true;
}

// call and jmp (e8, e9), and the conditional jumps (0f 80 to 0f 8f), with four bytes of distance.
static void scan_code(const struct scan *scan, const uint8_t *code, uint64_t bytes, uint64_t address) {
    for (uint64_t i = 0; i + 5 <= bytes; i++) {
        uint64_t at = i;
        if (code[i] == 0x0f && (code[i + 1] & 0xf0) == 0x80) at++;
        else if ((code[i] & 0xfe) != 0xe8) continue;
        int32_t distance;
        if (at + 5 > bytes) return;
        memcpy(&distance, code + at + 1, sizeof distance);
        take_target(scan, address + at + 5 + (uint64_t)(int64_t)distance);
    }
}

// lea of an address: a pointer to a function is made by it.
static void scan_pointers(const struct scan *scan, const uint8_t *code, uint64_t bytes, uint64_t address) {
    enum { LEA = 0x8d, LEA_BYTES = 7 };
    int32_t distance;
    for (uint64_t i = 0; i + LEA_BYTES <= bytes; i++) {
        if ((code[i] & 0xfb) != 0x48 || code[i + 1] != LEA || (code[i + 2] & 0xc7) != 5) continue;
        memcpy(&distance, code + i + 3, sizeof distance);
        take_pointer(scan, address + i + LEA_BYTES + (uint64_t)(int64_t)distance);
    }
}

// Addresses, in tables and in the relocations of such: by them functions are called, too.
static void scan_data(const struct scan *scan, const uint8_t *data, uint64_t bytes) {
    uint64_t word;
    for (uint64_t at = 0; at + sizeof word <= bytes; at += sizeof word) {
        memcpy(&word, data + at, sizeof word);
        take_pointer(scan, word);
    }
}

// The names that the program exports are no calls.
static void scan_sections(const struct scan *scan, const struct elf_file *elf) {
    for (unsigned i = 0; i < elf->sections; i++) {
        const Elf64_Shdr *section = &elf->section[i];
        if (!(section->sh_flags & SHF_ALLOC) || (section->sh_flags & SHF_EXECINSTR) ||
            section->sh_type == SHT_DYNSYM || section->sh_type == SHT_NOBITS ||
            section->sh_addr % sizeof(uint64_t))
            continue;
        uint8_t *data = elf_file_at_address(elf, section->sh_addr, section->sh_size);
        if (data) scan_data(scan, data, section->sh_size);
        free(data);
    }
}

bool branch_scan(const struct elf_file *elf, struct branch_target *targets, unsigned count) {
    struct scan scan = {.target = targets, .count = count, .lowest = UINT64_MAX};
    for (unsigned i = 0; i < count; i++) {
        if (targets[i].entry < scan.lowest) scan.lowest = targets[i].entry;
        if (targets[i].end > scan.highest) scan.highest = targets[i].end;
    }
    for (unsigned i = 0; i < elf->segments; i++) {
        const Elf64_Phdr *segment = &elf->segment[i];
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X)) continue;
        for (uint64_t from = 0; from < segment->p_filesz; from += PIECE_BYTES) {
            uint64_t left = segment->p_filesz - from, most = PIECE_BYTES + BRANCH_BYTES_MAX;
            uint64_t bytes = left < most ? left : most;
            uint8_t *code = elf_file_at_address(elf, segment->p_vaddr + from, bytes);
            if (!code) return false;
            scan_code(&scan, code, bytes, segment->p_vaddr + from);
            scan_pointers(&scan, code, bytes, segment->p_vaddr + from);
            free(code);
        }
    }
    scan_sections(&scan, elf);
    return true;
}

#ifdef HEAPTAPE_ZYDIS

// ---- instructions ----

static bool instruction_decode(const uint8_t *code, size_t bytes, ZydisDecodedInstruction *instruction) {
    ZydisDecoder decoder;
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    ZydisDecoderEnableMode(&decoder, ZYDIS_DECODER_MODE_MINIMAL, ZYAN_FALSE);
    return ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, code, bytes, instruction));
}

static bool instruction_has_relative_target(const ZydisDecodedInstruction *instruction) {
    return instruction->raw.imm[0].is_relative;
}

// The target of an instruction at that address.
static uint64_t instruction_target(const ZydisDecodedInstruction *instruction, uint64_t address) {
    return address + instruction->length + (uint64_t)instruction->raw.imm[0].value.s;
}

// Control never comes behind it.
static bool instruction_is_last(const ZydisDecodedInstruction *instruction) {
    switch (instruction->mnemonic) {
    case ZYDIS_MNEMONIC_JMP:
    case ZYDIS_MNEMONIC_RET:
    case ZYDIS_MNEMONIC_UD0:
    case ZYDIS_MNEMONIC_UD1:
    case ZYDIS_MNEMONIC_UD2:
    case ZYDIS_MNEMONIC_HLT: return true;
    default: return false;
    }
}

// ---- the use of registers ----

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

// ---- moved code ----

bool moved_code_can(void) { return true; }

static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};

static bool is_relative_to_itself(const ZydisDecodedInstruction *instruction) {
    return (instruction->attributes & ZYDIS_ATTRIB_HAS_MODRM) && instruction->raw.modrm.mod == 0 &&
           instruction->raw.modrm.rm == 5;
}

// ---- writing ----

static void put(struct moved_code *moved, const void *bytes, unsigned length) {
    memcpy(moved->bytes + moved->length, bytes, length);
    moved->length += length;
}

static void put_byte(struct moved_code *moved, unsigned byte) {
    moved->bytes[moved->length++] = (uint8_t)byte;
}

// Four bytes at `offset` for a target, in an instruction that ends at `end`. False if it is too far.
static bool fix(struct moved_code *moved, unsigned offset, unsigned end, uint64_t to, uint64_t target) {
    int64_t distance = (int64_t)(target - (to + end));
    int32_t field = (int32_t)distance;
    if (field != distance || moved->fields == MOVED_FIELDS_MAX) return false;
    memcpy(moved->bytes + offset, &field, sizeof field);
    moved->field[moved->fields++] = offset;
    return true;
}

static bool put_target(struct moved_code *moved, uint64_t to, uint64_t target) {
    unsigned offset = moved->length;
    moved->length += 4;
    return fix(moved, offset, moved->length, to, target);
}

static bool put_jump(struct moved_code *moved, uint64_t to, uint64_t target) {
    put_byte(moved, 0xe9);
    return put_target(moved, to, target);
}

// An address onto the stack: no register and no flag changes. push rax; lea rax, [target]; xchg [rsp], rax
static bool put_push(struct moved_code *moved, uint64_t to, uint64_t target) {
    put(moved, "\x50\x48\x8d\x05", 4);
    bool fits = put_target(moved, to, target);
    put(moved, "\x48\x87\x04\x24", 4);
    moved->returns = true;
    return fits;
}

static const char too_far[] = "refers to what is too far away";
static const char immovable[] = "begins with an instruction that works in its place only";

// A jump or call to an address that the instruction names.
static const char *put_branch(struct moved_code *moved, const ZydisDecodedInstruction *instruction,
                              uint64_t from, uint64_t to) {
    uint64_t target = instruction_target(instruction, from);
    bool fits = false;
    if (instruction->attributes & ZYDIS_ATTRIB_HAS_OPERANDSIZE) return immovable;
    if (instruction->mnemonic == ZYDIS_MNEMONIC_JMP) {
        fits = put_jump(moved, to, target);
    } else if (instruction->mnemonic == ZYDIS_MNEMONIC_CALL) {
        // It returns to where the program's own call would: an unwinder finds its way from there only.
        fits = put_push(moved, to, from + instruction->length) && put_jump(moved, to, target);
    } else if (instruction->meta.category == ZYDIS_CATEGORY_COND_BR &&
               ((instruction->opcode_map == ZYDIS_OPCODE_MAP_DEFAULT &&
                 (instruction->opcode & 0xf0) == 0x70) ||
                (instruction->opcode_map == ZYDIS_OPCODE_MAP_0F && (instruction->opcode & 0xf0) == 0x80))) {
        put_byte(moved, 0x0f);
        put_byte(moved, 0x80 | (instruction->opcode & 0x0fu));
        fits = put_target(moved, to, target);
    } else {
        return immovable;
    }
    return fits ? NULL : too_far;
}

// A call by a pointer: jmp is call with another number in its ModRM byte.
static const char *put_indirect_call(struct moved_code *moved, const uint8_t *code,
                                     const ZydisDecodedInstruction *instruction, uint64_t from, uint64_t to) {
    if (!is_relative_to_itself(instruction)) return immovable;
    if (!put_push(moved, to, from + instruction->length)) return too_far;
    unsigned begin = moved->length;
    uint64_t target = from + instruction->length + (uint64_t)instruction->raw.disp.value;
    put(moved, code, instruction->length);
    uint8_t *modrm = &moved->bytes[begin + instruction->raw.modrm.offset];
    *modrm = (uint8_t)((*modrm & 0xc7) | 4 << 3);
    return fix(moved, begin + instruction->raw.disp.offset, moved->length, to, target) ? NULL : too_far;
}

static const char *put_instruction(struct moved_code *moved, const uint8_t *code,
                                   const ZydisDecodedInstruction *instruction, uint64_t from, uint64_t to) {
    if (instruction_has_relative_target(instruction)) return put_branch(moved, instruction, from, to);
    if (instruction->mnemonic == ZYDIS_MNEMONIC_CALL)
        return put_indirect_call(moved, code, instruction, from, to);
    unsigned begin = moved->length;
    put(moved, code, instruction->length);
    if (!is_relative_to_itself(instruction)) return NULL;
    uint64_t target = from + instruction->length + (uint64_t)instruction->raw.disp.value;
    return fix(moved, begin + instruction->raw.disp.offset, moved->length, to, target) ? NULL : too_far;
}

// ---- the rest of the function ----

// Whether an instruction from `at` on goes to an address before `end`: there are other instructions then. Calls of the
// function itself are calls like any other.
static const char *goes_back(const uint8_t *code, size_t bytes, uint64_t from, size_t at, size_t end) {
    ZydisDecodedInstruction instruction;
    for (; at < bytes; at += instruction.length) {
        if (!instruction_decode(code + at, bytes - at, &instruction))
            return "has bytes that are no instructions";
        if (!instruction_has_relative_target(&instruction)) continue;
        uint64_t offset = instruction_target(&instruction, from + at) - from;
        if (offset < end && (offset != 0 || instruction.mnemonic != ZYDIS_MNEMONIC_CALL))
            return "jumps back to its beginning";
    }
    return NULL;
}

const char *moved_code(struct moved_code *moved, const uint8_t *code, size_t bytes, uint64_t from,
                       uint64_t to) {
    ZydisDecodedInstruction instruction;
    bool last = false;
    *moved = (struct moved_code){0};
    if (bytes >= sizeof endbr64 && !memcmp(code, endbr64, sizeof endbr64)) moved->patch = sizeof endbr64;
    size_t at = moved->patch;
    for (; at < moved->patch + HT_HOOK_PATCH_BYTES; at += instruction.length) {
        if (last || at >= bytes) return "is too short";
        if (!instruction_decode(code + at, bytes - at, &instruction))
            return "has bytes that are no instructions";
        const char *why = put_instruction(moved, code + at, &instruction, from + at, to);
        if (why) return why;
        // Behind a call control comes back to the function itself.
        last = instruction_is_last(&instruction) || instruction.mnemonic == ZYDIS_MNEMONIC_CALL;
    }
    moved->end = (unsigned)at;
    if (!last && !put_jump(moved, to, from + at)) return too_far;
    return goes_back(code, bytes, from, moved->patch, at);
}

bool moved_code_is_jump(const uint8_t *code, size_t bytes, uint64_t from, uint64_t *to) {
    ZydisDecodedInstruction instruction;
    size_t at = bytes >= sizeof endbr64 && !memcmp(code, endbr64, sizeof endbr64) ? sizeof endbr64 : 0;
    if (at >= bytes || !instruction_decode(code + at, bytes - at, &instruction) ||
        !instruction_has_relative_target(&instruction) || instruction.mnemonic != ZYDIS_MNEMONIC_JMP)
        return false;
    *to = instruction_target(&instruction, from + at);
    return true;
}

#else

bool register_use_may_be_known(const struct elf_file *elf, uint64_t address) {
    (void)elf, (void)address;
    return true;
}

bool moved_code_can(void) { return false; }

const char *moved_code(struct moved_code *moved, const uint8_t *code, size_t bytes, uint64_t from,
                       uint64_t to) {
    (void)code, (void)bytes, (void)from, (void)to;
    *moved = (struct moved_code){0};
    return "cannot be disassembled by this build";
}

bool moved_code_is_jump(const uint8_t *code, size_t bytes, uint64_t from, uint64_t *to) {
    (void)code, (void)bytes, (void)from, (void)to;
    return false;
}

#endif
