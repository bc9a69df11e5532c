# SPDX-License-Identifier: Apache-2.0
# Builds heaptape's own sources, which are always there: build_self.sh GENERATOR BUILD-COMMAND...
generator=$1
shift
cmake -S "$SOURCE" -B tree -G "$generator" -DCMAKE_BUILD_TYPE=Release >configured 2>&1
tail -n 2 configured | head -n 1 | cut -c 1-16
"$@" heaptape >built 2>&1
tree/heaptape --version
