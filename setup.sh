#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing: Debian packages for the build and for the verbs in Python. With --extras also a Python
# environment in .venv with what fleet, tune and export need; with --tests that, and what the tests need, of which
# --test-packages has the Debian packages alone. A second run finds everything there and ends at once.
# Usage: ./setup.sh [--extras | --tests | --test-packages]
set -eu
cd "$(dirname "$0")"

for_build="gcc g++ cmake ninja-build pkg-config git libzstd-dev libxxhash-dev libjansson-dev libarchive-dev
    libdw-dev libiberty-dev nettle-dev libjemalloc-dev libgoogle-perftools-dev libmimalloc-dev libtbb-dev zlib1g-dev
    python3 python3-jinja2 python3-pandas python3-rich python3-xxhash python3-zstandard"
# An allocator to replay against, and further versions of it for the tests, 40 MB each; taken where the release of
# Debian has them.
# Zydis: without it, allocators that are linked into programs are not hooked.
for_build_if_known="libclang-rt-19-dev libzydis-dev"
for_tests_if_known="libclang-rt-14-dev libclang-rt-16-dev"
# redis-tools has the server too (redis-check-rdb is the same file); the package redis-server would
# only add a daemon that starts by itself.
for_tests="make python3-venv libcmocka-dev sqlite3 ruby redis-tools valgrind util-linux binutils libcap2-bin"

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
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo $sudo_option "$@"; fi
}

lists_are_fresh=
# sudo asks for a password only where somebody can answer.
sudo_option=-n
if [ -t 0 ]; then sudo_option=; fi

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
    if [ "$(id -u)" != 0 ] && ! as_root true 2>>"$log"; then
        give_up "packages are missing and only root may install them; run: sudo apt-get install -y $missing"
    fi
    echo "setup.sh: installing $missing"
    [ -n "$lists_are_fresh" ] || apt update || give_up "apt-get update failed; is the network there?"
    lists_are_fresh=yes
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
    for python in /usr/bin/python3 python3 python3.14 python3.13 python3.12 python3.11 python3.10; do
        if "$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null
        then
            echo "$python"
            return
        fi
    done
    give_up "no Python of version 3.10 or later was found"
}

# What the environment was made from: the extras, the interpreter and the package's files.
python_fingerprint() {
    echo "$extras"
    .venv/bin/python -V
    find analysis -type f ! -path '*/__pycache__/*' ! -path '*.egg-info/*' ! -path '*/build/*' \
        ! -name '*.ipynb' -print0 | sort -z | xargs -0 sha256sum
}

# install_python [EXTRA,...]: the environment, with these extras of the package. What is there already is kept up.
install_python() {
    stamp=.venv/heaptape-stamp
    extras=${1:-}
    if [ -x .venv/bin/clang-tidy ]; then
        extras=$for_all_tests
    elif [ -x .venv/bin/dask ] && [ -z "$extras" ]; then
        extras=$for_all_verbs
    fi
    if [ -f "$stamp" ] && python_fingerprint 2>/dev/null | cmp -s - "$stamp"; then return; fi
    echo "setup.sh: making the Python environment .venv"
    if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
        python=$(find_python)
        "$python" -m venv --clear .venv >>"$log" 2>&1 || give_up "$python -m venv .venv failed"
    fi
    python_fingerprint >"$stamp.new"  # before the copy: what changes meanwhile is installed by the next run
    # Installed from a copy, because setuptools would leave its build folders in the tree.
    copy=$(mktemp -d)
    cp -rL analysis "$copy/"
    # What is used of the packages is compiled when it is used first, which is little of them.
    .venv/bin/python -m pip install -q --disable-pip-version-check --no-compile "$copy/analysis${extras:+[$extras]}" \
        >>"$log" 2>&1 ||
        give_up "pip could not install the Python packages; is the package registry within reach?"
    mv "$stamp.new" "$stamp"
}

# Whether the interpreter that heaptape takes where there is no .venv has what its verbs import.
python_suffices() {
    python3 -c '
import importlib.util, sys
needed = ("jinja2", "numpy", "pandas", "rich", "xxhash", "zstandard")
sys.exit(sys.version_info < (3, 10) or not all(importlib.util.find_spec(name) for name in needed))' 2>/dev/null
}

for_all_verbs=fleet,tune,parquet,pprof
for_all_tests=$for_all_verbs,test,check,docs
# shellcheck disable=SC2086  # lists of words
case ${1:-} in
--tests | --test-packages)
    install_packages $for_build $for_tests
    install_if_known $for_build_if_known $for_tests_if_known
    if [ "$1" = --tests ]; then install_python $for_all_tests; fi
    ;;
--extras)
    install_packages $for_build python3-venv
    install_python $for_all_verbs
    ;;
*)
    install_packages $for_build
    install_if_known $for_build_if_known
    if [ -e .venv ] || ! python_suffices; then
        install_packages python3-venv
        install_python
    fi
    ;;
esac
