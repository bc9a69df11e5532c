#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes in FOLDER what runs on any distribution of Linux on x86-64: the wheel, the wheel of the simulation, and the recorder
# alone as an archive. They are built by gcc 10 in a chroot of Debian 11, with the libraries that are not everywhere linked
# in (packaging/LINKED.md). --sources adds an archive of those libraries' sources whose licences ask for them.
# As root, with debootstrap, cargo, git, python3 with venv, and a network. The chroot and the tools are kept in
# $HEAPTAPE_PACKAGING_CACHE (default: ~/.cache/heaptape-packaging).
# Usage: packaging/wheel.sh [--sources] FOLDER
set -eu

stop() {
    echo "wheel.sh: $2" >&2
    exit "$1"
}

sources=
if [ "${1:-}" = --sources ]; then
    sources=yes
    shift
fi
case ${1:-} in
"" | -*) stop 2 "usage: packaging/wheel.sh [--sources] FOLDER" ;;
esac
[ $# = 1 ] || stop 2 "usage: packaging/wheel.sh [--sources] FOLDER"
[ "$(id -u)" = 0 ] || stop 1 "this takes root, for a chroot of Debian 11"
for tool in debootstrap cargo git python3; do
    command -v "$tool" >/dev/null || stop 1 "this takes $tool, which is not installed"
done

mkdir -p "$1"
to=$(realpath "$1")
cd "$(dirname "$0")/.."
version=$(cat analysis/heaptape/VERSION)
cache=${HEAPTAPE_PACKAGING_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/heaptape-packaging}
mkdir -p "$cache"
cache=$(realpath "$cache")
root=$cache/bullseye
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# All files have the time of the commit, so that the same tree gives the same packages.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

# log NAME COMMAND...: says nothing unless it fails.
log() {
    step=$1
    shift
    "$@" >"$work/$step.log" 2>&1 || {
        tail -n 30 "$work/$step.log" >&2
        stop 1 "$step failed"
    }
}

# The mirror of this machine's own package lists, if it is a Debian.
mirror() {
    # shellcheck disable=SC2016  # apt's names
    apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' 2>/dev/null | sed -n 's/^Debian Debian //p' | head -n 1
}

# is_done NAME TEXT: whether the step was done before with the same input.
is_done() { [ -f "$cache/$1.done" ] && [ "$(cat "$cache/$1.done")" = "$2" ]; }
be_done() { echo "$2" >"$cache/$1.done"; }

inside() { env -i PATH=/opt/cmake/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" chroot "$root" "$@"; }

# cmake and ninja for the chroot, whose own are too old; auditwheel.
tools="cmake==3.31.10 ninja==1.13.0 setuptools==80.9.0 auditwheel==6.8.2"
if ! is_done tools "$tools"; then
    log venv python3 -m venv --clear "$cache/tools"
    # shellcheck disable=SC2086  # a list of words
    log tools "$cache/tools/bin/pip" install -q $tools
    be_done tools "$tools"
fi

setup=$(cat packaging/setup_inside.sh)
if ! is_done chroot "$setup"; then
    rm -rf "$root" "$cache/chroot.done"
    from=$(mirror)
    # shellcheck disable=SC2086  # no mirror is no word
    log debootstrap debootstrap --variant=minbase bullseye "$root" $from
    cp /etc/resolv.conf "$root/etc/"
    cp packaging/setup_inside.sh "$root/"
    log setup inside sh /setup_inside.sh "${from:-$(sed -n 's/^deb \([^ ]*\) bullseye main.*/\1/p' "$root/etc/apt/sources.list" | head -n 1)}"
    be_done chroot "$setup"
fi
rm -rf "$root/opt/cmake" "$root/heaptape" "$root/crates"
"$cache/tools/bin/python" - "$root/opt/cmake" <<'END'
import pathlib, shutil, sys
import cmake, ninja
shutil.copytree(cmake.CMAKE_DATA, sys.argv[1], symlinks=True)
shutil.copy(pathlib.Path(ninja.BIN_DIR, "ninja"), pathlib.Path(sys.argv[1], "bin"))
END

# Sources of allocators and of Zydis, as their locks have them.
mkdir -p "$cache/crates" "$root/crates"
for manifest in allocators/crates/* packaging/zydis; do
    name=$(basename "$manifest")
    lock=$(sha256sum <"$manifest/Cargo.lock" | cut -c -64)
    if ! is_done "crates/$name" "$lock"; then
        rm -rf "$cache/crates/$name"
        cp -r "$manifest" "$cache/crates/$name"
        log "cargo-vendor-$name" env -C "$cache/crates/$name" cargo vendor --locked --quiet vendor
        printf %s "$lock" >"$cache/crates/$name/lock"
        be_done "crates/$name" "$lock"
    fi
    cp -r "$cache/crates/$name" "$root/crates/"
done

mkdir "$root/heaptape"
git ls-files -co --exclude-standard | while read -r file; do [ ! -f "$file" ] || echo "$file"; done |
    tar --files-from=- -cf - | tar -xf - -C "$root/heaptape" --no-same-owner
# Before what takes minutes: a mirror need not have them.
if [ -n "$sources" ]; then
    inside sh /heaptape/packaging/sources_inside.sh >"$work/sources.log" 2>&1 || stop 1 "--sources: $(tail -n 1 "$work/sources.log")"
fi
echo "wheel.sh: building, which takes minutes"
log build inside sh /heaptape/packaging/build_inside.sh
log pure "$cache/tools/bin/pip" wheel -q --no-deps --no-build-isolation -w "$work" "$root/heaptape/analysis"

"$cache/tools/bin/python" packaging/make_wheels.py "$work/heaptape-$version-py3-none-any.whl" "$root/made" "$to"
for wheel in "$to"/heaptape-"$version"-*_x86_64.whl "$to"/heaptape_simulate-"$version"-*_x86_64.whl; do
    log auditwheel "$cache/tools/bin/auditwheel" show "$wheel"
    tr '\n' ' ' <"$work/auditwheel.log" | grep -q 'consistent with the following platform tag: "manylinux_2_\([0-9]\|1[0-9]\|2[0-8]\)_x86_64' ||
        stop 1 "auditwheel does not agree that $wheel runs from glibc 2.28 on: $(cat "$work/auditwheel.log")"
done

mv "$root/made/recorder" "$root/made/heaptape-recorder-$version"
tar -C "$root/made" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -cf - "heaptape-recorder-$version" |
    gzip -9n >"$to/heaptape-recorder-$version.tar.gz"
if [ -n "$sources" ]; then
    tar -C "$root/sources" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
        -cf "$to/heaptape-$version-linked-sources.tar" .
fi
cd "$to" && ls -l heaptape*"$version"*
