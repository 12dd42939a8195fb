# Compiler flags: one interface target for everything (tern_flags), one for the library's own
# sources (tern_private).
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_C_FLAGS_DEBUG "-Og -g")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)

include(cmake/ccache.cmake)
tern_find_ccache(TERN_CCACHE "${CMAKE_C_COMPILER}")
if(TERN_CCACHE AND NOT DEFINED CMAKE_C_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${TERN_CCACHE})
endif()

add_library(tern_flags INTERFACE)
# Kernels of the CUDA backend are the only C++: templates of all types meet conversions and comparisons
# that only some of them need.
target_compile_options(tern_flags INTERFACE -Wall -Wextra
  $<$<COMPILE_LANGUAGE:C>:-Wpedantic$<SEMICOLON>-Wshadow$<SEMICOLON>-Wconversion>
  # constants are members of an enum here, whatever they are compared with; clang 16 and newer complain
  $<$<COMPILE_LANG_AND_ID:C,Clang>:-Wno-enum-float-conversion>)
if(TERN_WERROR)
  target_compile_options(tern_flags INTERFACE -Werror)
endif()
# Of sources with loops that pragmas unroll: with a sanitizer's checks in each copy clang 14 takes minutes for
# them (gemm.c of AVX-512: 8, rolled 25 seconds).
set(tern_unrolled)
if(TERN_SANITIZE)
  set(tern_unrolled -DTERN_ROLLED)
  # -O1 keeps the run time bearable and the stacks readable.
  target_compile_options(tern_flags INTERFACE
    -O1 -g1 -fno-omit-frame-pointer -fsanitize=${TERN_SANITIZE})
  target_link_options(tern_flags INTERFACE -fsanitize=${TERN_SANITIZE})
  # Two hundred programs with a sanitizer in them: 0.3 s each instead of 0.7.
  if(CMAKE_C_COMPILER_ID MATCHES "Clang")
    get_filename_component(cc_folder ${CMAKE_C_COMPILER} REALPATH)
    get_filename_component(cc_folder ${cc_folder} DIRECTORY)
    find_program(TERN_LLD ld.lld HINTS ${cc_folder} NO_CACHE)
    if(TERN_LLD)
      target_link_options(tern_flags INTERFACE -fuse-ld=lld)
    endif()
  endif()
  if(TERN_SANITIZE MATCHES "undefined")
    # Two checks want clang's C++ runtime, which programs that are linked as C do not have.
    target_compile_options(tern_flags INTERFACE -fno-sanitize-recover=undefined
      $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-fno-sanitize=function,vptr>)
    # No check of each address that a kernel makes: of each that it uses there is one (attention.cu: 51 s instead of 96).
    target_compile_options(tern_flags INTERFACE
      $<$<OR:$<COMPILE_LANGUAGE:CXX>,$<BOOL:$<TARGET_PROPERTY:TERN_KERNELS>>>:-fno-sanitize=pointer-overflow>)
  endif()
  # Simulated kernels call their checks (34 s instead of 51) and run as fast. The CPU's would take five times longer.
  if(TERN_SANITIZE MATCHES "address")
    target_compile_options(tern_flags INTERFACE
      $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-fsanitize-address-outline-instrumentation>)
    # What kernels and references have on their stacks nobody keeps, and half of their time went into moving it to
    # the heap.
    if(CMAKE_C_COMPILER_ID MATCHES "Clang")
      target_compile_options(tern_flags INTERFACE
        $<$<OR:$<COMPILE_LANGUAGE:CXX>,$<BOOL:$<TARGET_PROPERTY:TERN_KERNELS>>>:-fsanitize-address-use-after-return=never>)
    endif()
  endif()
  # Of code that this machine cannot run: a sixth of the build, for masked loads are checked lane by lane.
  target_compile_options(tern_flags INTERFACE $<$<BOOL:$<TARGET_PROPERTY:TERN_UNCHECKED>>:-fno-sanitize=all>)
endif()
if(TERN_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "TERN_FUZZ needs clang (libFuzzer): use the fuzz or asan-ubsan preset")
  endif()
endif()

# The definition is empty so that a source which defines it again, in the usual form, does not warn.
add_library(tern_private INTERFACE)
target_link_libraries(tern_private INTERFACE tern_flags)
target_compile_definitions(tern_private INTERFACE $<$<COMPILE_LANGUAGE:C>:_GNU_SOURCE=>)
target_compile_options(tern_private INTERFACE -fno-semantic-interposition)
