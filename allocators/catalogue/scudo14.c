// SPDX-License-Identifier: Apache-2.0
#include "scudo.h"

const struct ht_allocator ht_allocator_scudo14 = {
    HT_BUILD_FACT(name, "scudo14"),
    .title = "LLVM 14's scudo: hardened, checks freed blocks",
    HT_BUILD_FACT(debian, "libclang-rt-14-dev"),
    HT_BUILD_FACT(library, "llvm-14/lib/clang/*/lib/linux/libclang_rt.scudo_standalone-<processor>.so"),
    HT_BUILD_FACT(folder, "/llvm-14/"),
    HT_SCUDO,
};
