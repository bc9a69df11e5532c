#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Whether replays with threads always come to their end: runs of a trace of four threads that allocate,
# reallocate and free each other's blocks, recorded on the spot, and of the traces named, under every
# allocator, in the time pass and in the memory pass.
#
#     bench/figures/thread_runs.sh RUNS [TRACE.bin...]
#
# Prints a line for each trace and each way to run it: how many runs came to the end with all calls of the
# trace, of how many, and how long they took. A run that hangs ends after five minutes and counts as failed.
# BUILD: the build folder, ../../build by default. Needs python3 and taskset.
set -eu
runs=${1:?RUNS [TRACE.bin...]}
shift
here=$(cd "$(dirname "$0")" && pwd)
build=${BUILD:-$here/../../build}
folder=$(mktemp -d)
hog=
trap '[ -z "$hog" ] || kill "$hog"; rm -rf "$folder"' EXIT

"$build/heaptape" record -o "$folder" -- "$build/tests/targets/threads_exchange" "$folder/counts" 200000 4 \
    2>"$folder/log"
"$build/heaptape" convert "$folder"/*.mraw -o "$folder/four-threads.bin" >"$folder/log" 2>&1

# Prints how many of the runs in the file are whole.
cat >"$folder/count.py" <<'COUNT'
import json, subprocess, sys

heaptape, trace, results, way, runs, status, seconds = sys.argv[1:]
events = json.loads(subprocess.check_output([heaptape, "info", "--json", trace]))["events"]
rows = []
try:
    rows = [json.loads(line) for line in open(results)]
except FileNotFoundError:
    pass
allocators = {row["allocator"]["name"] for row in rows}
whole = [row for row in rows if row["failures"] == 0 and row["problem"] is None
         and row["trace"]["events"] == events and not row["control"]]
expected = 2 * int(runs) * max(len(allocators), 1)
print(f"{trace.split('/')[-1]:20} {way:24} {len(whole):5} of {expected} runs whole "
      f"({len(allocators)} allocators, two passes each), status {status}, {float(seconds):.1f} s", flush=True)
COUNT

once() {
    trace=$1 way=$2
    shift 2
    rm -f "$folder/r.jsonl"
    begun=$(date +%s.%N) status=0
    timeout 300 "$@" "$trace" -q -o "$folder/r.jsonl" --rounds "$runs" >"$folder/table" 2>"$folder/log" || status=$?
    python3 "$folder/count.py" "$build/heaptape" "$trace" "$folder/r.jsonl" "$way" "$runs" "$status" \
        "$(echo "$(date +%s.%N) $begun" | awk '{print $1 - $2}')"
    [ "$status" = 0 ] || head -3 "$folder/log"
}

for trace in "$folder/four-threads.bin" "$@"; do
    once "$trace" "" "$build/replay" --alloc null,all
    once "$trace" "streamed" "$build/replay" --alloc null,all --decoded-memory 1
    once "$trace" "window 100 us" "$build/replay" --alloc null,all --window-ns 100000
    once "$trace" "two copies" "$build/replay" --alloc null,all --scale 2
    once "$trace" "one CPU" taskset -c 0 "$build/replay" --alloc null,all
    sh -c 'while :; do :; done' &
    hog=$!
    once "$trace" "beside a busy process" "$build/replay" --alloc null,all
    kill "$hog"
    hog=
done
