# examples/*.c, bench/bench_*.c and tools/tern/*.c. Examples are compiled as a user's program would
# be.

# tern_helpers(TARGET FOLDER result): an archive of a folder's shared sources, or nothing.
function(tern_helpers target folder result)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.c)
  set(${result} "" PARENT_SCOPE)
  if(sources)
    add_library(${target} STATIC ${sources})
    set_target_properties(${target} PROPERTIES C_EXTENSIONS ON)
    target_link_libraries(${target} PUBLIC tern tern_flags m)
    set(${result} ${target} PARENT_SCOPE)
  endif()
endfunction()

# tern_program(NAME SOURCE FOLDER HELPER): one program against the shared library.
function(tern_program name source folder helper)
  add_executable(${name} ${source})
  set_target_properties(${name} PROPERTIES C_EXTENSIONS ON
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${folder})
  target_link_libraries(${name} PRIVATE ${helper} tern tern_flags m)
endfunction()

add_custom_target(tern_examples) # without the pitfalls
if(TERN_EXAMPLES)
  tern_helpers(tern_examples_common examples/common helper)
  if(helper)
    target_include_directories(${helper} SYSTEM PRIVATE ${TERN_CJSON_INCLUDE})
    target_link_libraries(${helper} PRIVATE ${TERN_CJSON_LIBRARY}) # results as JSON
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/*.c)
  foreach(source IN LISTS sources)
    get_filename_component(name ${source} NAME_WE)
    tern_program(example_${name} ${source} examples "${helper}")
    set_target_properties(example_${name} PROPERTIES OUTPUT_NAME ${name})
    add_dependencies(tern_examples example_${name})
  endforeach()
  set(folder ${PROJECT_SOURCE_DIR}/examples/pitfalls)
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.c)
  foreach(source IN LISTS sources)
    get_filename_component(name ${source} NAME_WE)
    tern_program(pitfall_${name} ${source} examples/pitfalls "")
    set_target_properties(pitfall_${name} PROPERTIES OUTPUT_NAME ${name})
    target_compile_options(pitfall_${name} PRIVATE -fmacro-prefix-map=${folder}/=) # short sites
  endforeach()
  # Its mistake is one that the compiler sees.
  set_source_files_properties(${folder}/thrown_away_wrong.c PROPERTIES
                              COMPILE_OPTIONS -Wno-unused-result)
endif()

if(TERN_BENCH)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/bench_*.c)
  tern_helpers(tern_bench_common bench/common helper)
  target_compile_options(tern_bench_common PRIVATE ${tern_unrolled})
  target_compile_definitions(tern_bench_common PRIVATE _GNU_SOURCE=)
  if(TERN_HAVE_OPENMP)
    target_link_libraries(${helper} PRIVATE OpenMP::OpenMP_C) # streams on several threads
  endif()
  set(ways ${PROJECT_SOURCE_DIR}/bench/bench_ways.c)
  list(REMOVE_ITEM sources ${ways})
  foreach(source IN LISTS sources)
    get_filename_component(name ${source} NAME_WE)
    tern_program(${name} ${source} bench "${helper}")
    target_compile_definitions(${name} PRIVATE _GNU_SOURCE=)
  endforeach()
  # The ways of a product are no public interface: it has the library in it, as tests have.
  if(TERN_TESTS)
    set(common ${PROJECT_SOURCE_DIR}/bench/common)
    add_executable(bench_ways ${ways} ${common}/arguments.c ${common}/bench.c ${common}/products.c)
    set_target_properties(bench_ways PROPERTIES C_EXTENSIONS ON
      RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench)
    target_include_directories(bench_ways PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/bench)
    target_link_libraries(bench_ways PRIVATE tern_private tern_testing)
  endif()
  # The device allocator is no public interface: its bench compiles it in.
  file(GLOB alloc CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/core/alloc/*.c)
  target_sources(bench_alloc PRIVATE ${alloc} ${PROJECT_SOURCE_DIR}/core/fault.c
                 ${PROJECT_SOURCE_DIR}/core/numeral.c)
  target_include_directories(bench_alloc PRIVATE ${PROJECT_SOURCE_DIR})
endif()

# tern_embed(FILE SYMBOL result): a C source with the file's bytes as SYMBOL and SYMBOL_bytes.
function(tern_embed file symbol result)
  set(out ${PROJECT_BINARY_DIR}/embedded/${symbol}.c)
  set(script ${PROJECT_SOURCE_DIR}/cmake/embed.cmake)
  add_custom_command(OUTPUT ${out} DEPENDS ${file} ${script} VERBATIM
    COMMAND ${CMAKE_COMMAND} -DIN=${file} -DOUT=${out} -DNAME=${symbol} -P ${script})
  set(${result} ${out} PARENT_SCOPE)
endfunction()

# All but main() is an archive, which the fuzzers link, too.
if(TERN_TOOLS)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/tern/*.c)
  list(FILTER sources EXCLUDE REGEX "/main\\.c$")
  list(APPEND sources ${PROJECT_SOURCE_DIR}/examples/common/output.c)
  tern_embed(${PROJECT_SOURCE_DIR}/tools/tern/page/report.css page_css css)
  tern_embed(${PROJECT_SOURCE_DIR}/tools/tern/page/report.js page_js js)
  add_library(tern_command_parts STATIC ${sources} ${css} ${js})
  set_target_properties(tern_command_parts PROPERTIES C_EXTENSIONS ON)
  target_include_directories(tern_command_parts PUBLIC ${TERN_INCLUDES})
  target_include_directories(tern_command_parts SYSTEM PRIVATE ${TERN_CJSON_INCLUDE})
  target_link_libraries(tern_command_parts PUBLIC tern_flags ${TERN_CJSON_LIBRARY} m)
  if(TERN_FUZZ)
    target_compile_options(tern_command_parts PRIVATE -fsanitize=fuzzer-no-link)
  endif()
  tern_program(tern_command ${PROJECT_SOURCE_DIR}/tools/tern/main.c bin tern_command_parts)
  set_target_properties(tern_command PROPERTIES OUTPUT_NAME tern)
endif()
