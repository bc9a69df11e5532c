# SPDX-License-Identifier: Apache-2.0
sort --parallel=4 -S 8M -T . -k 2,2 -k 1,1n "$INPUT/figures" | md5sum
sort -u -k 2,2 "$INPUT/figures" | wc -l
