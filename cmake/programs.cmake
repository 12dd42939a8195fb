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
  endforeach()
endif()

if(TERN_BENCH)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/bench_*.c)
  tern_helpers(tern_bench_common bench/common helper)
  foreach(source IN LISTS sources)
    get_filename_component(name ${source} NAME_WE)
    tern_program(${name} ${source} bench "${helper}")
    target_compile_definitions(${name} PRIVATE _GNU_SOURCE=)
  endforeach()
endif()

if(TERN_TOOLS)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/tern/*.c)
  if(sources)
    tern_program(tern_command "${sources}" bin "")
    set_target_properties(tern_command PROPERTIES OUTPUT_NAME tern)
  endif()
endif()
