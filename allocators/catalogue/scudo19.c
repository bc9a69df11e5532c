#include "scudo.h"

const struct ht_allocator ht_allocator_scudo19 = {
    .name = "scudo19",
    .title = "LLVM 19's scudo: hardened, checks what is freed",
    .debian = "libclang-rt-19-dev",
    .library = "llvm-19/lib/clang/*/lib/linux/libclang_rt.scudo_standalone-<processor>.so",
    .folder = "/llvm-19/",
    HT_SCUDO,
};
