# SPDX-License-Identifier: Apache-2.0
# Compiles by the command given, then runs the program.
"$@" -o work
./work
