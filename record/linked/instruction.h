// SPDX-License-Identifier: Apache-2.0
// Instructions of x86-64, as the disassembler has them. Only in a build with it.
#ifndef HEAPTAPE_INSTRUCTION_H
#define HEAPTAPE_INSTRUCTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <Zydis/Zydis.h>

static inline bool instruction_decode(const uint8_t *code, size_t bytes,
                                      ZydisDecodedInstruction *instruction) {
    ZydisDecoder decoder;
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    ZydisDecoderEnableMode(&decoder, ZYDIS_DECODER_MODE_MINIMAL, ZYAN_FALSE);
    return ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, code, bytes, instruction));
}

static inline bool instruction_has_relative_target(const ZydisDecodedInstruction *instruction) {
    return instruction->raw.imm[0].is_relative;
}

// Of an instruction at that address.
static inline uint64_t instruction_target(const ZydisDecodedInstruction *instruction, uint64_t address) {
    return address + instruction->length + (uint64_t)instruction->raw.imm[0].value.s;
}

// Control never comes behind it.
static inline bool instruction_is_last(const ZydisDecodedInstruction *instruction) {
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

#endif
