#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the Debian packages from a copy of this tree, checks them with lintian, and leaves them in FOLDER. For a bare
# Debian, as root. SUFFIX makes the versions of several releases of Debian differ, as in +deb12.
# Usage: debian/build.sh FOLDER [SUFFIX]
set -eu
case ${1:-} in
"" | -*) echo "usage: debian/build.sh FOLDER [SUFFIX]" >&2; exit 2 ;;
esac
cd "$(dirname "$0")/.."
mkdir -p "$1"
to=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export DEBIAN_FRONTEND=noninteractive DEB_BUILD_OPTIONS=noautodbgsym
apt-get -q update
apt-get -q -y install --no-install-recommends build-essential lintian
mkdir "$work/heaptape"
tar -cf - --exclude='./.*' --exclude=./build --exclude='./build[!.]*' --exclude='./obj-*' . | tar -xf - -C "$work/heaptape"
cd "$work/heaptape"
sed -i "1s/)/${2:-})/" debian/changelog
apt-get -q -y build-dep --no-install-recommends .
dpkg-buildpackage -us -uc -b
lintian --allow-root --fail-on error ../*.changes
cp ../*.deb "$to"
