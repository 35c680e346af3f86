# SPDX-License-Identifier: Apache-2.0
# Installation: command, shared library, headers, cero.pc and the CMake package.

include(CMakePackageConfigHelpers)
install(TARGETS cero_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS cero EXPORT ceroTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/cero" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
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
configure_file("${PROJECT_SOURCE_DIR}/cmake/cero.pc.in" "${CMAKE_BINARY_DIR}/cero.pc" @ONLY)
install(FILES "${CMAKE_BINARY_DIR}/cero.pc" DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
