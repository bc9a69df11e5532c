# SPDX-License-Identifier: Apache-2.0
server=
trap '[ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true' EXIT
until_ok() {
    for _ in {1..300}; do if "$@" >/dev/null 2>&1; then return; fi; sleep 0.1; done
    echo "never: $*"
    exit 90
}
stopped() { local status=0; wait "$server" || status=$?; server=; echo "server ended with $status"; }
