# libtern.so: one OBJECT library per folder, so that build targets mirror the layers;
# libtern_blas.so beside it.
include(CheckCCompilerFlag)

set(TERN_FOLDERS core autograd amp backend_cpu nn data io)
set(TERN_OBJECTS "")

# What a source of ours may include: tern/x.h and paths from the root.
set(TERN_INCLUDES ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR})

# tern_objects(NAME SOURCES...): an OBJECT library with the flags of the library's own sources.
function(tern_objects name)
  add_library(tern_${name} OBJECT ${ARGN})
  set_target_properties(tern_${name} PROPERTIES C_VISIBILITY_PRESET hidden)
  target_include_directories(tern_${name} PRIVATE ${TERN_INCLUDES})
  target_link_libraries(tern_${name} PRIVATE tern_private)
  set(TERN_OBJECTS ${TERN_OBJECTS} $<TARGET_OBJECTS:tern_${name}> PARENT_SCOPE)
endfunction()

set(optimized $<CONFIG:Release>)
set(is_gcc $<C_COMPILER_ID:GNU>)

# Kernels: what full -ffast-math would add (no NaN, no infinity, any order of sums) is not wanted.
set(kernel_options -fno-math-errno -fno-trapping-math -ffp-contract=fast)
if(NOT TERN_SANITIZE)
  list(APPEND kernel_options $<${optimized}:-O3>)
endif()

foreach(folder IN LISTS TERN_FOLDERS)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.c)
  list(FILTER sources EXCLUDE REGEX "/backend_cpu/(isa|bridge)/")
  if(sources)
    tern_objects(${folder} ${sources})
  endif()
endforeach()

if(TARGET tern_backend_cpu)
  target_compile_options(tern_backend_cpu PRIVATE ${kernel_options})
  # linspace cuts start + step * i to integers: one fma, and -1 becomes -0.9999999999999995, that is 0.
  set_source_files_properties(${PROJECT_SOURCE_DIR}/backend_cpu/arange.c PROPERTIES
    COMPILE_OPTIONS -ffp-contract=off)
endif()

# A dataset of drawn digits is made when a program begins; its pixels are the same everywhere.
if(NOT TERN_COVERAGE)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/data/digits.c PROPERTIES
    COMPILE_OPTIONS "$<${optimized}:-O3>;-fno-math-errno;-fno-trapping-math;-ffp-contract=off")
endif()

# Lines are told apart at -O1 (where gcc warns of what is initialized), and the tests stay affordable; those of
# vector kernels would not.
function(tern_count_lines target)
  target_compile_options(${target} PRIVATE -O1 -Wno-maybe-uninitialized --coverage -fprofile-update=atomic)
  target_link_options(${target} PRIVATE --coverage)
endfunction()
if(TERN_COVERAGE)
  foreach(folder IN LISTS TERN_FOLDERS)
    if(TARGET tern_${folder})
      tern_count_lines(tern_${folder})
    endif()
  endforeach()
  link_libraries(gcov) # whatever holds these objects
endif()

# gcc turns short copy loops (shapes, strides of four numbers) into calls of memcpy: slower than the
# loop.
foreach(folder core autograd)
  if(TARGET tern_${folder})
    target_compile_options(tern_${folder} PRIVATE $<${is_gcc}:-fno-tree-loop-distribute-patterns>)
  endif()
endforeach()

# Only what reads files and names is a subject of the fuzzers; counters elsewhere (the allocator, drawn digits) cost
# and guide nothing.
if(TERN_FUZZ)
  file(GLOB readers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/core/visible/*.c ${PROJECT_SOURCE_DIR}/data/*.c
       ${PROJECT_SOURCE_DIR}/io/*.c)
  list(FILTER readers EXCLUDE REGEX "/data/digits\\.c$")
  list(APPEND readers ${PROJECT_SOURCE_DIR}/core/numeral.c ${PROJECT_SOURCE_DIR}/backend_cpu/gemm_line.c)
  set_source_files_properties(${readers} PROPERTIES COMPILE_OPTIONS -fsanitize=fuzzer-no-link)
endif()

# Each file in backend_cpu/isa is compiled once per instruction set; the choice is made at run time.
file(GLOB isa_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/backend_cpu/isa/*.c)
set(TERN_ISAS base)
set(isa_base "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
  list(APPEND TERN_ISAS avx2 avx512)
  if(TERN_X86_BASE)
    check_c_compiler_flag(-march=${TERN_X86_BASE} TERN_KNOWS_X86_BASE)
    if(TERN_KNOWS_X86_BASE)
      set(isa_base -march=${TERN_X86_BASE})
    endif()
  endif()
  set(isa_avx2 ${isa_base} -mavx2 -mfma -mf16c)
  # prfchw: a fetch for writing takes the line from another core; every CPU with AVX-512 has it
  set(isa_avx512 ${isa_avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprfchw -mprefer-vector-width=512)
endif()
if(isa_sources)
  foreach(isa IN LISTS TERN_ISAS)
    tern_objects(isa_${isa} ${isa_sources})
    target_compile_options(tern_isa_${isa} PRIVATE ${kernel_options} ${tern_unrolled} ${isa_${isa}})
    target_compile_definitions(tern_isa_${isa} PRIVATE CPU_ISA=${isa})
    set_target_properties(tern_isa_${isa} PROPERTIES TERN_KERNELS ON)
  endforeach()
  if(TARGET tern_isa_avx512 AND EXISTS /proc/cpuinfo)
    file(STRINGS /proc/cpuinfo has_avx512 LIMIT_COUNT 1 REGEX "^flags.* avx512f")
    if(NOT has_avx512)
      set_target_properties(tern_isa_avx512 PROPERTIES TERN_UNCHECKED ON)
    endif()
  endif()
endif()
foreach(target tern_backend_cpu tern_isa_base tern_isa_avx2 tern_isa_avx512)
  if(TARGET ${target})
    if(isa_avx2)
      target_compile_definitions(${target} PRIVATE TERN_HAVE_X86_ISAS=1)
    endif()
    if(TERN_HAVE_OPENMP)
      target_link_libraries(${target} PRIVATE OpenMP::OpenMP_C)
    endif()
  endif()
endforeach()

foreach(folder IN LISTS TERN_FOLDERS)
  if(TARGET tern_${folder})
    target_include_directories(tern_${folder} SYSTEM PRIVATE ${TERN_CJSON_INCLUDE})
    target_compile_definitions(tern_${folder} PRIVATE
      TERN_HAVE_ZLIB=${TERN_HAVE_ZLIB} TERN_HAVE_OPENMP=${TERN_HAVE_OPENMP}
      TERN_INSTALL_LIBDIR="${CMAKE_INSTALL_FULL_LIBDIR}")
    if(TERN_HAVE_ZLIB)
      target_include_directories(tern_${folder} SYSTEM PRIVATE ${ZLIB_INCLUDE_DIRS})
    endif()
  endif()
endforeach()

# What libtern itself needs at link time; the bridge to OpenBLAS and oneDNN is opened at run time.
add_library(tern_link INTERFACE)
target_link_libraries(tern_link INTERFACE ${TERN_CJSON_LIBRARY} Threads::Threads ${CMAKE_DL_LIBS} m)
if(TERN_HAVE_ZLIB)
  target_link_libraries(tern_link INTERFACE ${ZLIB_LIBRARIES})
endif()
if(TERN_HAVE_OPENMP)
  target_link_libraries(tern_link INTERFACE OpenMP::OpenMP_C)
  # At a thread's end GNU's runtime ends the threads of its team by pthread_exit, for which glibc opens libgcc_s then: it
  # aborts where it cannot (a program without a file descriptor left). What is loaded it need not open.
  if("gomp" IN_LIST OpenMP_C_LIB_NAMES)
    target_link_libraries(tern_link INTERFACE -Wl,--push-state,--no-as-needed,-lgcc_s,--pop-state)
  endif()
endif()

if(NOT TERN_OBJECTS)
  message(FATAL_ERROR "no sources found in ${TERN_FOLDERS}")
endif()

add_library(tern SHARED ${TERN_OBJECTS})
add_library(tern::tern ALIAS tern)
set_target_properties(tern PROPERTIES
  VERSION ${PROJECT_VERSION} SOVERSION ${TERN_SOVERSION} LINKER_LANGUAGE C)
target_link_libraries(tern PRIVATE tern_flags $<BUILD_INTERFACE:tern_link>)
target_include_directories(tern INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
# nodelete: threads that have used the library call it as they end, after the last dlclose, too.
target_link_options(tern PRIVATE -Wl,-z,now -Wl,-z,nodelete)
if(NOT TERN_SANITIZE AND NOT TERN_FUZZ)
  target_link_options(tern PRIVATE -Wl,--no-undefined)
endif()

# The same objects as an archive, for tests that reach behind the public functions.
add_library(tern_testing STATIC EXCLUDE_FROM_ALL ${TERN_OBJECTS})
set_target_properties(tern_testing PROPERTIES LINKER_LANGUAGE C)
target_include_directories(tern_testing INTERFACE ${TERN_INCLUDES})
target_link_libraries(tern_testing INTERFACE tern_flags tern_link)

# The bridge imports nothing from libtern. Its run path names the folder of the BLAS variant that it
# was linked with, because Debian's variants share one soname and the system's default may be
# another.
file(GLOB bridge_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/backend_cpu/bridge/*.c)
set(TERN_HAVE_BRIDGE 0)
if(bridge_sources AND (TERN_HAVE_BLAS OR TERN_HAVE_ONEDNN))
  set(TERN_HAVE_BRIDGE 1)
  add_library(tern_blas MODULE ${bridge_sources})
  set_target_properties(tern_blas PROPERTIES
    PREFIX lib C_VISIBILITY_PRESET hidden LINKER_LANGUAGE C)
  target_include_directories(tern_blas PRIVATE ${TERN_INCLUDES})
  target_compile_definitions(tern_blas PRIVATE
    TERN_HAVE_BLAS=${TERN_HAVE_BLAS} TERN_HAVE_ONEDNN=${TERN_HAVE_ONEDNN})
  target_link_libraries(tern_blas PRIVATE tern_private)
  if(TERN_COVERAGE)
    tern_count_lines(tern_blas)
  endif()
  if(TERN_HAVE_BLAS)
    get_filename_component(blas_folder ${TERN_BLAS_LIBRARY} DIRECTORY)
    set_target_properties(tern_blas PROPERTIES
      INSTALL_RPATH ${blas_folder} BUILD_RPATH ${blas_folder})
    target_link_libraries(tern_blas PRIVATE tern_dep_blas)
  endif()
  if(TERN_HAVE_ONEDNN)
    target_link_libraries(tern_blas PRIVATE tern_dep_onednn)
  endif()
  if(TERN_HAVE_OPENMP)
    target_link_libraries(tern_blas PRIVATE OpenMP::OpenMP_C)
  endif()
  target_link_options(tern_blas PRIVATE -Wl,-z,now)
  # Nothing links the bridge, so that building the library must ask for it.
  add_dependencies(tern tern_blas)
  add_dependencies(tern_testing tern_blas)
endif()
