#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sets up, builds, reads the sources, and runs the tests of the quick tier: C unit tests under the address and
# undefined-behaviour sanitizers, then the tools themselves. With --all also those that are marked thorough, and the unit
# tests of the release and under the thread sanitizer. (CONTRIBUTING.md, "Tests")
# Usage: ./test.sh [--all] [PYTEST OPTION...]
set -eu
cd "$(dirname "$0")"

step() { printf '\n== %s\n' "$*"; }

# Shows the command as one would type it, then runs it.
run() {
    printf '$ %s\n' "$*"
    "$@" || stop "$1 failed with status $?"
}

stop() {
    echo "test.sh: $*" >&2
    exit 1
}

build() {
    run cmake --preset "$1" -DBUILD_TESTING=ON -DHEAPTAPE_WERROR=ON --log-level=WARNING
    run cmake --build --preset "$1" -- --quiet
}

labels="-L quick" tests="not slow and not thorough"
if [ "${1:-}" = --all ]; then
    labels="" tests="not slow"
    shift
fi

step "Setting up, where something is missing: packages, then a Python environment while the release is built"
run ./setup.sh --test-packages
echo "\$ ./setup.sh --tests &"
./setup.sh --tests &
build release
wait $! || stop "./setup.sh failed with status $?"

step "Reading the sources"
run ./check.sh

# shellcheck disable=SC2086  # an option and its word, or nothing
{
    step "Unit tests of the release build"
    run ctest -j "$(nproc)" --preset release $labels

    step "Unit tests under the address and undefined-behaviour sanitizers"
    build asan-ubsan
    run ctest -j "$(nproc)" --preset asan-ubsan $labels
}

if [ -z "$labels" ]; then
    step "Unit tests under the thread sanitizer"
    build tsan
    # gcc 12's thread sanitizer knows only the address layouts of older kernels: no randomisation for it.
    if setarch -R true 2>/dev/null; then
        run setarch -R ctest -j "$(nproc)" --preset tsan
    else
        run ctest -j "$(nproc)" --preset tsan
    fi
fi

step "Tests of the tools, end to end"
# One more than processors: a quarter of the tests' time is waiting. exec: pytest's summary is then the last line, whatever it
# says.
workers=$(($(nproc) + 1))
echo "\$ .venv/bin/python -m pytest -q -m \"$tests\" -n $workers --dist worksteal"
exec .venv/bin/python -m pytest -q -m "$tests" -n "$workers" --dist worksteal "$@"
