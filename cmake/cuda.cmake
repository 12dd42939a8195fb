# The CUDA backend, twice from one source: libtern_sim.so with simulated devices wants a C++ compiler
# and nothing of CUDA; libtern_cuda.so is built where nvcc is (target tern_cuda, ./run build asks for it).
include(CheckLanguage)

file(GLOB cuda_host CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/backend_cuda/*.c)
file(GLOB cuda_kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/backend_cuda/*.cu)
# Two thirds of a build on two cores: nothing else is left to do beside it, unless it begins first.
list(REMOVE_ITEM cuda_kernels ${PROJECT_SOURCE_DIR}/backend_cuda/elementwise.cu)
list(PREPEND cuda_kernels ${PROJECT_SOURCE_DIR}/backend_cuda/elementwise.cu)
file(GLOB sim_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/backend_cuda/sim/*.c)
list(APPEND sim_sources ${PROJECT_SOURCE_DIR}/core/visible/list.c) # counts as a driver would
set(sim_include ${PROJECT_SOURCE_DIR}/backend_cuda/sim/include)

# ---- simulated devices ---------------------------------------------------------------------------

# tern_find_cxx(): a C++ compiler of the C compiler's kind, since both share sanitizers and objects.
macro(tern_find_cxx)
  if(NOT CMAKE_CXX_COMPILER AND CMAKE_C_COMPILER_ID MATCHES "Clang")
    get_filename_component(cc_folder ${CMAKE_C_COMPILER} DIRECTORY)
    find_program(CMAKE_CXX_COMPILER NAMES clang++ HINTS ${cc_folder})
  endif()
  check_language(CXX)
  if(CMAKE_CXX_COMPILER)
    enable_language(CXX)
  endif()
endmacro()

# tern_sim_kernels(TARGET SOURCES...): .cu files of a target as C++ against the simulator's headers.
function(tern_sim_kernels target)
  set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CXX)
  target_include_directories(${target} BEFORE PRIVATE ${sim_include})
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-x c++>"
    $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions$<SEMICOLON>-fno-rtti$<SEMICOLON>-fno-math-errno>
    $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off> # __dmul_rn and __dadd_rn stay two roundings
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-unknown-pragmas>
    $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-pass-failed$<SEMICOLON>-Wno-unused-function>
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-extern-tls-init>)
  set_target_properties(${target} PROPERTIES CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON
    CXX_EXTENSIONS OFF CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON LINKER_LANGUAGE C)
endfunction()

set(TERN_HAVE_SIM 0)
tern_wanted(SIM wanted)
if(wanted)
  tern_find_cxx()
  tern_found(SIM "${CMAKE_CXX_COMPILER}")
endif()
if(TERN_HAVE_SIM)
  if(TERN_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${TERN_CCACHE})
  endif()
  set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
  set(CMAKE_CXX_FLAGS_DEBUG "-Og -g")
  # A definition, so that what is compiled follows the header when it comes later (./run demo, then ./run test).
  find_path(TERN_VALGRIND_INCLUDE NAMES valgrind/memcheck.h NO_CACHE)
  set(TERN_HAVE_VALGRIND 0)
  if(TERN_VALGRIND_INCLUDE)
    set(TERN_HAVE_VALGRIND 1)
  else()
    set(TERN_VALGRIND_INCLUDE "")
  endif()
  add_library(tern_simulator OBJECT ${sim_sources})
  target_include_directories(tern_simulator SYSTEM PRIVATE ${TERN_VALGRIND_INCLUDE})
  target_compile_definitions(tern_simulator PRIVATE TERN_HAVE_VALGRIND=${TERN_HAVE_VALGRIND})
  set_target_properties(tern_simulator PROPERTIES C_VISIBILITY_PRESET hidden TERN_KERNELS ON)
  target_include_directories(tern_simulator BEFORE PRIVATE ${sim_include} ${TERN_INCLUDES})
  target_link_libraries(tern_simulator PRIVATE tern_private)

  # Who runs next and products run as often as everything else together, and are no part of the product.
  if(TERN_SANITIZE)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/backend_cuda/sim/block.c
      ${PROJECT_SOURCE_DIR}/backend_cuda/sim/gemm.c PROPERTIES COMPILE_OPTIONS "-O2;-fno-sanitize=all")
  endif()

  add_library(tern_sim MODULE ${cuda_host} ${cuda_kernels} $<TARGET_OBJECTS:tern_simulator>)
  set_target_properties(tern_sim PROPERTIES PREFIX lib C_VISIBILITY_PRESET hidden)
  target_include_directories(tern_sim PRIVATE ${TERN_INCLUDES})
  target_link_libraries(tern_sim PRIVATE tern_private Threads::Threads ${CMAKE_DL_LIBS} m)
  tern_sim_kernels(tern_sim ${cuda_kernels})
  if(TERN_COVERAGE)
    tern_count_lines(tern_sim)
  elseif(NOT TERN_SANITIZE) # at -O2 gcc 12 makes one aligned store of both ways of store_pack
    target_compile_options(tern_sim PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O3>)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/backend_cuda/elementwise.cu
      ${PROJECT_SOURCE_DIR}/backend_cuda/attention.cu ${PROJECT_SOURCE_DIR}/backend_cuda/attention_half.cu
      ${PROJECT_SOURCE_DIR}/backend_cuda/reduce.cu PROPERTIES COMPILE_OPTIONS -O1)
  endif()
  # With a check at each access: a thousand kernels that are optimized take 137 s instead of 27, and tiles unrolled as
  # #pragma unroll says 186 s instead of 25 (attention_half.cu).
  if(TERN_SANITIZE)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/backend_cuda/elementwise.cu PROPERTIES COMPILE_OPTIONS -O0)
  endif()
  if(TERN_SANITIZE AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    set_source_files_properties(${PROJECT_SOURCE_DIR}/backend_cuda/attention.cu
      ${PROJECT_SOURCE_DIR}/backend_cuda/attention_half.cu PROPERTIES
      COMPILE_OPTIONS "-mllvm;-pragma-unroll-threshold=300")
  endif()
  target_link_options(tern_sim PRIVATE -Wl,-z,now)
  if(NOT TERN_SANITIZE AND NOT TERN_FUZZ)
    target_link_options(tern_sim PRIVATE -Wl,--no-undefined) # a row without a kernel is found here
  endif()
  # Nothing links it, so that building the library must ask for it.
  add_dependencies(tern tern_sim)
  add_dependencies(tern_testing tern_sim)
endif()

# ---- real ones -----------------------------------------------------------------------------------

set(TERN_CUDA_ARCHS "" CACHE STRING
    "Architectures that libtern_cuda.so has machine code for, beside PTX: 89 or 80;90; empty: those of this machine's GPUs, else 90")
set(TERN_CUDA_PTX 75 CACHE STRING
    "The oldest architecture that the PTX in libtern_cuda.so is for; one of TERN_CUDA_ARCHS: compiles in two thirds of the time")
include(cmake/cuda_archs.cmake)
set(TERN_HAVE_CUDA 0)
tern_wanted(CUDA wanted)
if(wanted AND NOT TERN_SANITIZE)
  find_program(TERN_NVCC nvcc PATHS /usr/local/cuda/bin /opt/cuda/bin NO_CACHE)
  if(TERN_NVCC)
    get_filename_component(cuda_root ${TERN_NVCC} REALPATH)
    get_filename_component(cuda_root ${cuda_root}/../.. ABSOLUTE)
    find_library(TERN_CUDART cudart_static PATHS ${cuda_root}/lib64 ${cuda_root}/lib NO_CACHE
                 NO_DEFAULT_PATH)
  endif()
  if(TERN_NVCC AND TERN_CUDART)
    tern_found(CUDA TRUE)
  else()
    tern_found(CUDA FALSE)
  endif()
endif()
target_compile_definitions(tern_core PRIVATE TERN_HAVE_CUDA=${TERN_HAVE_CUDA})
set(cuda_archs ${TERN_CUDA_ARCHS})
if(TERN_HAVE_CUDA AND NOT cuda_archs)
  tern_cuda_archs(${TERN_NVCC} cuda_archs)
endif()

# tern_nvcc(SOURCE result): the command that makes one object, and beside it what ptxas says about each
# kernel's registers (read by tools/cuda/budget.py). -O1 is for the launchers, on the host; kernels get -O3 by themselves. Machine code is
# compressed like PTX is (for sm_90 12 MB instead of 29); any driver that takes this toolkit's code takes it.
function(tern_nvcc source result)
  get_filename_component(name ${source} NAME_WE)
  set(object ${PROJECT_BINARY_DIR}/cuda/${name}.o)
  set(targets -gencode arch=compute_${TERN_CUDA_PTX},code=compute_${TERN_CUDA_PTX})
  foreach(arch IN LISTS cuda_archs)
    list(APPEND targets -gencode arch=compute_${arch},code=sm_${arch})
  endforeach()
  add_custom_command(OUTPUT ${object}
    COMMAND sh ${PROJECT_SOURCE_DIR}/tools/cuda/compile.sh ${object}.ptxas
            ${TERN_CCACHE} ${TERN_NVCC} -Xptxas=-v -Xfatbin=-compress-all -std=c++17 -O1 ${targets} -I${PROJECT_SOURCE_DIR}
            -I${PROJECT_SOURCE_DIR}/include -Xcompiler -fPIC,-fvisibility=hidden
            -Xcudafe --diag_suppress=177 -MD -MF ${object}.d -c ${source} -o ${object}
    DEPENDS ${source} ${PROJECT_SOURCE_DIR}/tools/cuda/compile.sh DEPFILE ${object}.d COMMENT "nvcc ${name}.cu" VERBATIM)
  set(${result} ${object} PARENT_SCOPE)
endfunction()

if(TERN_HAVE_CUDA)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/cuda)
  set(cuda_objects "")
  foreach(source IN LISTS cuda_kernels)
    tern_nvcc(${source} object)
    list(APPEND cuda_objects ${object})
  endforeach()
  add_library(tern_cuda MODULE EXCLUDE_FROM_ALL ${cuda_host} ${cuda_objects})
  set_target_properties(tern_cuda PROPERTIES PREFIX lib C_VISIBILITY_PRESET hidden LINKER_LANGUAGE C)
  target_include_directories(tern_cuda PRIVATE ${TERN_INCLUDES})
  # cuDNN is opened, and its headers are no part of the toolkit: what is used of them is declared in the
  # simulator's (tools/check_sim_headers.py compares both).
  configure_file(${sim_include}/cudnn.h ${PROJECT_BINARY_DIR}/cuda/include/cudnn.h COPYONLY)
  target_include_directories(tern_cuda BEFORE PRIVATE ${PROJECT_BINARY_DIR}/cuda/include)
  target_include_directories(tern_cuda SYSTEM PRIVATE ${cuda_root}/include)
  target_link_libraries(tern_cuda PRIVATE tern_private ${TERN_CUDART} Threads::Threads
    ${CMAKE_DL_LIBS} rt m stdc++)
  list(JOIN cuda_archs "," cuda_arch_list)
  target_compile_definitions(tern_cuda PRIVATE "TERN_CUDA_ARCH_LIST=${cuda_arch_list}"
                             TERN_CUDA_PTX=${TERN_CUDA_PTX})
  # Where dlopen looks for cuBLAS and cuDNN beside the loader's own places.
  get_filename_component(cuda_libraries ${TERN_CUDART} DIRECTORY)
  set_target_properties(tern_cuda PROPERTIES BUILD_RPATH ${cuda_libraries} INSTALL_RPATH ${cuda_libraries})
  target_link_options(tern_cuda PRIVATE -Wl,-z,now -Wl,--no-undefined -Wl,--exclude-libs,ALL)
endif()
