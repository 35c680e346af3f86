# SPDX-License-Identifier: Apache-2.0
# The library: every floor of src/ is compiled once into cero_objects; the shared library exports what
# include/cero/ marks CERO_API, and the static archive serves the command and the tests.

set(CERO_FLOORS base spec kernels device comm data graph optim offload ckpt parallel zero nn models
                engine plan train)
set(cero_sources "")
foreach(floor IN LISTS CERO_FLOORS)
  file(GLOB_RECURSE floor_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${floor}/*.c")
  # Templates are included by the files of a dtype or an instruction set, never compiled alone.
  list(FILTER floor_sources EXCLUDE REGEX "_tmpl\\.c$")
  if(NOT CERO_HAVE_MPI)
    list(FILTER floor_sources EXCLUDE REGEX "/src/comm/mpi/")
  endif()
  list(APPEND cero_sources ${floor_sources})
endforeach()

add_library(cero_objects STATIC ${cero_sources})
cero_target_flags(cero_objects)
target_link_libraries(cero_objects PUBLIC ${DNNL_LIBRARY} OpenMP::OpenMP_C Threads::Threads m
                                   PRIVATE PkgConfig::PCRE2 PkgConfig::XXHASH)

target_include_directories(cero_objects PRIVATE "${DNNL_INCLUDE_DIR}")
# Private: who links the archive links MPI, and sees its header only by asking for cero_mpi.
target_link_libraries(cero_objects PRIVATE $<$<BOOL:${CERO_HAVE_MPI}>:cero_mpi>)

foreach(source IN LISTS cero_sources)
  if(source MATCHES "/kernels/avx2/")
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS
                                "${CERO_AVX2_FLAGS};-Wno-conversion")
  elseif(source MATCHES "/kernels/avx512/")
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS
                                "${CERO_AVX512_FLAGS};-Wno-conversion")
  elseif(source MATCHES "/kernels/avx512bf16/")
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS
                                "${CERO_AVX512BF16_FLAGS};-Wno-conversion")
  elseif(source MATCHES "/src/(comm|engine)/")
    set_source_files_properties(${source} PROPERTIES COMPILE_DEFINITIONS
                                CERO_HAVE_MPI=${CERO_HAVE_MPI})
  elseif(source MATCHES "/kernels/")
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "-Wno-conversion")
  endif()
endforeach()

add_library(cero SHARED $<TARGET_OBJECTS:cero_objects>)
set_target_properties(cero PROPERTIES SOVERSION 0 VERSION ${PROJECT_VERSION})
target_include_directories(cero INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                          $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(cero PRIVATE ${DNNL_LIBRARY} OpenMP::OpenMP_C Threads::Threads m
                                   PkgConfig::PCRE2 PkgConfig::XXHASH
                                   $<$<BOOL:${CERO_HAVE_MPI}>:cero_mpi>)
target_link_options(cero PRIVATE "LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/cero.map")
set_target_properties(cero PROPERTIES LINK_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/cero.map")
if(CERO_SANITIZE)
  target_link_options(cero PRIVATE -fsanitize=${CERO_SANITIZE})
endif()
add_library(cero::cero ALIAS cero)
