#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the wheels that are in FOLDER into a new environment, uses them, and removes them again: nothing may be left. For a
# bare system with Python 3.10 or later and its venv. Usage: tests/packages/use_wheel.sh FOLDER
set -eu
wheels=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

stop() {
    echo "use_wheel.sh: $*" >&2
    exit 1
}

state() { find venv -type f ! -name '*.pyc' | sort; }

python3 -m venv venv
begun=$(date +%s)
venv/bin/pip install -q "$wheels"/heaptape-*-manylinux_*.whl
echo 'print(sum(len(str(i) * 400) for i in range(50000)))' >some.py
venv/bin/heaptape try --budget 20s -o trial -- python3 some.py >answer
cat answer
echo "use_wheel.sh: pip install and heaptape try after $(($(date +%s) - begun)) s"
grep -q '^allocator  *time in malloc' answer || stop "heaptape try gave no answer"
[ -s trial/report.html ] || stop "heaptape try wrote no report"
for replayer in venv/libexec/heaptape/replay-*; do
    name=${replayer##*/replay-}
    venv/bin/replay -q --rounds 1 --pass memory --alloc "$name" trial/trace.bin >said || stop "replay under $name: $(cat said)"
done

status=0
venv/bin/heaptape count -- true 2>said || status=$?
grep -q 'pip install heaptape-simulate' said || stop "heaptape count, without the simulation: status $status: $(cat said)"
venv/bin/pip install -q --no-deps "$wheels"/heaptape_simulate-*.whl
venv/bin/heaptape count -o counts -- true || stop "heaptape count failed"

LD_PRELOAD=$work/venv/lib/libmalloc_wrap.so MALLOC_WRAP_OUT=. MALLOC_WRAP_ANY_FOLDER=1 python3 -c pass
ls malloc-footprint.*.mraw >/dev/null || stop "a bare LD_PRELOAD recorded nothing"

venv/bin/pip uninstall -q -y heaptape heaptape-simulate
state | grep -i heaptape && stop "the wheels have left something"
echo "use_wheel.sh: installed, used and removed"
