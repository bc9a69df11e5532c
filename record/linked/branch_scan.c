// SPDX-License-Identifier: Apache-2.0
#include "branch_scan.h"

#include <stdlib.h>
#include <string.h>

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
