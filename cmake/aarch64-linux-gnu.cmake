# SPDX-License-Identifier: Apache-2.0
# Builds for aarch64 on a Debian machine of another kind, and runs the tests by qemu-user. Packages:
# gcc-aarch64-linux-gnu g++-aarch64-linux-gnu qemu-user, and after `dpkg --add-architecture arm64` the
# libraries as libzstd-dev:arm64 and so on.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)

# Without libc6:arm64 the loader lies only where the cross compiler's C library is.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
if(NOT EXISTS /lib/ld-linux-aarch64.so.1)
  list(APPEND CMAKE_CROSSCOMPILING_EMULATOR -L /usr/aarch64-linux-gnu)
endif()
