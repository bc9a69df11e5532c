#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fuzzes for so many minutes of CPU time a target: run.sh MINUTES [TARGET...], after
# `cmake --preset fuzz && cmake --build --preset fuzz`. Exit status 1 if there was a finding; its input is named.
# run.sh keep [TARGET...] makes the kept inputs anew: those with a name of their own, and the fewest of all that there are
# (kept, seeds, found by campaigns) that reach the same edges together.
# run.sh add TARGET FILE keeps one more, named after what was wrong; `keep` leaves out no input that has a name.
# It needs clang: apt-get install --no-install-recommends clang libclang-rt-14-dev, on Debian 12; keep and add need zstd.
# Everything lies in $FUZZ_BUILD (default build-fuzz): campaign/seeds, campaign/live, campaign/found, campaign/kept.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${FUZZ_BUILD:-$here/../../build-fuzz}
campaign=$build/campaign
kept=$campaign/kept
packed=$here/corpus.tar.zst
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

unpack() {
    rm -rf "$kept"
    mkdir -p "$kept"
    (cd "$kept" && cmake -E tar xf "$packed") || give_up "$packed cannot be unpacked"
}

# The same inputs always make the same archive.
pack() {
    (cd "$kept" && tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --format=ustar \
        -I "zstd -19" -cf "$packed" -- *) || give_up "$packed cannot be packed"
}

# Sets cpu_s: seconds of CPU time that this shell's children have taken. (In a subshell it would be none.)
ask_cpu_s() {
    times >"$campaign/times"
    cpu_s=$(tail -n 1 "$campaign/times" | tr 'ms' '  ' | awk '{print int($1 * 60 + $2 + $3 * 60 + $4)}')
}

# fuzz TARGET SECONDS: prints one line.
fuzz() {
    local target=$1 wanted_s=$2 program live found log runs=0 started_s spent_s=0
    program=$(program_of "$target") || exit 2
    live=$campaign/live/$target found=$campaign/found/$target log=$campaign/$target.log
    mkdir -p "$live" "$found" "$campaign/seeds/$target" "$kept/$target"
    ask_cpu_s
    started_s=$cpu_s
    while [ "$spent_s" -lt "$wanted_s" ]; do
        nice -n 19 "$program" "${limits[@]}" -close_fd_mask=1 -max_total_time=$slice_s -print_final_stats=1 \
            -artifact_prefix="$found/" "$live" "$campaign/seeds/$target" "$kept/$target" >"$log" 2>&1
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

keep() {
    local target=$1 program new=$campaign/new/$1 path
    program=$(program_of "$target") || exit 2
    rm -rf "$new"
    mkdir -p "$new" "$kept/$target" "$campaign/live/$target" "$campaign/seeds/$target"
    for path in "$kept/$target"/*; do
        [[ ${path##*/} =~ ^([0-9a-f]{40}|\*)$ ]] || cp "$path" "$new/"  # not one that the fuzzer named
    done
    "$program" "${limits[@]}" -use_counters=0 -merge=1 "$new" "$kept/$target" "$campaign/live/$target" "$campaign/seeds/$target" \
        >"$campaign/$target.keep.log" 2>&1 || give_up "$target: see $campaign/$target.keep.log"
    rm -rf "${kept:?}/$target"
    mv "$new" "$kept/$target"
    echo "$target: $(find "$kept/$target" -type f | wc -l) inputs," \
        "$(find "$kept/$target" -type f -printf '%s\n' | awk '{n += $1} END {print n}') bytes"
}

[ $# -ge 1 ] || give_up "usage: run.sh MINUTES|keep [TARGET...], run.sh add TARGET FILE"
what=$1
shift
mkdir -p "$campaign"
unpack
if [ "$what" = add ]; then
    [ $# = 2 ] && [ -f "$here/fuzz_$1.c" ] || give_up "a target and a file expected"
    mkdir -p "$kept/$1"
    cp "$2" "$kept/$1/" && pack
    exit
fi
[ "$what" = keep ] || [ "$what" -gt 0 ] 2>/dev/null || give_up "a number of minutes, 'keep' or 'add' expected, not '$what'"
# shellcheck disable=SC2046  # words
[ $# -gt 0 ] || set -- $(cd "$here" && printf '%s\n' fuzz_*.c | sed -n 's/^fuzz_\(.*\)\.c$/\1/p' | grep -v '^input$')
"$build/tests/fuzz/make_seeds" "$campaign/seeds" || give_up "no seeds"
failed=0
for target in "$@"; do
    if [ "$what" = keep ]; then keep "$target"; else fuzz "$target" $((what * 60)) || failed=1; fi
done
if [ "$what" = keep ]; then pack; fi
exit $failed
