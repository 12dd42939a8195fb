# tern_find_ccache(result compiler): the command that goes before compilers, empty where there is none (what
# find_program says then is a word, which a command line would take for a program) or where it cannot go before this
# one: it fails where it may not write its folder, as with no home.
function(tern_find_ccache result compiler)
  find_program(found ccache NO_CACHE)
  if(found)
    set(source ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/ccache_works.c)
    file(WRITE ${source} "int ccache_works;\n")
    execute_process(COMMAND ${found} ${compiler} -c ${source} -o ${source}.o
                    RESULT_VARIABLE failed OUTPUT_QUIET ERROR_VARIABLE said)
    if(NOT failed EQUAL 0)
      string(STRIP "${said}" said)
      message(STATUS "Going on without ccache, which does not work here: ${said}")
      set(found "")
    endif()
  else()
    set(found "")
  endif()
  set(${result} "${found}" PARENT_SCOPE)
endfunction()
