// SPDX-License-Identifier: Apache-2.0
#include "ops.h"

#define ALLOC HT_KIND_ALLOC
#define FREE  HT_KIND_FREE

// clang-format off
const struct ht_function_info ht_functions[HT_FUNCTIONS] = {
    //                             name                          kind   size   extra  pseudo
    [HT_MALLOC] = {"malloc", ALLOC, true, false, false},
    [HT_CALLOC] = {"calloc", ALLOC, true, true, false},
    [HT_REALLOC] = {"realloc", HT_KIND_REALLOC, true, false, false},
    [HT_REALLOCARRAY] = {"reallocarray", HT_KIND_REALLOC, true, true, false},
    [HT_FREE] = {"free", FREE, false, false, false},
    [HT_POSIX_MEMALIGN] = {"posix_memalign", ALLOC, true, true, false},
    [HT_ALIGNED_ALLOC] = {"aligned_alloc", ALLOC, true, true, false},
    [HT_MEMALIGN] = {"memalign", ALLOC, true, true, false},
    [HT_VALLOC] = {"valloc", ALLOC, true, false, false},
    [HT_PVALLOC] = {"pvalloc", ALLOC, true, false, false},
    [HT_FREE_SIZED] = {"free_sized", FREE, true, false, false},
    [HT_FREE_ALIGNED_SIZED] = {"free_aligned_sized", FREE, true, true, false},
    [HT_CFREE] = {"cfree", FREE, false, false, false},
    [HT_NEW] = {"new", ALLOC, true, false, false},
    [HT_NEW_ARRAY] = {"new[]", ALLOC, true, false, false},
    [HT_NEW_ALIGNED] = {"new_aligned", ALLOC, true, true, false},
    [HT_NEW_ARRAY_ALIGNED] = {"new[]_aligned", ALLOC, true, true, false},
    [HT_DELETE] = {"delete", FREE, false, false, false},
    [HT_DELETE_ARRAY] = {"delete[]", FREE, false, false, false},
    [HT_DELETE_SIZED] = {"delete_sized", FREE, true, false, false},
    [HT_DELETE_ARRAY_SIZED] = {"delete[]_sized", FREE, true, false, false},
    [HT_DELETE_ALIGNED] = {"delete_aligned", FREE, false, true, false},
    [HT_DELETE_ARRAY_ALIGNED] = {"delete[]_aligned", FREE, false, true, false},
    [HT_DELETE_SIZED_ALIGNED] = {"delete_sized_aligned", FREE, true, true, false},
    [HT_DELETE_ARRAY_SIZED_ALIGNED] = {"delete[]_sized_aligned", FREE, true, true, false},
    [HT_USABLE_SIZE] = {"malloc_usable_size", HT_KIND_QUERY, false, false, false},
    [HT_ADVISE] = {"madvise", HT_KIND_ADVICE, true, true, true},
    [HT_CONTROL] = {"control", HT_KIND_CONTROL, true, true, true},
    [HT_DROP] = {"drop", FREE, false, false, true},
    [HT_INHERIT] = {"inherit", ALLOC, true, false, true},
};
// clang-format on

struct ht_op_shape ht_op_shape(uint8_t op) {
    struct ht_op_shape shape = {0};
    unsigned variant = ht_op_variant(op);
    const struct ht_function_info *info = &ht_functions[ht_op_function(op)];
    if (!info->name || variant >= HT_VARIANTS || (info->pseudo && variant != HT_PLAIN)) return shape;
    shape.size = info->size;
    shape.extra = info->extra;
    switch (info->kind) {
    case HT_KIND_ALLOC:
        shape.valid = variant == HT_PLAIN || variant == HT_FAILED;
        shape.slot = shape.makes_object = variant == HT_PLAIN;
        break;
    case HT_KIND_REALLOC:
        shape.valid = true;
        shape.slot = variant != HT_FAILED;
        shape.makes_object = variant == HT_NULL || variant == HT_FOREIGN;
        shape.ends_object = variant == HT_RELEASED;
        break;
    case HT_KIND_FREE:
        shape.valid = variant == HT_PLAIN || variant == HT_NULL || variant == HT_FOREIGN;
        shape.slot = shape.ends_object = variant == HT_PLAIN;
        break;
    case HT_KIND_QUERY: shape.valid = shape.slot = shape.query = variant == HT_PLAIN; break;
    case HT_KIND_CONTROL: shape.valid = shape.control = true; break;
    case HT_KIND_ADVICE: shape.valid = shape.control = shape.slot = shape.query = true; break;
    case HT_KIND_NONE: break;
    }
    shape.site = info->kind == HT_KIND_ALLOC || info->kind == HT_KIND_REALLOC;
    if (!shape.valid) shape = (struct ht_op_shape){0};
    return shape;
}
