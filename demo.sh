#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# From nothing to a report: sets up, builds, records a Python program, replays it against five
# allocators, compares them. Leaves everything in demo/. Usage: ./demo.sh
set -eu
cd "$(dirname "$0")"

step() { printf '\n== %s\n' "$*"; }

# Shows the command as one would type it, then runs it.
run() {
    printf '$ %s\n' "$*"
    "$@" || stop "$1 failed with status $?; nothing after it was run"
}

stop() {
    echo "demo.sh: $*" >&2
    exit 1
}

# A version manager's python3 is a shell script, and the shell would be recorded beside it.
elf_python() {
    for python in /usr/bin/python3 "$(python3 -c 'import os, sys; print(os.path.realpath(sys.executable))')"
    do
        if [ "$(head -c 4 "$python" 2>/dev/null | tail -c 3)" = ELF ]; then
            echo "$python"
            return
        fi
    done
    stop "no Python interpreter was found that can be recorded"
}

step "Setting up and building"
run ./build.sh

step "Recording a Python program that works on JSON"
python=$(elf_python)
rm -rf demo
mkdir demo
# Without this Python's own arenas stand between the program and malloc.
export PYTHONMALLOC=malloc
echo '$ export PYTHONMALLOC=malloc'
run build/heaptape record --any-folder -o demo -- "$python" bench/programs/json_work.py
unset PYTHONMALLOC
raw=$(ls demo/*.mraw)

step "Converting the raw log into a trace, which holds no addresses"
run build/heaptape convert "$raw" -o demo/trace.bin
run build/heaptape info demo/trace.bin

step "Replaying the trace under five allocators, in random order, eight rounds"
run build/heaptape replay --alloc null,glibc,jemalloc,tcmalloc,mimalloc --rounds 8 demo/trace.bin -o demo/results.jsonl

step "Writing the report"
run build/heaptape report demo/results.jsonl --trace demo/trace.bin -o demo/report.html

printf '\nDone: open demo/report.html in a browser.\n'
