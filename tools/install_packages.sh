#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that a build needs and that are missing, through sudo when not root.
# Looks for what the packages give, not for the packages, so that a compiler from elsewhere counts;
# when everything is there it installs nothing and needs no network.
# usage: tools/install_packages.sh [--ci] [--list]
#   --ci    also what .ci/run needs
#   --list  name the packages, those that are there too, and install nothing
set -euo pipefail

missing=()
for_ci=false
only_list=false
for argument in "$@"; do
    case $argument in
        --ci) for_ci=true ;;
        --list) only_list=true ;;
        *)
            echo "usage: tools/install_packages.sh [--ci] [--list]" >&2
            exit 2
            ;;
    esac
done

# need <package…> unless <command…> succeeds.
need() { # <package…> -- <command…>
    local packages=()
    while [ "$1" != -- ]; do
        packages+=("$1")
        shift
    done
    shift
    if $only_list || ! "$@" >/dev/null 2>&1; then
        missing+=("${packages[@]}")
    fi
}

has_command() { # <command>
    command -v "$1"
}

# Compiles these lines with this compiler: -E looks for headers alone.
accepts() { # <lines> <compiler…>
    local lines=$1
    shift
    command -v "$1" && printf '%b\n' "$lines" | "$@" -x c -
}

has_header() { # <header>
    accepts "#include <stdarg.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <setjmp.h>
        #define PCRE2_CODE_UNIT_WIDTH 8\n#include <$1>" cc -E
}

# MPI's header is not where cc looks: its compiler knows.
has_mpi() { # <compiler> <macro of the header>
    accepts "#include <mpi.h>\n#ifndef $2\n#error another MPI\n#endif" "$1" -E
}

# With the clang that is there: what it links for OpenMP, and its sanitizers.
has_clang_openmp() {
    accepts '#include <omp.h>\nint main(void) { return 0; }' clang -fopenmp -o /dev/null
}

has_clang_asan() {
    [ -e "$(clang -print-file-name=libclang_rt.asan-x86_64.a)" ] ||
        compgen -G "$(clang -print-resource-dir)/lib/linux/libclang_rt.asan*"
}

# libFuzzer is in C++: its runtime and the standard library of g++ are linked.
has_clang_fuzzer() {
    accepts '#include <stddef.h>\n#include <stdint.h>
        int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
        int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return data == NULL && size > 0; }' \
        clang -fsanitize=fuzzer,address,undefined -o /dev/null
}

need build-essential -- has_command cc
need cmake -- has_command cmake
need ninja-build -- has_command ninja
need pkg-config -- has_command pkg-config
need python3 -- has_command python3
need libdnnl-dev -- has_header dnnl.h
need libpcre2-dev -- has_header pcre2.h
need libxxhash-dev -- has_header xxhash.h
need libcmocka-dev -- has_header cmocka.h
# Any MPI will do to build and run.
need libopenmpi-dev -- has_mpi mpicc MPI_VERSION
need openmpi-bin -- has_command mpiexec
if $for_ci; then
    need clang -- has_command clang
    need clang-format-14 -- has_command clang-format-14
    need build-essential -- has_command c++
    need libomp-dev -- has_clang_openmp
    need libclang-rt-14-dev -- has_clang_asan
    need libclang-rt-14-dev build-essential -- has_clang_fuzzer
    need git -- has_command git
    # Both MPIs: where both are installed Debian's mpicc and mpiexec are Open MPI's.
    need libopenmpi-dev openmpi-bin -- has_mpi mpicc OPEN_MPI
    need libmpich-dev -- has_mpi mpicc.mpich MPICH_VERSION
    need mpich -- has_command mpiexec.mpich
    need iproute2 -- has_command ip
fi
[ ${#missing[@]} -gt 0 ] || exit 0

mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
if $only_list; then
    printf '%s\n' "${missing[@]}"
    exit 0
fi
echo "missing packages: ${missing[*]}" >&2
if ! command -v apt-get >/dev/null; then
    echo "this system has no apt-get: install the equivalents of these Debian packages by hand" >&2
    exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "not root, and sudo is not there; as root, run: apt-get install ${missing[*]}" >&2
        exit 1
    fi
    as_root=(sudo)
fi
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -q </dev/null
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends "${missing[@]}" </dev/null
