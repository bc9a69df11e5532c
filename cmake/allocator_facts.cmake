# SPDX-License-Identifier: Apache-2.0
# Facts for CMake from the files of allocators/catalogue/: jemalloc.c makes jemalloc one of ${HEAPTAPE_KINDS}, and
# HT_BUILD_FACT(debian, "x") in it sets ${jemalloc_debian}. They are compiled here and not run, so that it does for other
# machines; the texts are in the objects.
file(GLOB HEAPTAPE_CATALOGUE CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/allocators/catalogue/*.c)
list(TRANSFORM HEAPTAPE_CATALOGUE REPLACE ".*/(.*)\\.c" "\\1" OUTPUT_VARIABLE HEAPTAPE_KINDS)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${HEAPTAPE_CATALOGUE})
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
try_compile(compiled SOURCES ${HEAPTAPE_CATALOGUE} NO_CACHE OUTPUT_VARIABLE output COPY_FILE ${CMAKE_BINARY_DIR}/catalogue.a
            COMPILE_DEFINITIONS -D_GNU_SOURCE -DHEAPTAPE_BUILD_FACTS -fno-lto -I${PROJECT_SOURCE_DIR}/allocators)
unset(CMAKE_TRY_COMPILE_TARGET_TYPE)
if(NOT compiled)
  message(FATAL_ERROR "allocators/catalogue/ does not compile:\n${output}")
endif()
file(STRINGS ${CMAKE_BINARY_DIR}/catalogue.a facts REGEX "\\.c:[a-z0-9_]+=")
foreach(text ${facts})
  string(REGEX MATCH "([^/]+)\\.c:([a-z0-9_]+)=(.*)" text "${text}")
  set(${CMAKE_MATCH_1}_${CMAKE_MATCH_2} "${CMAKE_MATCH_3}")
endforeach()
