# SPDX-License-Identifier: Apache-2.0
# Installation: command, shared library, headers, cero.pc and the CMake package.

include(CMakePackageConfigHelpers)
install(TARGETS cero_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS cero EXPORT ceroTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(NOT CERO_HAVE_MPI)
  set(cero_headers_left_out PATTERN mpi.h EXCLUDE)
endif()
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/cero" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        ${cero_headers_left_out})
install(EXPORT ceroTargets NAMESPACE cero:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cero)
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/ceroConfig.cmake.in"
                              "${CMAKE_BINARY_DIR}/ceroConfig.cmake"
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cero)
write_basic_package_version_file("${CMAKE_BINARY_DIR}/ceroConfigVersion.cmake"
                                 COMPATIBILITY SameMajorVersion)
install(FILES "${CMAKE_BINARY_DIR}/ceroConfig.cmake" "${CMAKE_BINARY_DIR}/ceroConfigVersion.cmake"
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cero)
# The prefix in cero.pc is relative to where it lies, so that an installed tree can be moved.
file(RELATIVE_PATH CERO_PREFIX_FROM_PC
     "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
# The shared library brings its MPI along; --static has to name it.
set(CERO_PC_LIBS_PRIVATE "")
if(CERO_HAVE_MPI)
  list(JOIN MPI_C_LIBRARIES " " CERO_PC_LIBS_PRIVATE)
  string(STRIP "${MPI_C_LINK_FLAGS} ${CERO_PC_LIBS_PRIVATE}" CERO_PC_LIBS_PRIVATE)
endif()
configure_file("${PROJECT_SOURCE_DIR}/cmake/cero.pc.in" "${CMAKE_BINARY_DIR}/cero.pc" @ONLY)
install(FILES "${CMAKE_BINARY_DIR}/cero.pc" DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
