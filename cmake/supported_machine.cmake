# SPDX-License-Identifier: Apache-2.0
# Refuses, in one sentence, to configure for a machine that nothing here was made for. Included before any
# language is enabled, so that no compiler is asked first; supported_compiler() then asks it.
if(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
  message(FATAL_ERROR "heaptape records and replays on Linux only; this is ${CMAKE_SYSTEM_NAME}.")
endif()
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64|aarch64|arm64)$")
  message(FATAL_ERROR "heaptape runs on x86_64 and aarch64 only; this is ${CMAKE_SYSTEM_PROCESSOR}.")
endif()

# A 32-bit or big-endian compiler on such a processor: the formats' readers and the shim's stores assume
# neither.
function(supported_compiler)
  if(NOT CMAKE_SIZEOF_VOID_P EQUAL 8)
    message(FATAL_ERROR "heaptape needs 64-bit addresses; this compiler makes 32-bit programs.")
  endif()
  if(CMAKE_C_BYTE_ORDER STREQUAL "BIG_ENDIAN")
    message(FATAL_ERROR "heaptape needs a little-endian machine; this compiler makes big-endian programs.")
  endif()
endfunction()
