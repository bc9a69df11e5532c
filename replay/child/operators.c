// SPDX-License-Identifier: Apache-2.0
#include "operators.h"

#include <dlfcn.h>

#include "allocator.h"
#include "allocator_calls.h"

struct operator_names {
    const char *make[HT_NEW_KINDS], *make_nothrow[HT_NEW_KINDS], *end[HT_FREE_KINDS];
};
static const struct operator_names names = {
    .make = {[HT_BY_NEW] = "_Znwm", [HT_BY_NEW_ARRAY] = "_Znam"},
    .make_nothrow = {[HT_BY_NEW] = "_ZnwmRKSt9nothrow_t", [HT_BY_NEW_ARRAY] = "_ZnamRKSt9nothrow_t"},
    .end = {[HT_BY_DELETE] = "_ZdlPv",
            [HT_BY_DELETE_ARRAY] = "_ZdaPv",
            [HT_BY_DELETE_SIZED] = "_ZdlPvm",
            [HT_BY_DELETE_ARRAY_SIZED] = "_ZdaPvm",
            [HT_BY_DELETE_ALIGNED] = "_ZdlPvmSt11align_val_t",
            [HT_BY_DELETE_ARRAY_ALIGNED] = "_ZdaPvmSt11align_val_t"}};

// As the loader binds a program's call: the allocator is before the C++ library.
static void *as_program_finds(void *library, const char *name) {
    void *function = dlsym(RTLD_DEFAULT, name);
    return function || !library ? function : dlsym(library, name);
}

static void *find(void *library, bool as_program, const struct ht_server *server, const char *name) {
    if (!name) return NULL;
    if (as_program) return as_program_finds(library, name);
    return server->kind && server->kind->has_operators ? ht_server_function(name) : NULL;
}

static const char *sized_free(const struct ht_allocator *kind, enum ht_free_kind how) {
    if (kind && how == HT_BY_FREE_SIZED) return kind->sized_free;
    if (kind && how == HT_BY_FREE_ALIGNED) return kind->sized_free_aligned;
    return NULL;
}

struct ht_operators ht_operators_find(const struct ht_server *server, bool as_program) {
    if (server->kind && server->kind->is_null) as_program = false;
    void *library = as_program ? dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL) : NULL;
    void *make = (void *)HT_CALL_MALLOC, *end = (void *)HT_CALL_FREE;
    struct ht_operators found;
    for (unsigned i = 0; i < HT_NEW_KINDS; i++) {
        const char *name = as_program ? names.make[i] : names.make_nothrow[i];
        void *function = find(library, as_program, server, name);
        found.make[i] = (ht_new_call *)(function ? function : make);
    }
    for (unsigned i = 0; i < HT_FREE_KINDS; i++) {
        const char *own = sized_free(server->kind, i);
        void *function = own ? ht_server_function(own) : find(library, as_program, server, names.end[i]);
        found.end[i] = (ht_free_call *)(function ? function : end);
    }
    return found;
}

bool ht_operators_lacking(const struct ht_operators *operators) {
    return operators->make[HT_BY_NEW] == operators->make[HT_BY_MALLOC];
}
