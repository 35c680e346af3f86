# SPDX-License-Identifier: Apache-2.0
# MPI: whether it is there, which one it is, and how its programs are started. Sets
#   CERO_HAVE_MPI       1 or 0
#   CERO_MPI_FLAVOUR    openmpi, mpich, other or none
#   MPIEXEC_EXECUTABLE  the launcher that belongs to the library, CERO_MPIEXEC_FLAGS what it needs to
#                       start more ranks than cores; both empty when there is none
# and, with MPI, the target cero_mpi. The library is the one of `mpicc`, or of MPI_C_COMPILER if given.

include(CheckSymbolExists)
set(CERO_MPI AUTO CACHE STRING "Several processes by MPI: AUTO (when it is there), ON or OFF")
set_property(CACHE CERO_MPI PROPERTY STRINGS AUTO ON OFF)

# The header's own macros tell whose it is; relatives of MPICH have MPICH_VERSION too.
function(cero_mpi_flavour out)
  set(CMAKE_REQUIRED_INCLUDES ${MPI_C_INCLUDE_DIRS})
  set(CMAKE_REQUIRED_QUIET ON)
  check_symbol_exists(OPEN_MPI "mpi.h" CERO_MPI_IS_OPENMPI)
  check_symbol_exists(MPICH_VERSION "mpi.h" CERO_MPI_IS_MPICH)
  if(CERO_MPI_IS_OPENMPI)
    set(${out} openmpi PARENT_SCOPE)
  elseif(CERO_MPI_IS_MPICH)
    set(${out} mpich PARENT_SCOPE)
  else()
    set(${out} other PARENT_SCOPE)
  endif()
endfunction()

# With two MPIs installed `mpiexec` may be the other one's, which starts N worlds of one rank each.
# Debian's names tell them apart.
function(cero_mpi_launcher flavour)
  get_filename_component(folder "${MPI_C_COMPILER}" DIRECTORY)
  find_program(launcher NAMES mpiexec.${flavour} HINTS "${folder}" NO_CACHE)
  if(launcher)
    set_property(CACHE MPIEXEC_EXECUTABLE PROPERTY VALUE "${launcher}")
  endif()
endfunction()

set(CERO_HAVE_MPI 0)
set(CERO_MPI_FLAVOUR none)
set(CERO_MPIEXEC_FLAGS "")
if(NOT CERO_MPI STREQUAL "AUTO" AND NOT CERO_MPI)
  set(MPIEXEC_EXECUTABLE "")
  message(STATUS "MPI: off")
  return()
endif()

# Given by name alone, the launcher is looked for as a command line would.
if(MPIEXEC_EXECUTABLE AND NOT IS_ABSOLUTE "${MPIEXEC_EXECUTABLE}")
  find_program(cero_mpiexec_given NAMES "${MPIEXEC_EXECUTABLE}" NO_CACHE REQUIRED)
  set(MPIEXEC_EXECUTABLE "${cero_mpiexec_given}" CACHE FILEPATH "Starts MPI programs" FORCE)
endif()
set(cero_mpiexec_before "${MPIEXEC_EXECUTABLE}")
if(CERO_MPI STREQUAL "AUTO")
  find_package(MPI QUIET COMPONENTS C)
else()
  find_package(MPI REQUIRED COMPONENTS C)
endif()
if(NOT MPI_C_FOUND)
  set(MPIEXEC_EXECUTABLE "")
  message(STATUS "MPI: none; this build runs in one process")
  return()
endif()

set(CERO_HAVE_MPI 1)
cero_mpi_flavour(CERO_MPI_FLAVOUR)
if(NOT cero_mpiexec_before)
  cero_mpi_launcher(${CERO_MPI_FLAVOUR})
endif()
if(NOT MPIEXEC_EXECUTABLE)
  set(MPIEXEC_EXECUTABLE "")
endif()
if(CERO_MPI_FLAVOUR STREQUAL "openmpi")
  set(CERO_MPIEXEC_FLAGS --oversubscribe --bind-to none --mca mpi_yield_when_idle 1)
endif()

# Not MPI::MPI_C: a wrapper's compile options are those its library was packaged with (Ubuntu's MPICH
# asks for link-time optimization), and none of our code's business. The C++ bindings stay out.
add_library(cero_mpi INTERFACE)
target_include_directories(cero_mpi SYSTEM INTERFACE ${MPI_C_INCLUDE_DIRS})
target_compile_definitions(cero_mpi INTERFACE ${MPI_C_COMPILE_DEFINITIONS} MPICH_SKIP_MPICXX
                                              OMPI_SKIP_MPICXX)
target_link_libraries(cero_mpi INTERFACE ${MPI_C_LIBRARIES})
# Its MPI_STATUSES_IGNORE is a pointer that gcc takes for an array of no statuses.
if(CERO_MPI_FLAVOUR STREQUAL "mpich" AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
  target_compile_options(cero_mpi INTERFACE -Wno-stringop-overflow)
endif()
if(MPI_C_LINK_FLAGS)
  target_link_options(cero_mpi INTERFACE "SHELL:${MPI_C_LINK_FLAGS}")
endif()
message(STATUS "MPI: ${CERO_MPI_FLAVOUR}, ${MPI_C_LIBRARIES}, started by ${MPIEXEC_EXECUTABLE}")
