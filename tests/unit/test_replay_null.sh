#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Replays an artificial trace, whose threads take over each other's blocks, with the null allocator, in this
# build: with a sanitizer this is the check of the launcher and of the measured child as whole programs.
#
#     test_replay_null.sh BUILD
#
# Without UNIT_THOROUGH in the environment, fewer calls and not every combination.
set -eu
build=$1
thorough=${UNIT_THOROUGH:-}
share=$([ "$thorough" ] && echo 1 || echo 4)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
make_trace() { "$build/bench/make_trace" "$folder/t.bin" "$@"; }
make_trace $((40000 / share)) 2000 6 1 1000

replay() {
    rm -f "$folder/r.jsonl"
    if ! "$build/replay" --alloc null --rounds 1 "$@" -o "$folder/r.jsonl" "$folder/t.bin" \
        >"$folder/out" 2>&1; then
        echo "heaptape replay --alloc null $* failed:"
        cat "$folder/out"
        exit 1
    fi
    # A line for each pass, in which nothing failed.
    if [ "$(grep -c '"failures":0,"refused_calls":0,"problem":null' "$folder/r.jsonl")" != 2 ]; then
        echo "heaptape replay --alloc null $*: two runs without failures expected:"
        cut -c 1-300 "$folder/r.jsonl"
        exit 1
    fi
}

replay --threads 1
replay --threads trace --touch all --window-ns 100000 --pace none
if [ "$thorough" ]; then
    replay --threads trace
    replay --threads 1 --touch none
    replay --threads trace --scale 3
    replay --threads 1 --scale 3
fi
replay --threads trace --scale 2 --decoded-memory 1

# Every second op is on a block that another thread had, so that all wait for each other all the time.
make_trace $((5000 / share)) 4 12 2 100000
replay --threads trace
[ -z "$thorough" ] || replay --threads trace --window-ns 100000
# All at the same moment; and each after a pause.
make_trace $((5000 / share)) 50 40 3 0
replay --threads trace
make_trace $((2500 / share)) 50 40 4 10000000
[ -z "$thorough" ] || replay --threads trace
replay --threads trace --scale 5
