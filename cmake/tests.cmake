# Tests: one CTest per tests/<kind>/test_*.c, labelled by its kind; plugins, fuzzers and the install
# test. tests/api links the shared library, as a user would; the other kinds link the archive and
# see internals.
if(NOT TERN_TESTS)
  return()
endif()
enable_testing()

# Threads that spin while they wait would steal the core of the test beside them.
set(TERN_TEST_ENVIRONMENT
  "TERN_PLUGIN_PATH=${CMAKE_LIBRARY_OUTPUT_DIRECTORY}"
  "TERN_TEST_PLUGINS=${PROJECT_BINARY_DIR}/tests/plugin"
  "TERN_TEST_SOURCE=${PROJECT_SOURCE_DIR}"
  "TERN_TEST_EXAMPLES=${PROJECT_BINARY_DIR}/examples"
  "OMP_WAIT_POLICY=passive")
if(TARGET tern_command)
  list(APPEND TERN_TEST_ENVIRONMENT "TERN_TEST_COMMAND=${PROJECT_BINARY_DIR}/bin/tern")
endif()
if(TERN_SANITIZE MATCHES "address")
  # The leak check's tracer of clang 14 crashes on thread-local blocks that oneDNN's threads leave; it
  # finds the same leaks without following __tls_get_addr.
  set(asan_options detect_stack_use_after_return=1 strict_string_checks=1
      allocator_may_return_null=1 intercept_tls_get_addr=0)
  list(JOIN asan_options ":" asan_options)
  set(suppressions ${PROJECT_SOURCE_DIR}/cmake/lsan.supp)
  list(APPEND TERN_TEST_ENVIRONMENT
    "ASAN_OPTIONS=${asan_options}"
    "LSAN_OPTIONS=suppressions=${suppressions}:print_suppressions=0"
    "UBSAN_OPTIONS=print_stacktrace=1")
elseif(TERN_SANITIZE MATCHES "thread")
  # Archer tells the sanitizer what OpenMP synchronises.
  file(GLOB archer /usr/lib/llvm-*/lib/libarcher.so)
  list(APPEND TERN_TEST_ENVIRONMENT
    "TSAN_OPTIONS=ignore_noninstrumented_modules=1:halt_on_error=1:second_deadlock_stack=1:die_after_fork=0:allocator_may_return_null=1")
  if(archer)
    list(GET archer -1 archer)
    list(APPEND TERN_TEST_ENVIRONMENT "OMP_TOOL_LIBRARIES=${archer}")
  endif()
endif()

set(TERN_TEST_TIMEOUT 600 CACHE STRING "Seconds after which a test is ended")

# tern_test_properties(TEST LABELS...): environment, limits and labels of one CTest.
function(tern_test_properties test)
  set_tests_properties(${test} PROPERTIES
    ENVIRONMENT "${TERN_TEST_ENVIRONMENT}" TIMEOUT ${TERN_TEST_TIMEOUT} SKIP_RETURN_CODE 77 LABELS "${ARGN}")
endfunction()

# Scalar references, models and helpers that every test may use. References are never optimised beyond
# what C allows.
function(tern_test_support)
  file(GLOB sources CONFIGURE_DEPENDS
       ${PROJECT_SOURCE_DIR}/tests/ref/*.c ${PROJECT_SOURCE_DIR}/tests/support/*.c
       ${PROJECT_SOURCE_DIR}/tests/ops/opinfo_*.c ${PROJECT_SOURCE_DIR}/tests/ops/random_*.c
       ${PROJECT_SOURCE_DIR}/tests/alloc/*.c)
  list(FILTER sources EXCLUDE REGEX "/test_[^/]*$")
  if(sources)
    add_library(tern_test_support STATIC ${sources})
    target_include_directories(tern_test_support PRIVATE
      ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR})
    target_include_directories(tern_test_support SYSTEM PRIVATE ${TERN_CMOCKA_INCLUDE})
    target_link_libraries(tern_test_support PRIVATE tern_private)
    set_target_properties(tern_test_support PROPERTIES TERN_KERNELS ON)
  endif()
endfunction()

# One MODULE per folder tests/plugin/<name>: tests/plugin/tern_<name>.so in the build folder, without
# a libtern symbol.
function(tern_test_plugins)
  add_custom_target(tern_test_plugins) # of which tests build all that they may load
  file(GLOB folders CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/plugin/*)
  foreach(folder IN LISTS folders)
    file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.c)
    if(sources)
      get_filename_component(name ${folder} NAME)
      add_library(plugin_${name} MODULE ${sources})
      set_target_properties(plugin_${name} PROPERTIES PREFIX "" OUTPUT_NAME tern_${name}
        C_VISIBILITY_PRESET hidden LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/plugin)
      add_dependencies(tern_test_plugins plugin_${name})
      target_include_directories(plugin_${name} PRIVATE ${TERN_INCLUDES})
      target_link_libraries(plugin_${name} PRIVATE tern_private m)
      if(NOT TERN_SANITIZE AND NOT TERN_FUZZ)
        target_link_options(plugin_${name} PRIVATE -Wl,--no-undefined)
      endif()
    endif()
  endforeach()
endfunction()

add_custom_target(tern_threads_tests) # what the label `threads` names

# tern_test(KIND SOURCE)
function(tern_test kind source)
  get_filename_component(name ${source} NAME_WE)
  string(REGEX REPLACE "^test_" "" name ${name})
  set(target test_${kind}_${name})
  add_executable(${target} ${source})
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME test_${name} RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/${kind})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_include_directories(${target} SYSTEM PRIVATE ${TERN_CMOCKA_INCLUDE})
  if(kind STREQUAL "api")
    set(library tern)
  else()
    set(library tern_testing)
  endif()
  # The support archive stands before and after the library, since tests may refer to either from
  # either.
  set(support "")
  if(TARGET tern_test_support)
    set(support tern_test_support)
  endif()
  target_link_libraries(${target} PRIVATE
    tern_private ${support} ${library} ${TERN_CMOCKA_LIBRARY} ${support} Threads::Threads m)
  add_test(NAME ${kind}/${name} COMMAND ${target})
  file(STRINGS ${source} loads LIMIT_COUNT 1 REGEX "TERN_TEST_PLUGINS|second_backend")
  if(loads)
    add_dependencies(${target} tern_test_plugins)
  endif()
  file(STRINGS ${source} runs LIMIT_COUNT 1 REGEX "TERN_TEST_EXAMPLES|support/examples.h")
  if(runs)
    add_dependencies(${target} tern_examples)
    target_include_directories(${target} SYSTEM PRIVATE ${TERN_CJSON_INCLUDE})
    target_link_libraries(${target} PRIVATE ${TERN_CJSON_LIBRARY}) # their results
  endif()
  file(STRINGS ${source} threaded LIMIT_COUNT 1
       REGEX "pthread_create|thrd_create|tern_loader_open|\\.workers|omp_|\\.threads = |set_num_threads")
  set(labels ${kind})
  if(threaded)
    list(APPEND labels threads)
    add_dependencies(tern_threads_tests ${target})
  endif()
  tern_test_properties(${kind}/${name} ${labels})
  # A suite that runs with check_run takes the device that TERN_TEST_DEVICE names.
  file(STRINGS ${source} on_device LIMIT_COUNT 1 REGEX "check_run\\(|check_device_ready\\(")
  if(on_device AND TERN_HAVE_SIM AND NOT name MATCHES "^simulated")
    tern_on_devices(${kind}/${name})
  endif()
endfunction()

# tern_sim_test(SOURCE): against the simulator alone, without libtern and the backend (but for files that SOURCE includes).
function(tern_sim_test source)
  get_filename_component(name ${source} NAME_WE)
  string(REGEX REPLACE "^test_" "" name ${name})
  set(target test_sim_${name})
  add_executable(${target} ${source} ${PROJECT_SOURCE_DIR}/tests/support/crash.c
                 $<TARGET_OBJECTS:tern_sim_test_kernels> $<TARGET_OBJECTS:tern_simulator>)
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE C
    OUTPUT_NAME test_${name} RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/sim)
  target_include_directories(${target} BEFORE PRIVATE ${sim_include} ${TERN_INCLUDES})
  target_include_directories(${target} SYSTEM PRIVATE ${TERN_CMOCKA_INCLUDE})
  target_link_libraries(${target} PRIVATE
    tern_private ${TERN_CMOCKA_LIBRARY} Threads::Threads ${CMAKE_DL_LIBS} m)
  add_test(NAME sim/${name} COMMAND ${target})
  tern_test_properties(sim/${name} sim)
endfunction()

# tern_on_device(TEST NAME DEVICES DEVICE): an existing test program once more, on a simulated device.
function(tern_on_device test name devices device)
  string(REPLACE "/" "_" program test_${test})
  add_test(NAME ${test}_${name} COMMAND ${program})
  tern_test_properties(${test}_${name} sim)
  set_property(TEST ${test}_${name} APPEND PROPERTY ENVIRONMENT
    TERN_SIM_DEVICES=${devices} TERN_TEST_DEVICE=${device})
endfunction()

# tern_without(TEST NAME LIBRARIES): an existing test program once more, where simulated devices lack them.
function(tern_without test name libraries)
  string(REPLACE "/" "_" program test_${test})
  add_test(NAME ${test}_without_${name} COMMAND ${program})
  tern_test_properties(${test}_without_${name} sim)
  set_property(TEST ${test}_without_${name} APPEND PROPERTY ENVIRONMENT
    TERN_SIM_DEVICES=2 TERN_TEST_DEVICE=cuda TERN_SIM_ABSENT=${libraries})
endfunction()

# tern_on_devices(TEST): on the one device there is, and on the second of two, which is not the current one.
function(tern_on_devices test)
  tern_on_device(${test} simulated 1 cuda)
  if(NOT TERN_SANITIZE) # ten times slower, and the same code
    tern_on_device(${test} simulated_two 2 cuda:1)
  endif()
endfunction()

# tern_fuzzer(SOURCE): new inputs go to the build folder, the committed corpus is only read.
function(tern_fuzzer source)
  get_filename_component(name ${source} NAME_WE)
  string(REGEX REPLACE "^fuzz_" "" subject ${name})
  add_executable(${name} ${source})
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/fuzz)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  target_link_libraries(${name} PRIVATE tern_private tern_testing)
  if(subject STREQUAL "snapshot")
    target_link_libraries(${name} PRIVATE tern_command_parts)
  endif()
  set(found ${PROJECT_BINARY_DIR}/tests/fuzz/found/${subject})
  file(MAKE_DIRECTORY ${found})
  set(corpus ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${subject})
  if(NOT IS_DIRECTORY ${corpus})
    set(corpus "")
  endif()
  add_test(NAME fuzz/${subject} COMMAND ${name}
           -runs=${TERN_FUZZ_RUNS} -max_total_time=${TERN_FUZZ_SECONDS} -seed=1 -timeout=20
           -rss_limit_mb=2048 -artifact_prefix=${found}/crash- ${found} ${corpus})
  tern_test_properties(fuzz/${subject} fuzz)
  set_tests_properties(fuzz/${subject} PROPERTIES TIMEOUT 4000)
endfunction()

# tern_tuned(TEST): an existing test program once more for each of backend_cpu/tuning.h, whatever CPU this is.
function(tern_tuned test)
  string(REPLACE "/" "_" program test_${test})
  foreach(tuning zen5 zen4 intel avx2)
    add_test(NAME ${test}_${tuning} COMMAND ${program})
    tern_test_properties(${test}_${tuning} unit)
    set_property(TEST ${test}_${tuning} APPEND PROPERTY ENVIRONMENT TERN_CPU_TUNING=${tuning})
    if(tuning STREQUAL avx2) # of CPUs without AVX-512
      set_property(TEST ${test}_${tuning} APPEND PROPERTY ENVIRONMENT TERN_CPU_ISA=avx2)
    endif()
  endforeach()
endfunction()

set(TERN_FUZZ_RUNS 20000 CACHE STRING "Inputs that each fuzzer tries in its CTest; -1: no limit")
set(TERN_FUZZ_SECONDS 60 CACHE STRING "Seconds after which each fuzzer stops")

if(TERN_HAVE_CMOCKA)
  tern_test_support()
  foreach(kind unit ops api fault alloc)
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/${kind}/test_*.c)
    if(NOT TERN_HAVE_SIM)
      list(FILTER sources EXCLUDE REGEX "/test_(simulated.*|cuda_choice)\\.c$")
    endif()
    if(TERN_COVERAGE) # whole examples, counted, take too long
      list(FILTER sources EXCLUDE REGEX "/test_simulated_examples\\.c$")
    endif()
    foreach(source IN LISTS sources)
      tern_test(${kind} ${source})
    endforeach()
  endforeach()
  if(NOT TERN_SANITIZE) # the same code, which some CPU has run there
    foreach(kernels copy cross_entropy elementwise gemm gemm_bits gemm_way norm reduce softmax)
      tern_tuned(unit/cpu_${kernels})
    endforeach()
  endif()
endif()
tern_test_plugins()
if(TERN_HAVE_CMOCKA AND TERN_HAVE_SIM)
  add_library(tern_sim_test_kernels OBJECT ${PROJECT_SOURCE_DIR}/tests/sim/kernels.cu)
  target_include_directories(tern_sim_test_kernels PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(tern_sim_test_kernels PRIVATE tern_private)
  tern_sim_kernels(tern_sim_test_kernels ${PROJECT_SOURCE_DIR}/tests/sim/kernels.cu)
  if(TERN_SANITIZE MATCHES "undefined") # broken on purpose: the simulator is to find it
    set_source_files_properties(${PROJECT_SOURCE_DIR}/tests/sim/kernels.cu PROPERTIES
      COMPILE_OPTIONS -fno-sanitize=null,pointer-overflow,alignment)
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/sim/test_*.c)
  foreach(source IN LISTS sources)
    tern_sim_test(${source})
  endforeach()
  tern_on_device(api/amp_training simulated 1 cuda)
  tern_without(api/simulated_products cublas "cublas,cublasLt")
  tern_without(api/simulated_products cublaslt cublasLt)
  tern_without(api/simulated_device_info nvml nvidia-ml)
  tern_without(ops/linear cublas "cublas,cublasLt")
  tern_on_device(api/second_backend simulated 2 cuda)
endif()

if(TERN_FUZZ)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/fuzz/fuzz_*.c)
  foreach(source IN LISTS sources)
    tern_fuzzer(${source})
  endforeach()
endif()

if(NOT TERN_SANITIZE AND NOT TERN_COVERAGE)
  add_test(NAME python/module COMMAND sh ${PROJECT_SOURCE_DIR}/tests/python/run.sh
           ${PROJECT_SOURCE_DIR} $<TARGET_FILE:tern> tern)
  tern_test_properties(python/module python)
  add_test(NAME python/peers COMMAND sh ${PROJECT_SOURCE_DIR}/tests/python/run.sh
           ${PROJECT_SOURCE_DIR} $<TARGET_FILE:tern> peers)
  tern_test_properties(python/peers python)
  add_test(NAME python/fit_gemm COMMAND sh ${PROJECT_SOURCE_DIR}/tests/python/run.sh
           ${PROJECT_SOURCE_DIR} $<TARGET_FILE:tern> fit_gemm)
  tern_test_properties(python/fit_gemm python)
  add_test(NAME install/hello COMMAND sh ${PROJECT_SOURCE_DIR}/tests/install/test_install.sh
           ${CMAKE_COMMAND} ${CMAKE_GENERATOR} ${PROJECT_BINARY_DIR} ${CMAKE_C_COMPILER})
  tern_test_properties(install/hello install)
  add_test(NAME install/subproject COMMAND sh ${PROJECT_SOURCE_DIR}/tests/install/test_subproject.sh
           ${CMAKE_COMMAND} ${CMAKE_GENERATOR} ${CMAKE_C_COMPILER})
  tern_test_properties(install/subproject install)
  add_test(NAME front/door COMMAND sh ${PROJECT_SOURCE_DIR}/tests/front/test_front.sh
           ${PROJECT_SOURCE_DIR})
  tern_test_properties(front/door front)
  foreach(part run deps demo fetch gpu_report)
    add_test(NAME front/${part} COMMAND sh ${PROJECT_SOURCE_DIR}/tests/front/test_${part}.sh
             ${PROJECT_SOURCE_DIR})
    tern_test_properties(front/${part} front)
  endforeach()
  add_test(NAME front/without_openmp COMMAND sh
           ${PROJECT_SOURCE_DIR}/tests/front/test_without_openmp.sh ${PROJECT_SOURCE_DIR}
           ${CMAKE_C_COMPILER})
  tern_test_properties(front/without_openmp front)
  add_test(NAME front/links COMMAND sh ${PROJECT_SOURCE_DIR}/tests/front/test_links.sh
           ${PROJECT_BINARY_DIR})
  tern_test_properties(front/links front)
endif()

if(TERN_EXAMPLES AND NOT TERN_SANITIZE AND NOT TERN_COVERAGE)
  add_test(NAME front/progress COMMAND sh ${PROJECT_SOURCE_DIR}/tests/front/test_progress.sh
           ${PROJECT_BINARY_DIR}/examples)
  tern_test_properties(front/progress front)
endif()

add_test(NAME front/cuda_archs COMMAND sh ${PROJECT_SOURCE_DIR}/tests/front/test_cuda_archs.sh
         ${PROJECT_SOURCE_DIR} ${CMAKE_COMMAND})
tern_test_properties(front/cuda_archs front)
add_test(NAME front/onednn_version COMMAND sh ${PROJECT_SOURCE_DIR}/tests/front/test_onednn_version.sh
         ${PROJECT_SOURCE_DIR} ${CMAKE_COMMAND})
tern_test_properties(front/onednn_version front)
add_test(NAME front/ccache COMMAND sh ${PROJECT_SOURCE_DIR}/tests/front/test_ccache.sh
         ${PROJECT_SOURCE_DIR} ${CMAKE_COMMAND})
tern_test_properties(front/ccache front)
if(TERN_BENCH)
  add_test(NAME front/bench_arguments COMMAND sh
           ${PROJECT_SOURCE_DIR}/tests/front/test_bench_arguments.sh $<TARGET_FILE:bench_ops>)
  tern_test_properties(front/bench_arguments front)
endif()

add_executable(unload ${PROJECT_SOURCE_DIR}/tests/front/unload.c)
set_target_properties(unload PROPERTIES C_EXTENSIONS ON
                      RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/front)
target_link_libraries(unload PRIVATE tern_flags Threads::Threads ${CMAKE_DL_LIBS})
add_dependencies(unload tern)
add_test(NAME front/unload COMMAND unload $<TARGET_FILE:tern>)
tern_test_properties(front/unload front)

# Memory that nobody wrote, under valgrind: not in builds that a sanitizer watches.
if(TERN_HAVE_SIM AND NOT TERN_SANITIZE AND NOT TERN_COVERAGE)
  add_executable(undefined_reads ${PROJECT_SOURCE_DIR}/tests/front/undefined_reads.c)
  set_target_properties(undefined_reads PROPERTIES C_EXTENSIONS ON
                        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/front)
  target_link_libraries(undefined_reads PRIVATE tern tern_flags)
  target_compile_definitions(undefined_reads PRIVATE TERN_HAVE_VALGRIND=${TERN_HAVE_VALGRIND})
  add_test(NAME front/undefined_reads COMMAND sh
           ${PROJECT_SOURCE_DIR}/tests/front/test_undefined_reads.sh $<TARGET_FILE:undefined_reads>)
  tern_test_properties(front/undefined_reads front)
endif()

# The tern command: what it reads, refuses and writes; and the page in a browser, where there is one.
if(TARGET tern_command)
  add_test(NAME front/devices COMMAND sh ${PROJECT_SOURCE_DIR}/tests/front/test_devices.sh
           $<TARGET_FILE:tern_command> ${PROJECT_BINARY_DIR}/examples)
  tern_test_properties(front/devices front)
  if(TERN_EXAMPLES AND TERN_HAVE_SIM)
    add_test(NAME front/placement_page COMMAND sh
             ${PROJECT_SOURCE_DIR}/tests/front/test_placement_page.sh ${PROJECT_SOURCE_DIR}
             ${PROJECT_BINARY_DIR}/examples/pitfalls ${CMAKE_C_COMPILER})
    tern_test_properties(front/placement_page front)
  endif()
  foreach(part memory_report memory_page)
    add_test(NAME front/${part} COMMAND sh ${PROJECT_SOURCE_DIR}/tests/front/test_${part}.sh
             $<TARGET_FILE:tern_command>)
    tern_test_properties(front/${part} front)
  endforeach()
endif()
