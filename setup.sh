#!/bin/sh
# Installs what the build needs, and with --tests what the tests need besides: Debian packages, and
# a Python environment in .venv. A second run finds everything there and ends at once.
# Usage: ./setup.sh [--tests]
set -eu
cd "$(dirname "$0")"

for_build="gcc g++ make cmake ninja-build pkg-config git libzstd-dev libxxhash-dev libjansson-dev libarchive-dev
    libssl-dev libcmocka-dev libjemalloc-dev libgoogle-perftools-dev libmimalloc-dev libtbb-dev
    python3 python3-venv"
# An allocator to replay against, and further versions of it for the tests, 40 MB each; taken where the release of
# Debian has them.
for_build_if_known="libclang-rt-19-dev"
for_tests_if_known="libclang-rt-14-dev libclang-rt-16-dev"
# redis-tools has the server too (redis-check-rdb is the same file); the package redis-server would
# only add a daemon that starts by itself.
for_tests="sqlite3 ruby redis-tools valgrind util-linux binutils libcap2-bin"

log=$(mktemp)
trap 'rm -rf "$log" "${copy:-}"' EXIT

# One sentence, after the last lines of what went wrong.
give_up() {
    tail -n 5 "$log" >&2
    echo "setup.sh: $*" >&2
    exit 1
}

missing_packages() {
    installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null |
        sed -n 's/ installed$//p')
    for package in "$@"; do
        echo "$installed" | grep -qx "$package" || printf '%s ' "$package"
    done
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

apt() {
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -q -y -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0 "$@" >>"$log" 2>&1
}

install_packages() {
    if ! command -v dpkg-query >/dev/null; then
        echo "setup.sh: this is no Debian; please install the counterparts of: $*" >&2
        return
    fi
    missing=$(missing_packages "$@")
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" != 0 ] && ! sudo -n true 2>/dev/null; then
        give_up "packages are missing and only root may install them; run: sudo apt-get install -y $missing"
    fi
    echo "setup.sh: installing $missing"
    apt update || give_up "apt-get update failed; is the network there?"
    # shellcheck disable=SC2086  # a list of words
    apt install --no-install-recommends $missing ||
        give_up "apt-get could not install: $missing"
}

# Those that the package lists have, which are as fresh as the last installation needed them.
install_if_known() {
    known=$(for package in "$@"; do
        if apt-cache show "$package" >/dev/null 2>&1; then printf '%s ' "$package"; fi
    done)
    # shellcheck disable=SC2086  # a list of words
    [ -z "$known" ] || install_packages $known
}

# The distribution's own interpreter first: one that lives in somebody's home may vanish.
find_python() {
    for python in /usr/bin/python3 python3 python3.13 python3.12 python3.11; do
        if "$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
        then
            echo "$python"
            return
        fi
    done
    give_up "no Python of version 3.11 or later was found"
}

# What the environment was made from: the package's files and the interpreter.
python_fingerprint() {
    .venv/bin/python -V
    find analysis -type f ! -path '*/__pycache__/*' ! -path '*.egg-info/*' ! -path '*/build/*' \
        ! -name '*.ipynb' -print0 | sort -z | xargs -0 sha256sum
}

# install_python [CHECK]: CHECK is the extra with the tools of check.sh, which brings mkdocs along, or nothing. Once there,
# they are kept up.
install_python() {
    stamp=.venv/heaptape-stamp
    check=${1:-}
    if [ -x .venv/bin/clang-tidy ]; then check=check; fi
    if [ -f "$stamp" ] && python_fingerprint 2>/dev/null | cmp -s - "$stamp" &&
        { [ -z "$check" ] || [ -x .venv/bin/clang-tidy ]; }; then return; fi
    echo "setup.sh: making the Python environment .venv"
    if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
        python=$(find_python)
        "$python" -m venv --clear .venv >>"$log" 2>&1 || give_up "$python -m venv .venv failed"
    fi
    python_fingerprint >"$stamp.new"  # before the copy: what changes meanwhile is installed by the next run
    # Installed from a copy, because setuptools would leave its build folders in the tree.
    copy=$(mktemp -d)
    cp -r analysis "$copy/"
    # What is used of the packages is compiled when it is used first, which is little of them.
    .venv/bin/python -m pip install -q --disable-pip-version-check --no-compile \
        "$copy/analysis[test,fleet,tune,parquet${check:+,$check,docs}]" \
        >>"$log" 2>&1 ||
        give_up "pip could not install the Python packages; is the package registry within reach?"
    mv "$stamp.new" "$stamp"
}

# shellcheck disable=SC2086  # lists of words
if [ "${1:-}" = --tests ]; then
    install_packages $for_build $for_tests
    install_if_known $for_build_if_known $for_tests_if_known
    install_python check
else
    install_packages $for_build
    install_if_known $for_build_if_known
    install_python
fi
