#include "scudo.h"

const struct ht_allocator ht_allocator_scudo14 = {
    .name = "scudo14",
    .title = "LLVM 14's scudo: hardened, checks what is freed",
    .debian = "libclang-rt-14-dev",
    .library = "llvm-14/lib/clang/*/lib/linux/libclang_rt.scudo_standalone-<processor>.so",
    .folder = "/llvm-14/",
    HT_SCUDO,
};
