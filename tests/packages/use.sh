#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that are in FOLDER, uses them, and removes them again: nothing may be left. For a bare
# Debian, as root. Usage: tests/packages/use.sh FOLDER
set -eu
debs=$(realpath "$1")
tree=$(realpath "$(dirname "$0")/../..")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export DEBIAN_FRONTEND=noninteractive
cd "$work"

stop() {
    echo "use.sh: $*" >&2
    exit 1
}

# Everything that is installed, and every file.
state() {
    dpkg-query -W
    find /etc /opt /usr /var/lib -path /var/lib/apt -prune -o -path /var/lib/dpkg -prune -o -print | sort
}

apt-get -q update
touch /etc/hosts  # netbase, which comes with Python's packages, makes one and leaves it
state >before

apt-get -q -y install --no-install-recommends "$debs"/heaptape_*.deb
echo 'print(sum(len(str(i) * 400) for i in range(50000)))' >some.py
heaptape try --budget 20s -- python3 some.py >answer
cat answer
grep -q '^allocator  *time in malloc' answer || stop "heaptape try gave no answer"
grep -q '^jemalloc' answer || stop "not all allocators took part"
[ -s heaptape-python3/report.html ] || stop "heaptape try wrote no report"
LD_PRELOAD=libmalloc_wrap.so MALLOC_WRAP_OUT=. MALLOC_WRAP_ANY_FOLDER=1 python3 -c pass
ls malloc-footprint.*.mraw >/dev/null || stop "a bare LD_PRELOAD recorded nothing"

apt-get -q -y install --no-install-recommends "$debs"/libheaptape*.deb gcc libc6-dev pkgconf
# shellcheck disable=SC2016  # the backticks are the page's
sed -n '/^```c$/,/^```$/p' "$tree/docs/reference/reader.md" | sed '1d;$d' >peak.c
sh -c "$(grep '^cc ' "$tree/docs/reference/reader.md")"
./peak heaptape-python3/trace.bin

apt-get -q -y purge --autoremove heaptape libheaptape0 libheaptape-dev gcc libc6-dev pkgconf
state >after
diff before after || stop "the packages have left something"
echo "use.sh: installed, used and removed"
