# SPDX-License-Identifier: Apache-2.0
# Allocators that are built here, from sources that a pinned crate brings: a kind whose file in catalogue/ has a
# .crate. cargo only fetches them (`cargo vendor`, into the build folder); what compiles them is CMake, or the
# source's own configure.
include(CheckCCompilerFlag)
option(EXTRA_ALLOCATORS "Build allocators whose sources cargo fetches" OFF)
option(EXTRA_JEMALLOC "With EXTRA_ALLOCATORS: jemalloc 5.3.1 as well, which takes some 4 minutes" OFF)
option(EXTRA_TCMALLOC "With EXTRA_ALLOCATORS: Google's TCMalloc as well, which takes some 5 minutes" OFF)
if(EXTRA_ALLOCATORS AND EXTRA_TCMALLOC)
  enable_language(ASM)  # its restartable sequences
endif()

# heaptape_vendored(CRATE RESULT PROBLEM): the folder with the crate's sources, or why there is none.
# What is there stays while the lock is the same; each crate is asked for once in a run of CMake.
function(heaptape_vendored crate result problem)
  set(manifest ${CMAKE_CURRENT_SOURCE_DIR}/crates/${crate})
  set(folder ${CMAKE_BINARY_DIR}/crates/${crate})
  set(${result} ${folder}/vendor/${crate} PARENT_SCOPE)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${manifest}/Cargo.lock)
  file(SHA256 ${manifest}/Cargo.lock lock)
  if(EXISTS ${folder}/lock)
    file(READ ${folder}/lock there)
    if(there STREQUAL lock)
      return()
    endif()
  endif()
  find_program(HEAPTAPE_CARGO cargo)
  if(NOT HEAPTAPE_CARGO)
    set(${problem} "cargo is not here (Debian package cargo or cargo-web)" PARENT_SCOPE)
    return()
  endif()
  get_property(failed GLOBAL PROPERTY HEAPTAPE_NOT_VENDORED_${crate})
  if(NOT failed)
    message(STATUS "Fetching ${crate}")
    file(REMOVE_RECURSE ${folder})
    file(COPY ${manifest} DESTINATION ${CMAKE_BINARY_DIR}/crates)
    execute_process(COMMAND ${HEAPTAPE_CARGO} vendor --locked --quiet vendor WORKING_DIRECTORY ${folder}
                    RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE said)
    if(status EQUAL 0)
      file(WRITE ${folder}/lock ${lock})
      return()
    endif()
    string(REGEX REPLACE "\n+$" "" said "${said}")
    string(REGEX REPLACE ".*\n *" "" failed "${said}")
    set_property(GLOBAL PROPERTY HEAPTAPE_NOT_VENDORED_${crate} "cargo vendor: ${failed}")
    set(failed "cargo vendor: ${failed}")
  endif()
  set(${problem} "${failed}" PARENT_SCOPE)
endfunction()

# The words of a field, each of them below the folder of the sources. One that ends in .rs is the crate's own
# build script, and stands for the sources that it names.
function(heaptape_below folder words result)
  separate_arguments(words)
  foreach(word ${words})
    if(word MATCHES "\\.rs$")
      file(STRINGS ${folder}/${word} lines REGEX "\"[^\" ]+\\.(c|cc|S)\"")
      foreach(line ${lines})
        string(REGEX REPLACE ".*\"([^\" ]+\\.(c|cc|S))\".*" "\\1" line "${line}")
        list(APPEND found ${folder}/${line})
      endforeach()
    else()
      list(APPEND found ${folder}/${word})
    endif()
  endforeach()
  set(${result} ${found} PARENT_SCOPE)
endfunction()

# A source with the version of what we build, for allocators that don't report it.
function(heaptape_built_version stem name result)
  set(version ${${stem}_crate_version})
  set(made ${CMAKE_CURRENT_BINARY_DIR}/version_of_${name}.c)
  file(CONFIGURE OUTPUT ${made} @ONLY CONTENT
       "__attribute__((visibility(\"default\"))) const char heaptape_built_version[] = \"@version@\";\n")
  set(${result} ${made} PARENT_SCOPE)
endfunction()

# lib<NAME>.so, compiled as its authors say and not as we compile ourselves.
function(heaptape_compiled_library stem name folder)
  heaptape_below(${folder} "${${stem}_crate_sources}" sources)
  heaptape_below(${folder} "${${stem}_crate_includes}" includes)
  separate_arguments(flags UNIX_COMMAND "${${stem}_crate_flags}")
  separate_arguments(link_flags UNIX_COMMAND "${${stem}_crate_link_flags}")
  foreach(flag ${flags})
    if(flag MATCHES "^-m")  # this processor's compiler may not have it
      string(MAKE_C_IDENTIFIER "HEAPTAPE_HAS${flag}" has)
      check_c_compiler_flag(${flag} ${has})
      if(NOT ${has})
        list(REMOVE_ITEM flags ${flag})
      endif()
    endif()
  endforeach()
  heaptape_built_version(${stem} ${name} version)
  if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/own/${name}_glue.c)
    list(APPEND sources ${CMAKE_CURRENT_SOURCE_DIR}/own/${name}_glue.c)
  endif()
  set(CMAKE_C_STANDARD)
  set(CMAKE_CXX_STANDARD)
  set(CMAKE_INTERPROCEDURAL_OPTIMIZATION OFF)
  add_library(${name} SHARED ${sources} ${version})
  set_target_properties(${name} PROPERTIES COMPILE_OPTIONS "-O2;-fPIC;-pthread;-w;${flags}" COMPILE_DEFINITIONS ""
                                           LINK_OPTIONS "-pthread;${link_flags}"
                                           LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
  target_include_directories(${name} PRIVATE ${includes})
  install(TARGETS ${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/heaptape)
endfunction()

# The same by the source's own configure and make: .crate_configure has the folder of the source, and the script
# if that is elsewhere; .library, what make leaves below that folder.
function(heaptape_configured_library stem name crate)
  separate_arguments(configure UNIX_COMMAND "${${stem}_crate_configure}")
  separate_arguments(flags UNIX_COMMAND "${${stem}_crate_flags}")
  list(GET configure 0 source)
  list(GET configure -1 script)
  set(soname ${${stem}_soname})
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${name})
  set(made ${CMAKE_BINARY_DIR}/${soname})
  find_program(HEAPTAPE_MAKE NAMES gmake make)
  include(ProcessorCount)
  ProcessorCount(processors)
  add_custom_command(
    OUTPUT ${made}
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${folder}
    COMMAND ${CMAKE_COMMAND} -E copy_directory ${crate}/${source} ${folder}
    COMMAND ${CMAKE_COMMAND} -E copy ${crate}/${script} ${folder}/configure
    COMMAND ${CMAKE_COMMAND} -E chdir ${folder} ${CMAKE_COMMAND} -E env CC=${CMAKE_C_COMPILER}
            CXX=${CMAKE_CXX_COMPILER} ./configure --quiet ${flags} > ${folder}.log
    COMMAND ${HEAPTAPE_MAKE} -s -C ${folder} -j${processors} build_lib_shared >> ${folder}.log
    COMMAND ${CMAKE_COMMAND} -E copy ${folder}/lib/${soname} ${made}
    DEPENDS ${crate}/${script}
    COMMENT "Configuring and making ${soname}, which takes minutes" VERBATIM)
  add_custom_target(${name}-made DEPENDS ${made})
  add_library(${name} SHARED IMPORTED GLOBAL)
  set_target_properties(${name} PROPERTIES IMPORTED_LOCATION ${made} IMPORTED_SONAME ${soname})
  add_dependencies(${name} ${name}-made)
  install(PROGRAMS ${made} DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/heaptape)
endfunction()

# heaptape_extra_allocator(STEM NAME CRATE): builds the library and replay-NAME, if it is asked for and its
# sources can be had.
function(heaptape_extra_allocator stem name crate)
  set(switch ${${stem}_crate_switch})
  if(NOT EXTRA_ALLOCATORS OR (switch AND NOT ${switch}))
    return()
  endif()
  heaptape_vendored(${crate} folder problem)
  if(problem)
    set_property(GLOBAL APPEND PROPERTY HEAPTAPE_LEFT_OUT "replay-${name} (${crate}: ${problem})")
    return()
  endif()
  if(${stem}_crate_configure)
    heaptape_configured_library(${stem} ${name} ${folder})
  else()
    heaptape_compiled_library(${stem} ${name} ${folder})
  endif()
  heaptape_replayer(${stem} ${name})
  set_target_properties(replay-${name} PROPERTIES BUILD_RPATH "$ORIGIN" INSTALL_RPATH "$ORIGIN")
endfunction()

function(heaptape_tell_left_out)
  get_property(left_out GLOBAL PROPERTY HEAPTAPE_LEFT_OUT)
  if(left_out)
    list(JOIN left_out "\n  " left_out)
    message(WARNING "Left out, since their sources could not be had:\n  ${left_out}")
  endif()
endfunction()
