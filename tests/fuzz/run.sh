#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fuzzes for so many minutes of CPU time a target: run.sh MINUTES [TARGET...], after
# `cmake --preset fuzz && cmake --build --preset fuzz`. Exit status 1 if there was a finding; its input is named.
# run.sh keep [TARGET...] adds to the kept inputs what campaigns have found that reaches further.
# Everything lies in $FUZZ_BUILD (default build-fuzz): campaign/seeds, campaign/live, campaign/found.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${FUZZ_BUILD:-$here/../../build-fuzz}
campaign=$build/campaign
slice_s=60
input_bytes_max=4096
# One input may take 512 MiB and 10 seconds: more is a finding. The other settings make allocation cheaper.
limits=(-rss_limit_mb=512 -timeout=10 "-max_len=$input_bytes_max")
export ASAN_OPTIONS=quarantine_size_mb=8:clear_shadow_mmap_threshold=100000000

give_up() {
    echo "run.sh: $*" >&2
    exit 2
}

program_of() {
    local program=$build/tests/fuzz/fuzz_$1
    [ -x "$program" ] || give_up "$program is not there; build it by: cmake --preset fuzz && cmake --build --preset fuzz"
    echo "$program"
}

# Sets cpu_s: seconds of CPU time that this shell's children have taken. (In a subshell it would be none.)
ask_cpu_s() {
    times >"$campaign/times"
    cpu_s=$(tail -n 1 "$campaign/times" | tr 'ms' '  ' | awk '{print int($1 * 60 + $2 + $3 * 60 + $4)}')
}

# fuzz TARGET SECONDS: prints one line.
fuzz() {
    local target=$1 wanted_s=$2 program live found log runs=0 started_s spent_s=0 kept=$here/corpus/$1
    program=$(program_of "$target") || exit 2
    live=$campaign/live/$target found=$campaign/found/$target log=$campaign/$target.log
    mkdir -p "$live" "$found" "$campaign/seeds/$target" "$kept"
    ask_cpu_s
    started_s=$cpu_s
    while [ "$spent_s" -lt "$wanted_s" ]; do
        nice -n 19 "$program" "${limits[@]}" -close_fd_mask=1 -max_total_time=$slice_s -print_final_stats=1 \
            -artifact_prefix="$found/" "$live" "$campaign/seeds/$target" "$kept" >"$log" 2>&1
        local status=$?
        ask_cpu_s
        spent_s=$((cpu_s - started_s))
        runs=$((runs + $(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -n 1)))
        if [ $status != 0 ]; then
            echo "$target: a finding after $((spent_s / 60)) CPU minutes and $runs runs, see $log:" \
                "$(grep -aE '^broken|ERROR:|runtime error' "$log" | head -n 1)"
            return 1
        fi
    done
    echo "$target: $((spent_s / 60)) CPU minutes, $runs runs, no finding"
}

# Inputs that reach what the kept ones do not, the smallest of each kind.
keep() {
    local target=$1 program new=$campaign/new/$1 name
    program=$(program_of "$target") || exit 2
    rm -rf "$new"
    mkdir -p "$new" "$here/corpus/$target" "$campaign/live/$target" "$campaign/seeds/$target"
    cp "$here/corpus/$target/"* "$new/" 2>/dev/null
    "$program" "${limits[@]}" -use_counters=0 -merge=1 "$new" "$campaign/live/$target" "$campaign/seeds/$target" \
        >"$campaign/$target.keep.log" 2>&1 || give_up "$target: see $campaign/$target.keep.log"
    for name in "$new"/*; do [ -e "$here/corpus/$target/${name##*/}" ] || cp "$name" "$here/corpus/$target/"; done
    echo "$target: $(find "$here/corpus/$target" -type f | wc -l) inputs," \
        "$(find "$here/corpus/$target" -type f -printf '%s\n' | awk '{n += $1} END {print n}') bytes"
}

[ $# -ge 1 ] || give_up "usage: run.sh MINUTES|keep [TARGET...]"
what=$1
shift
[ "$what" = keep ] || [ "$what" -gt 0 ] 2>/dev/null || give_up "a number of minutes or 'keep' expected, not '$what'"
# shellcheck disable=SC2046  # words
[ $# -gt 0 ] || set -- $(cd "$here" && printf '%s\n' fuzz_*.c | sed -n 's/^fuzz_\(.*\)\.c$/\1/p' | grep -v '^input$')
mkdir -p "$campaign"
"$build/tests/fuzz/make_seeds" "$campaign/seeds" || give_up "no seeds"
failed=0
for target in "$@"; do
    if [ "$what" = keep ]; then keep "$target"; else fuzz "$target" $((what * 60)) || failed=1; fi
done
exit $failed
