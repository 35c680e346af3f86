#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An installed cero works from any prefix: the command runs, and a program outside the tree builds by
# find_package and by pkg-config.
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

cmake -S "$CERO_SOURCE/tests/install/consumer" -B "$work/cmake" \
    -DCMAKE_PREFIX_PATH="$work/prefix" >"$work/log"
cmake --build "$work/cmake" >"$work/log"
[ "$("$work/cmake/consumer")" = "$version SHAPE" ]

pc=$(find "$work/prefix" -name cero.pc)
export PKG_CONFIG_PATH=${pc%/*}
[ "$(pkg-config --modversion cero)" = "$version" ]
# pkg-config's answer is a list of words.
# shellcheck disable=SC2046
cc "$CERO_SOURCE/tests/install/consumer/main.c" -o "$work/consumer" $(pkg-config --cflags --libs cero)
[ "$(LD_LIBRARY_PATH=${library%/*} "$work/consumer")" = "$version SHAPE" ]
