#include "scudo.h"

const struct ht_allocator ht_allocator_scudo14 = {
    HT_TOLD(name, "scudo14"),
    .title = "LLVM 14's scudo: hardened, checks what is freed",
    HT_TOLD(debian, "libclang-rt-14-dev"),
    HT_TOLD(library, "llvm-14/lib/clang/*/lib/linux/libclang_rt.scudo_standalone-<processor>.so"),
    .folder = "/llvm-14/",
    HT_SCUDO,
};
