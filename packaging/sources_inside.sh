# SPDX-License-Identifier: Apache-2.0
# In the chroot: the sources, in /sources, of what is linked in and whose licences want them to be had where the programs are.
# Its last line says what is missing.
set -eu
rm -rf /sources
mkdir /sources
cd /sources
sed 's/^deb /deb-src /' /etc/apt/sources.list >/etc/apt/sources.list.d/sources.list
apt-get -q update
newer="-o Dir::Etc::sourcelist=/opt/newer/sources.list -o Dir::Etc::sourceparts=- -o Dir::State::lists=/opt/newer/lists"
missing=
for package in elfutils nettle libiberty valgrind; do
    if [ $package = valgrind ]; then options=$newer; else options=; fi
    # shellcheck disable=SC2086  # options
    apt-get -q $options source --download-only $package >/log 2>&1 || missing="$missing $package"
    cat /log
    why=${why:-$(sed -n 's/^E: Failed to fetch //p' /log | head -n 1)}
done
[ -z "$missing" ] || {
    echo "cannot fetch the sources of$missing: ${why:-see above}"
    exit 1
}
