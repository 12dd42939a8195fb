# tern_find_ccache(result): the command that goes before compilers, empty where there is none (what find_program
# says then is a word, which a command line would take for a program).
function(tern_find_ccache result)
  find_program(found ccache NO_CACHE)
  if(NOT found)
    set(found "")
  endif()
  set(${result} "${found}" PARENT_SCOPE)
endfunction()
