# SPDX-License-Identifier: Apache-2.0
# In the chroot, for each wheel: builds /heaptape with the sources of /crates, and puts what is packaged into /made.
set -eu
export je_cv_gettid=no # of glibc 2.30: for jemalloc's configure
export CXXFLAGS="-include /heaptape/base/older_libc.h"
rm -rf /build /made
mkdir -p /build/heaptape /made/recorder/glibc /made/recorder/musl /made/licences
cp -r /crates /build/heaptape/crates
cd /heaptape
doc=/usr/share/doc
valgrind=/opt/newer/valgrind/usr

zydis=/crates/zydis/vendor/zydis/zydis-c
for part in $zydis/dependencies/zycore $zydis; do
    build=/build/$(basename "$part")
    cmake -S "$part" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/build/libraries -DCMAKE_INSTALL_LIBDIR=lib \
        -DZYDIS_BUILD_TOOLS=OFF -DZYDIS_BUILD_EXAMPLES=OFF -DZYDIS_BUILD_DOXYGEN=OFF -DZYDIS_BUILD_MAN=OFF -DZYDIS_BUILD_TESTS=OFF \
        -DZYDIS_FEATURE_ENCODER=OFF -DZYDIS_FEATURE_FORMATTER=OFF
    cmake --build "$build"
    cmake --install "$build"
done

# What archives need comes after all of them. An allocator whose sources cannot be had is no reason to go on without it.
cmake -S . -B /build/heaptape -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF -DHEAPTAPE_READER=OFF \
    -DCMAKE_INSTALL_PREFIX=/prefix -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_PREFIX_PATH=/build/libraries \
    -DCMAKE_C_FLAGS="-include /heaptape/base/older_libc.h" -DCMAKE_C_STANDARD_LIBRARIES="-lelf -lbz2 -llzma -lz -lnettle -L/build/libraries/lib -lZycore" \
    -DEXTRA_ALLOCATORS=ON -DEXTRA_JEMALLOC=ON -DHEAPTAPE_SIMULATION_PACKAGE="pip install heaptape-simulate" \
    -DHEAPTAPE_VALGRIND_HEADERS=$valgrind/include/valgrind -DHEAPTAPE_VALGRIND_FILES=$valgrind/libexec/valgrind \
    -DHEAPTAPE_VALGRIND_CORE="$(find $valgrind -name libcoregrind-amd64-linux.a)" >/build/configured 2>&1 ||
    { cat /build/configured && exit 1; }
if grep -A 20 'Left out' /build/configured; then exit 1; fi
grep -q '^HEAPTAPE_UNWINDER:INTERNAL=1$' /build/heaptape/CMakeCache.txt # else the recorder has no call sites
grep -q '^HEAPTAPE_ZYDIS:FILEPATH=/build' /build/heaptape/CMakeCache.txt
cmake --build /build/heaptape
DESTDIR=/made cmake --install /build/heaptape --strip
strip --strip-debug /made/prefix/libexec/heaptape/*.so*
cd /made/prefix/libexec/heaptape/valgrind
rm vgpreload_core-x86-linux.so # for programs of 32 bits, which the tool does not run
for link in *; do
    if [ -L "$link" ]; then cp --remove-destination "$(readlink "$link")" "$link"; fi
done
cp /heaptape/packaging/launch_tool.sh valgrind
cd /heaptape

cmake -S . -B /build/musl -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER=musl-gcc -DHEAPTAPE_SHIM_ONLY=ON
cmake --build /build/musl
cp /made/prefix/lib/libmalloc_wrap.so /made/prefix/lib/libmalloc_wrap_full.so /made/recorder/glibc
cp /build/musl/libmalloc_wrap.so /build/musl/libmalloc_wrap_full.so /made/recorder/musl
cp LICENSE NOTICE /made/recorder
cp packaging/RECORDER /made/recorder/README

# The symbols that are used say on which C library all of it runs.
highest() { objdump -T "$@" 2>/dev/null | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1; }
[ "$(printf 'GLIBC_2.17\n%s\n' "$(highest /made/prefix/lib/*.so)" | sort -V | tail -n 1)" = GLIBC_2.17 ]

for package in libzstd-dev libxxhash-dev libjansson-dev libarchive-dev libdw-dev libelf-dev libiberty-dev nettle-dev zlib1g-dev liblzma-dev \
    libbz2-dev gcc-10-base; do
    cp -L $doc/$package/copyright "/made/licences/$package"
done
cp NOTICE packaging/LINKED.md /made/licences
for source in /crates/*/vendor/* /build/heaptape/archives/*/unpacked/*; do
    name=$(basename "$source")
    case $source in
    # Neither what a crate needs to build itself nor what is not built.
    /crates/*) [ -d "/crates/$name" ] && [ "$name" != libtcmalloc-sys ] || continue ;;
    */\*) continue ;;
    esac
    find "$source" -maxdepth 4 -type f \( -iname 'licen[cs]e*' -o -iname 'copying*' -o -iname 'copyright*' \) | sort | while read -r file; do
        echo "== ${file#"$source"/}"
        cat "$file"
    done >"/made/licences/$name"
    [ -s "/made/licences/$name" ] || rm "/made/licences/$name"
done
mkdir /made/licences-simulate
cp simulate/tool/COPYING /made/licences-simulate
cp -L $valgrind/share/doc/valgrind/copyright /made/licences-simulate/valgrind
cp packaging/LINKED.md /made/licences-simulate
