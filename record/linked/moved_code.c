// SPDX-License-Identifier: Apache-2.0
#include "moved_code.h"

#ifdef HEAPTAPE_ZYDIS

#include <string.h>

#include "hook_plan.h"
#include "instruction.h"

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
