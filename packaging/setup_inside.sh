# SPDX-License-Identifier: Apache-2.0
# In the chroot of Debian 11, once: what wheel.sh builds with. Usage: setup_inside.sh MIRROR
set -eu
export DEBIAN_FRONTEND=noninteractive
apt-get -q update
apt-get -q -y install --no-install-recommends gcc g++ make pkg-config python3 musl-tools ca-certificates \
    libzstd-dev libxxhash-dev libjansson-dev libarchive-dev libdw-dev libiberty-dev nettle-dev zlib1g-dev liblzma-dev libbz2-dev

# Without these links the linker takes the archives.
for name in zstd xxhash jansson archive dw elf nettle z lzma bz2; do
    rm /usr/lib/x86_64-linux-gnu/lib$name.so
done

# Valgrind's core, which is linked into the simulation and uses no C library: of Debian 13, which knows newer programs.
mkdir -p /opt/newer/lists/partial
cd /opt/newer
for type in deb deb-src; do echo "$type $1 trixie main"; done >sources.list
newer="-o Dir::Etc::sourcelist=$PWD/sources.list -o Dir::Etc::sourceparts=- -o Dir::State::lists=$PWD/lists"
# shellcheck disable=SC2086  # options
apt-get -q $newer update && apt-get -q $newer download valgrind && dpkg-deb -x valgrind_*.deb valgrind
