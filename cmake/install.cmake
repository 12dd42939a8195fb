# cmake --install BUILD --prefix ANY. Everything finds its neighbours relative to itself, so the
# tree may be moved.
if(NOT TERN_INSTALL)
  return()
endif()
include(CMakePackageConfigHelpers)

install(TARGETS tern EXPORT tern-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/tern DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
if(TERN_HAVE_BRIDGE)
  install(TARGETS tern_blas LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TERN_HAVE_SIM)
  install(TARGETS tern_sim LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TERN_HAVE_CUDA)
  install(TARGETS tern_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} OPTIONAL)
endif()
if(TARGET tern_command)
  set_target_properties(tern_command PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS tern_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(FILES python/tern.py DESTINATION ${CMAKE_INSTALL_DATADIR}/tern/python) # finds ../../../lib
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/tern)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tern)
install(EXPORT tern-targets NAMESPACE tern:: DESTINATION ${package_dir})
configure_package_config_file(cmake/tern-config.cmake.in ${PROJECT_BINARY_DIR}/tern-config.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tern-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tern-config.cmake
              ${PROJECT_BINARY_DIR}/tern-config-version.cmake
        DESTINATION ${package_dir})

# pkg-config's own variable leads from lib/pkgconfig back to the prefix.
file(RELATIVE_PATH up_to_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" up_to_prefix ${up_to_prefix})
configure_file(cmake/tern.pc.in ${PROJECT_BINARY_DIR}/tern.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tern.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
