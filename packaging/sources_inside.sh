# SPDX-License-Identifier: Apache-2.0
# In the chroot: the sources, in /sources, of what is linked in and whose licences want them to be had where the programs are.
set -eu
rm -rf /sources
mkdir /sources
cd /sources
sed 's/^deb /deb-src /' /etc/apt/sources.list >/etc/apt/sources.list.d/sources.list
apt-get -q update
apt-get -q source --download-only elfutils nettle libiberty
newer="-o Dir::Etc::sourcelist=/opt/newer/sources.list -o Dir::Etc::sourceparts=- -o Dir::State::lists=/opt/newer/lists"
# shellcheck disable=SC2086  # options
apt-get -q $newer source --download-only valgrind
