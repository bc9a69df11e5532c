# SPDX-License-Identifier: Apache-2.0
# heaptape_library(FOLDER [DEPENDS NAME...]): every .c file of the folder, compiled once, as heaptape_FOLDER ("/" read
# as "_"). A target that links it finds its headers and those of what it depends on, and no others: an include that
# FOLDERS.md's table does not allow does not compile.
function(heaptape_library folder)
  cmake_parse_arguments(PARSE_ARGV 1 library "OBJECTS" "" "DEPENDS")
  string(REPLACE "/" "_" name heaptape_${folder})
  set(path ${PROJECT_SOURCE_DIR}/${folder})
  file(GLOB sources CONFIGURE_DEPENDS ${path}/*.c)
  if(NOT sources)
    set(kind INTERFACE)
    set(scope INTERFACE)
  elseif(library_OBJECTS)
    set(kind OBJECT)
    set(scope PUBLIC)
  else()
    set(kind STATIC)
    set(scope PUBLIC)
  endif()
  add_library(${name} ${kind} ${sources})
  target_include_directories(${name} ${scope} ${path})
  target_link_libraries(${name} ${scope} ${library_DEPENDS})
endfunction()
