#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An installed cero works from any prefix: the command runs, and a program outside the tree builds by
# find_package and by pkg-config; with MPI's header too when cero has MPI, and without MPI in any other case.
set -euo pipefail

if grep -q '^CERO_SANITIZE:[A-Z]*=.' "$CERO_BUILD/CMakeCache.txt"; then
    echo "skipped: a library with sanitizers needs programs with sanitizers"
    exit 77
fi
version=$(sed -n 's/^#define CERO_VERSION_STRING *"\(.*\)"/\1/p' "$CERO_SOURCE/include/cero/base.h")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$CERO_BUILD" --prefix "$work/prefix" >"$work/log"

[ "$("$work/prefix/bin/cero" --version | head -n 1)" = "cero $version" ]

library=$(find "$work/prefix" -name libcero.so)

mpi_options=()
if [ "$CERO_TEST_MPI" != none ]; then
    mpicc=$(sed -n 's/^MPI_C_COMPILER:[A-Z]*=//p' "$CERO_BUILD/CMakeCache.txt")
    mpi_options=("-DMPI_C_COMPILER=$mpicc")
elif [ -e "$work/prefix/include/cero/mpi.h" ]; then
    echo "a build without MPI installed cero/mpi.h"
    exit 1
fi
cmake -S "$CERO_SOURCE/tests/install/consumer" -B "$work/cmake" \
    -DCMAKE_PREFIX_PATH="$work/prefix" "${mpi_options[@]}" >"$work/log"
cmake --build "$work/cmake" >"$work/log"
[ "$("$work/cmake/consumer")" = "$version SHAPE" ]

pc=$(find "$work/prefix" -name cero.pc)
export PKG_CONFIG_PATH=${pc%/*}
[ "$(pkg-config --modversion cero)" = "$version" ]
[ "$(pkg-config --variable=mpi cero)" = "$CERO_TEST_MPI" ]
if [ "$CERO_TEST_MPI" != none ]; then
    pkg-config --static --libs cero | grep -q libmpi
fi
# pkg-config's answer is a list of words.
# shellcheck disable=SC2046
cc "$CERO_SOURCE/tests/install/consumer/main.c" -o "$work/consumer" $(pkg-config --cflags --libs cero)
[ "$(LD_LIBRARY_PATH=${library%/*} "$work/consumer")" = "$version SHAPE" ]
if [ "$CERO_TEST_MPI" != none ] && [ -e "$work/prefix/include/cero/mpi.h" ]; then
    # shellcheck disable=SC2046
    "$mpicc" -DWITH_MPI "$CERO_SOURCE/tests/install/consumer/main.c" -o "$work/mpi_consumer" \
        $(pkg-config --cflags --libs cero)
    [ "$(LD_LIBRARY_PATH=${library%/*} "$work/mpi_consumer")" = "$version SHAPE" ]
fi
