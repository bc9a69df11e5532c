#include "scudo.h"

const struct ht_allocator ht_allocator_scudo19 = {
    HT_TOLD(name, "scudo19"),
    .title = "LLVM 19's scudo: hardened, checks what is freed",
    HT_TOLD(debian, "libclang-rt-19-dev"),
    HT_TOLD(library, "llvm-19/lib/clang/*/lib/linux/libclang_rt.scudo_standalone-<processor>.so"),
    .folder = "/llvm-19/",
    HT_SCUDO,
};
