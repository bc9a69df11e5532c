// SPDX-License-Identifier: Apache-2.0
#include "scudo.h"

const struct ht_allocator ht_allocator_scudo16 = {
    HT_BUILD_FACT(name, "scudo16"),
    .title = "LLVM 16's scudo: hardened, checks freed blocks",
    HT_BUILD_FACT(debian, "libclang-rt-16-dev"),
    HT_BUILD_FACT(library, "llvm-16/lib/clang/*/lib/linux/libclang_rt.scudo_standalone-<processor>.so"),
    HT_BUILD_FACT(folder, "/llvm-16/"),
    HT_SCUDO,
};
