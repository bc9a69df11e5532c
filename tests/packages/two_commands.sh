#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What a newcomer does: clones REPOSITORY, builds, asks about a Python program. Prints when each step was done. For a
# bare Debian with gcc, g++, cmake, ninja-build, git and python3, as root. Usage: tests/packages/two_commands.sh REPOSITORY
set -eu
repository=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >some.py <<'END'
import json, random
rows = [{"id": i, "name": f"customer {i}", "total": random.random()} for i in range(60000)]
print(len(json.loads(json.dumps(rows))))
END
begun=$(date +%s)
done_after() { echo "two_commands.sh: $1 after $(($(date +%s) - begun)) s"; }

git clone -q "$repository" heaptape
cd heaptape
done_after "git clone"
./build.sh
done_after "./build.sh"
build/heaptape try -o "$work/trial" -- python3 "$work/some.py"
done_after "build/heaptape try"
[ -s "$work/trial/report.html" ]
