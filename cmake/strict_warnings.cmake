# SPDX-License-Identifier: Apache-2.0
# More warnings than the ordinary ones, and each an error. On where tests are built (test.sh), off where users build: a
# compiler that nobody here has tried warns of what nobody could mend.
# Truncated numbers and changed signs are the usual bugs in readers of untrusted files. Left out, because each change would
# make the code worse: -Wcast-align (22 warnings; records of a log are on their boundary), -Wcast-qual (18; execve),
# -Wdouble-promotion (69), -Wfloat-equal (67), -Wswitch-enum (56; default is meant), -Wformat-nonliteral (7).
option(HEAPTAPE_WERROR "Build with strict warnings, each of them an error" OFF)

set(HEAPTAPE_STRICT_WARNINGS -Werror -Wshadow -Wconversion -Wsign-conversion -Wformat=2 -Wno-format-nonliteral -Wundef
                             -Wvla -Wpointer-arith -Wwrite-strings -Wredundant-decls)
set(HEAPTAPE_STRICT_WARNINGS_C -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wnested-externs)
# Names that clang does not have.
set(HEAPTAPE_STRICT_WARNINGS_GNU -Wlogical-op -Wduplicated-cond -Wduplicated-branches -Wformat-signedness)

if(HEAPTAPE_WERROR)
  add_compile_options(${HEAPTAPE_STRICT_WARNINGS} "$<$<COMPILE_LANGUAGE:C>:${HEAPTAPE_STRICT_WARNINGS_C}>")
  if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    add_compile_options(${HEAPTAPE_STRICT_WARNINGS_GNU})
  endif()
endif()

# heaptape_defines_others_functions(TARGET...): functions whose declarations are in other people's headers, or in none: the
# C library's, an allocator's, a plugin's.
function(heaptape_defines_others_functions)
  foreach(target ${ARGN})
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:C>:-Wno-missing-prototypes>)
  endforeach()
endfunction()
