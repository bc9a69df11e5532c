// SPDX-License-Identifier: Apache-2.0
#include "frame_size.h"

#if defined(__x86_64__) && defined(HEAPTAPE_UNWINDER)
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

// libgcc's, which no header declares: the table's entry for an address, and the start of its function.
struct eh_bases {
    void *text, *data, *function;
};
extern const void *_Unwind_Find_FDE(void *address, struct eh_bases *bases);

// Numbers and names are those of the DWARF standard (7.24, call frame instructions) and of the LSB (.eh_frame, augmentations).
enum {
    REGISTER_STACK_POINTER = FRAME_STACK_POINTER,
    REGISTER_RETURN_ADDRESS = 16,
    ENCODING_SIZE = 15,
    STATES_MAX = 8
};
enum {
    CFA_ADVANCE = 0x40,  // these three have an operand in their low bits
    CFA_OFFSET = 0x80,
    CFA_RESTORE = 0xc0,
    CFA_NOP = 0,
    CFA_ADVANCE_1 = 2,
    CFA_ADVANCE_2 = 3,
    CFA_ADVANCE_4 = 4,
    CFA_OFFSET_EXTENDED = 5,
    CFA_RESTORE_EXTENDED = 6,
    CFA_UNDEFINED = 7,
    CFA_SAME_VALUE = 8,
    CFA_REGISTER = 9,
    CFA_REMEMBER = 10,
    CFA_RESTORE_STATE = 11,
    CFA_DEFINE = 12,
    CFA_DEFINE_REGISTER = 13,
    CFA_DEFINE_OFFSET = 14,
    CFA_DEFINE_EXPRESSION = 15,
    CFA_EXPRESSION = 16,
    CFA_VAL_EXPRESSION = 22,
    CFA_ARGUMENTS_SIZE = 46
};

struct bytes {
    const uint8_t *at, *end;
    bool bad;  // read beyond the end
};

// The end of the frame: so many bytes above a register's value.
struct base {
    uint64_t number, offset;  // number: of the register
    bool is_defined, is_expression;
};

struct table {
    struct bytes initial, own;
    uint64_t code_factor, offset_factor;  // the latter as it is written
    uintptr_t at;                         // the code that the instructions have come to
    struct base base, remembered[STATES_MAX];
    unsigned states;
};

static uint64_t take(struct bytes *bytes, unsigned count) {
    uint64_t value = 0;
    if ((size_t)(bytes->end - bytes->at) < count) {
        bytes->bad = true;
        return 0;
    }
    memcpy(&value, bytes->at, count);
    bytes->at += count;
    return value;
}

static uint64_t take_leb(struct bytes *bytes) {
    uint64_t value = 0;
    for (unsigned bit = 0;; bit += 7) {
        uint64_t byte = take(bytes, 1);
        if (bit < 64) value |= (byte & 127) << bit;
        if (!(byte & 128)) return value;
    }
}

static void skip(struct bytes *bytes, uint64_t count) {
    if ((uint64_t)(bytes->end - bytes->at) < count) bytes->bad = true;
    else bytes->at += count;
}

// Bytes of a pointer that is written in this way; 0: of no fixed number.
static unsigned encoded_bytes(unsigned encoding) {
    static const uint8_t bytes[ENCODING_SIZE + 1] = {8, 0, 2, 4, 8, 0, 0, 0, 8, 0, 2, 4, 8};
    bool is_padded = (encoding & 0x70) == 0x50;
    return encoding == 255 || is_padded ? 0 : bytes[encoding & ENCODING_SIZE];
}

// An entry of the section: what follows its length.
static struct bytes entry_at(const uint8_t *at) {
    uint32_t length;
    memcpy(&length, at, sizeof length);
    struct bytes entry = {at + sizeof length, at + sizeof length + length, length == UINT32_MAX};
    if (entry.bad) entry.end = entry.at;
    return entry;
}

// All functions of a kind have this in common. False: more than is read here.
static bool read_common(struct table *table, const uint8_t *at, unsigned *address_bytes) {
    struct bytes entry = entry_at(at);
    take(&entry, 4);
    uint64_t version = take(&entry, 1);
    const char *augmentation = (const char *)entry.at;
    skip(&entry, strnlen(augmentation, (size_t)(entry.end - entry.at)) + 1);
    table->code_factor = take_leb(&entry);
    table->offset_factor = take_leb(&entry);
    uint64_t return_address = take_leb(&entry);
    *address_bytes = 8;
    if (entry.bad || version != 1 || return_address != REGISTER_RETURN_ADDRESS || *augmentation != 'z')
        return false;
    take_leb(&entry);
    for (const char *letter = augmentation + 1; *letter; letter++) {
        if (*letter == 'R') *address_bytes = encoded_bytes((unsigned)take(&entry, 1));
        else if (*letter == 'L') take(&entry, 1);
        else if (*letter == 'P') {
            unsigned bytes = encoded_bytes((unsigned)take(&entry, 1));
            if (!bytes) return false;
            skip(&entry, bytes);
        } else return false;  // S: a signal handler's
    }
    table->initial = entry;
    return *address_bytes && !entry.bad;
}

static bool read_table(struct table *table, const uint8_t *found, uintptr_t function) {
    struct bytes entry = entry_at(found);
    unsigned address_bytes;
    const uint8_t *back_from = entry.at;
    int32_t back = (int32_t)take(&entry, 4);
    if (entry.bad || !read_common(table, back_from - back, &address_bytes)) return false;
    skip(&entry, 2 * (uint64_t)address_bytes);
    skip(&entry, take_leb(&entry));
    table->own = entry;
    table->at = function;
    return !entry.bad;
}

// One that says where the frame ends. False: it is none.
static bool run_definition(struct table *table, struct bytes *code, unsigned instruction) {
    struct base *base = &table->base;
    switch (instruction) {
    case CFA_DEFINE:
        base->number = take_leb(code);
        base->offset = take_leb(code);
        base->is_defined = true;
        base->is_expression = false;
        return true;
    case CFA_DEFINE_REGISTER: base->number = take_leb(code); return true;
    case CFA_DEFINE_OFFSET: base->offset = take_leb(code); return true;
    case CFA_DEFINE_EXPRESSION:
        base->is_defined = base->is_expression = true;
        skip(code, take_leb(code));
        return true;
    case CFA_REMEMBER:
        if (table->states == STATES_MAX) code->bad = true;
        else table->remembered[table->states++] = *base;
        return true;
    case CFA_RESTORE_STATE:
        if (!table->states) code->bad = true;
        else *base = table->remembered[--table->states];
        return true;
    default: return false;
    }
}

// One that says where a register lies. False: that is the return address or the stack pointer, or it is unknown.
static bool run_register(struct bytes *code, unsigned instruction) {
    uint64_t number = take_leb(code);
    switch (instruction) {
    case CFA_OFFSET_EXTENDED:
    case CFA_REGISTER: take_leb(code); break;
    case CFA_EXPRESSION:
    case CFA_VAL_EXPRESSION: skip(code, take_leb(code)); break;
    case CFA_RESTORE_EXTENDED:
    case CFA_UNDEFINED:
    case CFA_SAME_VALUE: break;
    default: return false;
    }
    return number != REGISTER_RETURN_ADDRESS && number != REGISTER_STACK_POINTER;
}

static uint64_t advance_bytes(unsigned instruction) {
    return instruction == CFA_ADVANCE_1   ? 1
           : instruction == CFA_ADVANCE_2 ? 2
           : instruction == CFA_ADVANCE_4 ? 4
                                          : 0;
}

// The return address lies right below the frame's end, and the stack pointer nowhere.
static bool lies_as_ever(const struct table *table, unsigned number, uint64_t offset) {
    enum { MINUS_8 = 0x78 };
    return number != REGISTER_STACK_POINTER &&
           (number != REGISTER_RETURN_ADDRESS || (offset == 1 && table->offset_factor == MINUS_8));
}

// Up to the code before `address`. False: it says more than is read here.
static bool run(struct table *table, struct bytes code, uintptr_t address) {
    while (code.at < code.end && table->at < address && !code.bad) {
        unsigned instruction = (unsigned)take(&code, 1), operand = instruction & 63;
        uint64_t bytes = advance_bytes(instruction);
        switch (instruction & 0xc0) {
        case CFA_ADVANCE: table->at += operand * table->code_factor; continue;
        case CFA_OFFSET:
            if (!lies_as_ever(table, operand, take_leb(&code))) return false;
            continue;
        case CFA_RESTORE: continue;
        default: break;
        }
        if (instruction == CFA_NOP) continue;
        if (instruction == CFA_ARGUMENTS_SIZE) take_leb(&code);
        else if (bytes) table->at += take(&code, (unsigned)bytes) * table->code_factor;
        else if (!run_definition(table, &code, instruction) && !run_register(&code, instruction))
            return false;
    }
    return !code.bad;
}

// False: there is no table, or more in it than is read here.
static bool find_base(uintptr_t address, struct base *base) {
    struct eh_bases bases;
    struct table table = {.states = 0};
    const void *found = _Unwind_Find_FDE((void *)(address - 1), &bases);
    if (!found || !read_table(&table, found, (uintptr_t)bases.function)) return false;
    if (!run(&table, table.initial, UINTPTR_MAX) || !run(&table, table.own, address)) return false;
    *base = table.base;
    return true;
}

uintptr_t frame_size(uintptr_t address) {
    enum { BYTES_MAX = 256 << 10 };
    struct base base;
    bool fixed = find_base(address, &base) && !base.is_expression && base.number == REGISTER_STACK_POINTER;
    return fixed && base.offset <= BYTES_MAX && base.offset % 8 == 0 ? base.offset : 0;
}

struct frame_base frame_base(uintptr_t address) {
    struct base base;
    if (!find_base(address, &base) || base.is_expression)
        return (struct frame_base){FRAME_BASE_UNKNOWN, 0, 0};
    return (struct frame_base){base.is_defined ? FRAME_BASE_KNOWN : FRAME_BASE_MISSING, base.number,
                               base.offset};
}

#else
uintptr_t frame_size(uintptr_t address) {
    (void)address;
    return 0;
}
struct frame_base frame_base(uintptr_t address) {
    (void)address;
    return (struct frame_base){FRAME_BASE_UNKNOWN, 0, 0};
}
#endif
