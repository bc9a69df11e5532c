// SPDX-License-Identifier: Apache-2.0
#include "dwarf_functions.h"

#include <dwarf.h>
#include <stdlib.h>

#include "grow.h"
#include "sorted.h"

enum { NESTING_MAX = 64 };

static void sort(struct dwarf_ranges *ranges) {
    if (ranges->count) qsort(ranges->range, ranges->count, sizeof *ranges->range, ht_by_word);
}

// Code that the linker left out lies at 0.
static void add_ranges(struct dwarf_ranges *ranges, Dwarf_Die *die, uint32_t unit) {
    Dwarf_Addr base, low, high;
    ptrdiff_t at = 0;
    while ((at = dwarf_ranges(die, at, &base, &low, &high)) > 0) {
        if (!low || low >= high) continue;
        if (!ht_grow(&ranges->range, &ranges->room, ranges->count + 1, sizeof *ranges->range)) return;
        ranges->range[ranges->count++] = (struct dwarf_range){low, high, unit, *die};
    }
}

static const struct dwarf_range *find(const struct dwarf_ranges *ranges, Dwarf_Addr address) {
    size_t behind = HT_FIRST_ABOVE(ranges->range, ranges->count, low, address);
    return behind && address < ranges->range[behind - 1].high ? &ranges->range[behind - 1] : NULL;
}

void dwarf_functions_open(struct dwarf_functions *functions, Dwarf *dwarf) {
    Dwarf_CU *cu = NULL;
    Dwarf_Die die, split;
    uint8_t type;
    *functions = (struct dwarf_functions){0};
    while (dwarf && dwarf_get_units(dwarf, cu, &cu, NULL, &type, &die, &split) == 0) {
        if (type != DW_UT_compile && type != DW_UT_skeleton) continue;
        if (!ht_grow(&functions->unit, &functions->units_room, functions->units + 1, sizeof *functions->unit))
            return;
        functions->unit[functions->units] =
            (struct dwarf_unit){die, dwarf_tag(&split) > 0 ? split : die, false};
        add_ranges(&functions->of_units, &die, (uint32_t)functions->units++);
    }
    sort(&functions->of_units);
}

void dwarf_functions_close(struct dwarf_functions *functions) {
    free(functions->unit);
    free(functions->of_units.range);
    free(functions->of_functions.range);
    *functions = (struct dwarf_functions){0};
}

static void read_functions(struct dwarf_functions *functions, Dwarf_Die *parent, uint32_t unit,
                           unsigned depth) {
    Dwarf_Die die;
    if (depth == NESTING_MAX || dwarf_child(parent, &die)) return;
    do {
        switch (dwarf_tag(&die)) {
        case DW_TAG_subprogram: add_ranges(&functions->of_functions, &die, unit); break;
        case DW_TAG_namespace:
        case DW_TAG_module:
        case DW_TAG_class_type:
        case DW_TAG_structure_type:
        case DW_TAG_union_type: read_functions(functions, &die, unit, depth + 1); break;
        default: break;
        }
    } while (dwarf_siblingof(&die, &die) == 0);
}

void dwarf_functions_want(struct dwarf_functions *functions, Dwarf_Addr address) {
    const struct dwarf_range *range = find(&functions->of_units, address);
    if (!range || functions->unit[range->unit].read) return;
    functions->unit[range->unit].read = true;
    read_functions(functions, &functions->unit[range->unit].functions, range->unit, 0);
}

void dwarf_functions_ready(struct dwarf_functions *functions) { sort(&functions->of_functions); }

const struct dwarf_unit *dwarf_functions_unit(const struct dwarf_functions *functions, Dwarf_Addr address) {
    const struct dwarf_range *range = find(&functions->of_units, address);
    return range ? &functions->unit[range->unit] : NULL;
}

const struct dwarf_range *dwarf_functions_find(const struct dwarf_functions *functions, Dwarf_Addr address) {
    return find(&functions->of_functions, address);
}

static bool is_code(Dwarf_Die *die) {
    switch (dwarf_tag(die)) {
    case DW_TAG_inlined_subroutine:
    case DW_TAG_lexical_block:
    case DW_TAG_try_block:
    case DW_TAG_catch_block: return true;
    default: return false;
    }
}

// The part of the code that has the address.
static bool part_at(Dwarf_Die *parent, Dwarf_Addr address, Dwarf_Die *part) {
    if (dwarf_child(parent, part)) return false;
    do
        if (is_code(part) && dwarf_haspc(part, address) > 0) return true;
    while (dwarf_siblingof(part, part) == 0);
    return false;
}

unsigned dwarf_functions_inlined(const struct dwarf_range *function, Dwarf_Addr address,
                                 Dwarf_Die inlined[DWARF_INLINED_MAX]) {
    Dwarf_Die at = function->function, part;
    unsigned count = 0;
    for (unsigned depth = 0; depth < 4 * DWARF_INLINED_MAX && part_at(&at, address, &part); depth++) {
        if (dwarf_tag(&part) == DW_TAG_inlined_subroutine && count < DWARF_INLINED_MAX)
            inlined[count++] = part;
        at = part;
    }
    return count;
}
