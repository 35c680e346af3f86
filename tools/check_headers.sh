#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles every header with a guard alone: those of src/ as C11, those of include/cero/ as C99, C11 and C++17.
# usage: tools/check_headers.sh
set -euo pipefail
cd "$(dirname "$0")/.."

flags=(-fsyntax-only -Wall -Wextra -Wpedantic -Werror -Isrc -Iinclude
    -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE)
count=0
failed=0

compile_alone() { # <header> <compiler> <flag…>
    local header=$1
    shift
    count=$((count + 1))
    # Included twice: the guard must hold. The typedef: a header of macros alone is no empty program.
    if ! printf '#include "%s"\n#include "%s"\ntypedef int alone;\n' "$header" "$header" | "$@" "${flags[@]}" -; then
        echo "$header does not compile alone ($*)" >&2
        failed=$((failed + 1))
    fi
}

while IFS= read -r header; do
    # Headers that are parts of a template say so: they have no guard, or need what comes before them.
    # Their users compile them.
    if head -n 12 "$header" | tr -s '\n *' ' ' | grep -qE 'is no include guard|Included after|the file that includes this'; then
        continue
    fi
    case $header in
        */mpi.h | */comm/mpi/*) command -v mpicc >/dev/null || continue ;;
    esac
    name=${header#src/}
    name=${name#include/}
    cc=cc
    case $header in
        */mpi.h | */comm/mpi/*) cc=mpicc ;;
    esac
    case $header in
        include/*)
            compile_alone "$name" "$cc" -x c -std=c99
            compile_alone "$name" "$cc" -x c -std=c11
            # MPI's compiler for C is told the language: it knows where the header is.
            [ "$cc" = mpicc ] || cc=c++
            compile_alone "$name" "$cc" -x c++ -std=c++17
            ;;
        src/kernels/*/*) compile_alone "$name" "$cc" -x c -std=c11 -march=x86-64-v4 -mavx512bf16 ;;
        *) compile_alone "$name" "$cc" -x c -std=c11 ;;
    esac
done < <(find src include -name '*.h' | sort)

echo "headers: $count compilations, $failed errors"
[ "$failed" -eq 0 ]
