// SPDX-License-Identifier: Apache-2.0
// The functions of a module by address, from its DWARF, of those compilation units that are asked for.
#ifndef HEAPTAPE_DWARF_FUNCTIONS_H
#define HEAPTAPE_DWARF_FUNCTIONS_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dwarf_unit {
    Dwarf_Die lines;      // has the table of lines
    Dwarf_Die functions;  // has the functions: another one where they lie in a file of their own
    bool read;
};

struct dwarf_range {
    Dwarf_Addr low, high;
    uint32_t unit;
    Dwarf_Die function;  // of functions[]
};

struct dwarf_ranges {
    struct dwarf_range *range;
    size_t count, room;
};

struct dwarf_functions {
    struct dwarf_unit *unit;
    size_t units, units_room;
    struct dwarf_ranges of_units, of_functions;  // in the order of addresses
};

void dwarf_functions_open(struct dwarf_functions *functions, Dwarf *dwarf);
void dwarf_functions_close(struct dwarf_functions *functions);

// All addresses that will be asked for, before the first is: reads the functions of their units.
void dwarf_functions_want(struct dwarf_functions *functions, Dwarf_Addr address);
void dwarf_functions_ready(struct dwarf_functions *functions);

// NULL: not known.
const struct dwarf_unit *dwarf_functions_unit(const struct dwarf_functions *functions, Dwarf_Addr address);
const struct dwarf_range *dwarf_functions_find(const struct dwarf_functions *functions, Dwarf_Addr address);

// The calls at the address that the compiler inlined into the function, the outermost first. Returns their number.
enum { DWARF_INLINED_MAX = 64 };
unsigned dwarf_functions_inlined(const struct dwarf_range *function, Dwarf_Addr address,
                                 Dwarf_Die inlined[DWARF_INLINED_MAX]);

#endif
