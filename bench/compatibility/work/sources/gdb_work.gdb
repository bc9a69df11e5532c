# SPDX-License-Identifier: Apache-2.0
set pagination off
set print address off
break work
run
backtrace
print table[7]
finish
continue
info sharedlibrary libc
