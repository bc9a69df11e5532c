# SPDX-License-Identifier: Apache-2.0
# The C compiler proper on one file of this tree, preprocessed beforehand, as a release with debug information is built.
. "$FILES/recipe.sh"
gcc -E -P -O2 -D_GNU_SOURCE -I"$SOURCE" -I"$SOURCE/format" -I"$SOURCE/convert" "$SOURCE/convert/trace_stats.c" -o trace_stats.i
record "$(gcc -print-prog-name=cc1)" -fpreprocessed -quiet -O2 -g trace_stats.i -o trace_stats.s
