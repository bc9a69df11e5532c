#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Reads the sources without running them: clang's warnings and likely mistakes, types, shell scripts, format. test.sh
# runs it. (CONTRIBUTING.md, "What is checked")
# Usage: ./check.sh, after ./setup.sh --tests
set -eu
cd "$(dirname "$0")"
tools=$PWD/.venv/bin
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

stop() {
    echo "check.sh: $*" >&2
    exit 1
}

# Tracked files, and new ones that are not ignored; of those, the ones that are there.
sources() {
    git ls-files -co --exclude-standard -- "$@" | while read -r file; do [ ! -f "$file" ] || echo "$file"; done
}

# What is compiled, but for what the build itself writes.
compiled() {
    cmake --preset release -DBUILD_TESTING=ON -DHEAPTAPE_WERROR=ON --log-level=WARNING >&2 || return 1
    "$tools/python" -c '
import json, os
files = {entry["file"] for entry in json.load(open("build/compile_commands.json"))}
print("\n".join(sorted(file for file in files if not file.startswith(os.getcwd() + "/build"))))'
}

# read_by TOOL: each takes one core, but clang-tidy all.
read_by() {
    case $1 in
    clang-tidy) compiled >"$logs/compiled" &&
        xargs -d '\n' -P "$(nproc)" -n 8 "$tools/clang-tidy" -p build --quiet <"$logs/compiled" ;;
    clang-format) sources '*.c' '*.h' '*.cpp' | xargs -d '\n' "$tools/clang-format" --dry-run -Werror ;;
    shellcheck) sources | xargs -d '\n' awk 'FNR == 1 && /^#!.*sh$/ {print FILENAME} {nextfile}' |
        xargs -d '\n' "$tools/shellcheck" ;;
    ruff) "$tools/ruff" check --quiet ;;
    mypy) cd analysis && "$tools/mypy" --cache-dir ../.mypy_cache ;;
    esac
}

remedy_for() {
    case $1 in
    clang-tidy) echo "Mend them; what is meant so takes // NOLINT(CHECK) and a reason." ;;
    clang-format) echo "To format: .venv/bin/clang-format -i FILE..." ;;
    shellcheck) echo "Mend them; what is meant so takes '# shellcheck disable=CHECK  # a reason'." ;;
    ruff) echo "Some it mends itself: .venv/bin/ruff check --fix" ;;
    mypy) echo "Mend them, in analysis/." ;;
    esac
}

git rev-parse --git-dir >/dev/null 2>&1 || stop "this is no checkout of git, which knows what belongs to the tree"
all="mypy clang-tidy clang-format shellcheck ruff"
for tool in $all; do
    [ -x "$tools/$tool" ] || stop "$tools/$tool is missing; run: ./setup.sh --tests"
done
# A second run over the same sources, read by the same tools, ends at once.
fingerprint() {
    ls -l --time-style=+%s "$tools"/clang-tidy "$tools"/mypy
    git ls-files -co --exclude-standard -z | xargs -0 sha256sum 2>/dev/null
}
fingerprint >"$logs/fingerprint"
stamp=.mypy_cache/checked
! cmp -s "$logs/fingerprint" "$stamp" || exit 0

for tool in $all; do
    { read_by "$tool" >"$logs/$tool" 2>&1 && : >"$logs/$tool.passed"; } &
done
wait

status=0
for tool in $all; do
    [ ! -e "$logs/$tool.passed" ] || continue
    cat "$logs/$tool"
    echo "check.sh: $tool has complaints, which are above. $(remedy_for "$tool")" >&2
    status=1
done
[ $status != 0 ] || mv "$logs/fingerprint" "$stamp"
exit $status
