// SPDX-License-Identifier: Apache-2.0
// The call sites of a foreign trace: modules, places in their code, frames of stacks, as the importers come across them, and
// the tables that the trace gets of them.
#ifndef HEAPTAPE_IMPORT_SITES_H
#define HEAPTAPE_IMPORT_SITES_H

#include <jansson.h>

#include "convert_request.h"
#include "name_builder.h"
#include "site_table.h"
#include "trace_writer.h"

struct import_sites {
    struct ht_site_table table;
    struct name_builder names;
    json_t *modules;
    struct map64 module_of;    // hash of a path -> the module's number
    struct map64 location_of;  // module and offset -> number of the location
    struct map64 caller_of;    // parent and location -> number of the caller
    struct map64 site_of;      // innermost caller and flags -> number of the site
    bool no_memory;            // the tables are not complete
};

bool import_sites_init(struct import_sites *sites);
void import_sites_free(struct import_sites *sites);

// The number of a module, from 1. The same path is the same module.
uint32_t import_sites_module(struct import_sites *sites, const char *path, size_t bytes);

// The number of a place, from 0; module 0: in no known module, at an absolute address. A return address, less its module's load
// bias. *known: it had a number before; else it may be given names, by import_sites_name.
uint32_t import_sites_location(struct import_sites *sites, uint32_t module, uint64_t offset, bool *known);

// A function at the location last added, inlined ones first, the innermost before all. NULL and line 0: unknown.
void import_sites_name(struct import_sites *sites, uint32_t location, const char *function, const char *file,
                       uint32_t line);

// The number of a frame, from 1, below its caller's frame `parent` (0: the outermost).
uint32_t import_sites_caller(struct import_sites *sites, uint32_t parent, uint32_t location);

// The number of the site whose innermost frame that is, for struct import_call. 0: no frame is known.
uint32_t import_sites_number(struct import_sites *sites, uint32_t caller, uint32_t flags);

// Looks up names, unless the request forbids it, in files no newer than the trace that came in, and writes the tables. Returns 0,
// or -1 with error.
int import_sites_put(struct import_sites *sites, const struct convert_request *request,
                     struct ht_trace_writer *writer, struct ht_error *error);

#endif
