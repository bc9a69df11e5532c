// SPDX-License-Identifier: Apache-2.0
#include "allocator.h"

extern const struct ht_allocator ht_allocator_tcmalloc;

const struct ht_allocator ht_allocator_gperftools = {
    HT_BUILD_FACT(name, "gperftools"),
    .title = "gperftools 2.16's tcmalloc: size classes with thread caches, keeps freed memory",
    HT_BUILD_FACT(soname, "libtcmalloc_minimal-gperftools.so"),
    .build_of = &ht_allocator_tcmalloc,
    HT_BUILD_FACT(archive, "pool/main/g/google-perftools/google-perftools_2.16.orig.tar.gz"),
    HT_BUILD_FACT(archive_sha256, "737be182b4e42f5c7f595da2a7aa59ce0489a73d336d0d16847f2aa52d5221b4"),
    HT_BUILD_FACT(build_configure, ". CMakeLists.txt tcmalloc_minimal"),
    HT_BUILD_FACT(
        build_flags,
        "-Dgperftools_build_minimal=ON -DBUILD_TESTING=OFF -DCMAKE_BUILD_TYPE=Release -DCMAKE_RELEASE_POSTFIX=-gperftools "
        "'-DCMAKE_CXX_FLAGS_RELEASE=-O2 -DNDEBUG' "
        "'-DCMAKE_SHARED_LINKER_FLAGS=-static-libstdc++ -static-libgcc -Wl,--exclude-libs,ALL'"),
};
