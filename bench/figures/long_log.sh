#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What long recordings cost to convert: CPU time, memory, and the disk that a live log takes beside its follower.
# bench/figures/long_log.sh [EVENTS [EVENTS_PER_S [FOLDER]]]: the log is made by build/bench/make_raw_log, 4 threads.
set -eu
events=${1:-400000000}
rate=${2:-10000000}
build=${HEAPTAPE_BUILD:-$(dirname "$0")/../../build}
folder=$(mktemp -d "${3:-/tmp}/heaptape-long.XXXXXX")
trap 'rm -rf "$folder"' EXIT
generator=
trap 'kill "$generator" 2>/dev/null || true; exit 130' INT TERM

mib() { echo "$(($1 / 1024)) MiB"; }

# Runs a conversion; says what it took of CPU time and memory, and what the trace takes.
measure() {
    name=$1
    shift
    /usr/bin/time -f '%U %S %e %M' -o "$folder/time" "$@"
    read -r user system wall peak <"$folder/time"
    bytes=$(stat -c %s "$folder/trace.bin")
    echo "$name: $(echo "$user + $system" | bc) s of CPU ($user user, $system system), $wall s of wall time," \
        "peak $(mib "$peak"), $(echo "scale=2; $bytes / $events" | bc) B/event"
}

# The most that the log takes of the disk, measured ten times a second until the process has ended.
watch_space() {
    most=0
    while kill -0 "$1" 2>/dev/null; do
        now=$(du -k "$2" 2>/dev/null | cut -f1)
        [ "${now:-0}" -le "$most" ] || most=$now
        sleep 0.1
    done
    echo "$most" >"$folder/most"
}

echo "$events events"
"$build/bench/make_raw_log" "$folder/log.mraw" "$events"
echo "raw log: $(mib "$(du -k "$folder/log.mraw" | cut -f1)")," \
    "$(echo "scale=2; $(stat -c %s "$folder/log.mraw") / $events" | bc) B/event"
measure 'convert' "$build/heaptape" convert -q "$folder/log.mraw" -o "$folder/trace.bin"
"$build/heaptape" info "$folder/trace.bin" | grep -E '^(slots|peak live|anomalies)'
rm "$folder/log.mraw" "$folder/trace.bin"

"$build/bench/make_raw_log" "$folder/log.mraw" "$events" 4 "$rate" &
generator=$!
watch_space "$generator" "$folder/log.mraw" &
watcher=$!
sleep 0.2
measure "convert --follow beside $rate events/s" \
    "$build/heaptape" convert --follow -q "$folder/log.mraw" -o "$folder/trace.bin"
wait "$watcher"
echo "largest raw log on disk: $(mib "$(cat "$folder/most")") at any time before its program ended"
"$build/heaptape" info "$folder/trace.bin" | grep -E '^(events|anomalies)'
