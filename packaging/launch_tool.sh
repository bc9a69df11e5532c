#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Starts the simulation's tool from its folder, in place of Valgrind's launcher, which needs a newer C library: all that is
# missing is the tool's knowledge of what starts it for the programs that the program starts.
VALGRIND_LAUNCHER=$0 exec "${0%/*}/heaptape-amd64-linux" "$@"
