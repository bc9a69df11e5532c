#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing and builds build/heaptape, build/replay and build/libmalloc_wrap.so; the tests only where they
# have been built before. Usage: ./build.sh [OPTION OF CMAKE...]
set -eu
cd "$(dirname "$0")"
./setup.sh
echo "build.sh: building, which takes about a minute"
[ -e build/CMakeCache.txt ] || set -- -DBUILD_TESTING=OFF "$@"
cmake --preset release --log-level=WARNING "$@" >/dev/null
cmake --build --preset release -- --quiet
echo "build.sh: done. Try it: build/heaptape try -- PROGRAM [ARGUMENT...]"
