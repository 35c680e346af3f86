#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that a build needs and that are missing, through sudo when not root.
# Looks for what the packages give, not for the packages, so that a compiler from elsewhere counts;
# when everything is there it installs nothing and needs no network.
# usage: tools/install_packages.sh [--ci]      --ci: also what .ci/run needs
set -euo pipefail

missing=()

need_command() { # <command> <package>
    command -v "$1" >/dev/null || missing+=("$2")
}

need_header() { # <header> <package>
    if ! command -v cc >/dev/null ||
        ! printf '#include <stdarg.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <setjmp.h>\n%s\n#include <%s>\n' \
            "#define PCRE2_CODE_UNIT_WIDTH 8" "$1" | cc -E -x c - >/dev/null 2>&1; then
        missing+=("$2")
    fi
}

need_command cc build-essential
need_command cmake cmake
need_command ninja ninja-build
need_command pkg-config pkg-config
need_command python3 python3
need_header dnnl.h libdnnl-dev
need_header pcre2.h libpcre2-dev
need_header xxhash.h libxxhash-dev
need_header cmocka.h libcmocka-dev
if [ "${1:-}" = --ci ]; then
    need_command clang clang
    need_command clang-format-14 clang-format-14
    need_command c++ build-essential
    if ! printf '#include <omp.h>\nint main(void) { return 0; }\n' |
        clang -fopenmp -x c - -o /dev/null 2>/dev/null; then
        missing+=(libomp-dev)
    fi
    need_command git git
    if command -v clang >/dev/null && ! [ -e "$(clang -print-file-name=libclang_rt.asan-x86_64.a)" ] &&
        ! compgen -G "$(clang -print-resource-dir)/lib/linux/libclang_rt.asan*" >/dev/null; then
        missing+=(libclang-rt-14-dev)
    fi
fi
[ ${#missing[@]} -gt 0 ] || exit 0

mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
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
