# SPDX-License-Identifier: Apache-2.0
# What all recipes share; record_traces.py runs each as `bash -eu NAME.sh` in an empty folder, with
# $FILES (this folder's copy), $BIN (heaptape and its shims), $LOGS and $PORT (a free one) set.
server=
trap '[ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true' EXIT

# Runs a program and records it; everything else in a recipe goes unrecorded.
record() { "$BIN/heaptape" record -q -o "$LOGS" -- "$@"; }

until_ok() {
    for _ in {1..300}; do if "$@" >/dev/null 2>&1; then return; fi; sleep 0.1; done
    echo "never: $*" >&2
    exit 90
}

# Waits for the server, which somebody has told to end.
stopped() { wait "$server"; server=; }
