#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The figures of the whole path on real programs, CPython at JSON work and gcc's cc1 and cc1plus: bytes per event of the raw log and
# of the trace; events converted per second, by the clock and by CPU time (each the best of five), and the memory that took;
# events decoded per second of CPU time; and the peak RSS replayed under glibc beside the recorded one.
#
#     bench/figures/path_figures.sh [BUILD]
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${1:-$root/build}" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# The CPU seconds, the seconds by the clock and the peak RSS in kB of one conversion.
convert_once() {
    python3 - "$build/heaptape" "$1" "$2" <<'PYTHON'
import os, sys, time
started = time.monotonic()
pid = os.posix_spawn(sys.argv[1], [sys.argv[1], "convert", "-q", sys.argv[2], "-o", sys.argv[3]], os.environ)
_, status, used = os.wait4(pid, 0)
took = time.monotonic() - started
print(f"{used.ru_utime + used.ru_stime:.4f} {took:.4f} {used.ru_maxrss}")
sys.exit(os.waitstatus_to_exitcode(status))
PYTHON
}

figures_of() {
    # shellcheck disable=SC2012  # by size; the names are ours
    name=$1 raw=$(ls -S "$folder/$name"/*.mraw | head -n 1) trace=$folder/$name.bin
    for _ in 1 2 3 4 5; do convert_once "$raw" "$trace"; done >"$folder/rounds"
    cpu=$(sort -n "$folder/rounds" | awk 'NR == 1 { print $1, $3 }')
    clock=$(awk '{ print $2 }' "$folder/rounds" | sort -n | head -n 1)
    "$build/replay" --alloc glibc --rounds 3 --pass memory --json "$trace" >"$folder/comparison.json" 2>/dev/null
    "$build/heaptape" info "$trace" --json >"$folder/info.json"
    # shellcheck disable=SC2086  # two words
    python3 - "$name" "$raw" "$folder" $cpu "$clock" <<'PYTHON'
import json, os, sys
name, raw, folder, cpu_s, kilobytes, clock_s = sys.argv[1:]
info = json.load(open(f"{folder}/info.json"))
replayed = json.load(open(f"{folder}/comparison.json"))
peak = next(a for a in replayed["allocators"] if a["name"].startswith("glibc"))["rss_peak_bytes"]
peak = peak["median"] if isinstance(peak, dict) else peak
events, recorded = info["events"], info["recorded_heap_rss_peak_bytes"]
print(f"{name}: {events:,} events; raw {os.stat(raw).st_blocks * 512 / events:.2f} B/event; "
      f"trace {info['bytes_per_event']:.2f} B/event; converted {events / float(clock_s) / 1e6:.1f} M events/s by "
      f"the clock, {events / float(cpu_s) / 1e6:.1f} by CPU time, in "
      f"{int(kilobytes) / 1024:.0f} MiB ({info['peak_live_objects']:,} live objects at peak); "
      f"peak RSS {peak / 1e6:.1f} MB replayed, {recorded / 1e6:.1f} MB recorded ({100 * (peak / recorded - 1):+.1f} %); "
      f"{info['anomalies']} anomalies, {info['foreign_frees']} foreign frees")
PYTHON
}

mkdir "$folder/CPython" "$folder/cc1" "$folder/cc1plus"
python=/usr/bin/python3
PYTHONMALLOC=malloc "$build/heaptape" record -q -o "$folder/CPython" -- "$python" "$root/bench/programs/json_work.py" >/dev/null
"$build/heaptape" record -q -o "$folder/cc1" -- gcc -O2 -std=gnu11 -D_GNU_SOURCE -I"$root/base" -I"$root/format" -I"$root/format/raw" \
    -I"$root/format/trace" -I"$root/convert/merge" -c "$root/convert/merge/merge.c" -o "$folder/merge.o"
"$build/heaptape" record -q -o "$folder/cc1plus" -- g++ -O2 -std=c++17 -c "$root/bench/compatibility/work/sources/templates.cpp" -o "$folder/templates.o"
for program in CPython cc1 cc1plus; do figures_of "$program"; done
"$build/bench/decode_speed" "$folder/CPython.bin" "$folder/cc1.bin" "$folder/cc1plus.bin"
