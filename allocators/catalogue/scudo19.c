// SPDX-License-Identifier: Apache-2.0
#include "scudo.h"

const struct ht_allocator ht_allocator_scudo19 = {
    HT_BUILD_FACT(name, "scudo19"),
    .title = "LLVM 19's scudo: hardened, checks freed blocks",
    HT_BUILD_FACT(debian, "libclang-rt-19-dev"),
    HT_BUILD_FACT(library, "llvm-19/lib/clang/*/lib/linux/libclang_rt.scudo_standalone-<processor>.so"),
    HT_BUILD_FACT(folder, "/llvm-19/"),
    HT_SCUDO,
};
