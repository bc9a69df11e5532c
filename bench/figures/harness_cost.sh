#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the harness itself costs: the null replayer on one thread, touching nothing.
#
#     bench/figures/harness_cost.sh TRACE.bin [BUILD]
#
# Prints instructions per event of the measured child (callgrind) and the best of ten runs in ns per event
# (thread CPU time of the replay, as results.jsonl gives it). Needs valgrind and python3.
set -eu
trace=$1
build=${2:-$(dirname "$0")/../../build}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# The launcher starts the replay-null beside itself: here, a copy of it finds one that runs under callgrind.
build=$(cd "$build" && pwd)
mkdir "$folder/bin"
cp -L "$build/heaptape" "$folder/bin/replay"
ln -s "$build/libheaptape_null.so" "$folder/bin/"
cat >"$folder/bin/replay-null" <<CHILD
#!/bin/sh
exec valgrind --tool=callgrind --callgrind-out-file=$folder/callgrind.%p \
    --toggle-collect=ht_engine_run $build/replay-null "\$@"
CHILD
chmod +x "$folder/bin/replay-null"

options="--alloc null --pass time --threads 1 --touch none --rounds 1"
# shellcheck disable=SC2086
if ! "$folder/bin/replay" -q $options "$trace" >"$folder/table" 2>"$folder/log"; then
    cat "$folder/log" >&2
    exit 1
fi
# shellcheck disable=SC2086
"$build/replay" -q $options --rounds 10 -o "$folder/r.jsonl" "$trace" >"$folder/table"

python3 - "$folder" <<'PRINT'
import glob, json, sys

folder = sys.argv[1]
runs = [json.loads(line) for line in open(f"{folder}/r.jsonl")]
calls = sum(function["count"] for function in runs[0]["calls"].values())
# Three children ran: one that only says who it is, the one of the total, and the timed one. The total's
# executes nothing but the stream, and so is the cheapest that executed anything.
totals = []
for path in glob.glob(f"{folder}/callgrind.*"):
    counts = [int(line.split()[1]) for line in open(path) if line.startswith(("summary:", "totals:"))]
    if counts and max(counts) > calls:
        totals.append(max(counts))
best = min(run["harness_time_ns"] for run in runs) / calls
print(f"{calls:,} events: {min(totals) / calls:.2f} instructions per event; "
      f"best of {len(runs)}: {best:.2f} ns per event")
PRINT
