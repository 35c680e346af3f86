#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The checks of tools/ pass on the tree and fail, naming the place, on each thing they forbid.
set -euo pipefail

cd "$CERO_SOURCE"
python3 tools/check_floors.py
python3 tools/check_docs.py
python3 tools/check_sizes.py | tail -n 1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Starts a small good tree in $work/tree.
fresh() {
    rm -rf "$work/tree"
    mkdir -p "$work/tree/docs" "$work/tree/include/cero" "$work/tree"/src/{base,spec,ckpt}
    printf 'base:\nspec: base\nckpt: base spec\n' >"$work/tree/docs/floors.txt"
    printf '/* f */\n#include "base/base.h"\n' >"$work/tree/src/spec/spec.c"
    printf '/* f */\n' >"$work/tree/src/base/base.h"
}

# The check <script> fails and says <text>.
refuses() { # <script> <text>
    if python3 "tools/$1" "$work/tree" >"$work/out" 2>&1; then
        echo "$1 let pass what it forbids: $2"
        exit 1
    fi
    grep -qF -- "$2" "$work/out" || { echo "$1 did not say '$2':"; cat "$work/out"; exit 1; }
}

fresh
python3 tools/check_floors.py "$work/tree"

fresh
echo '#include "spec/spec.h"' >"$work/tree/src/base/up.c"
refuses check_floors.py 'src/base/up.c:1: base may not include spec'

fresh
printf 'base: ckpt\nspec: base\nckpt: base spec\n' >"$work/tree/docs/floors.txt"
refuses check_floors.py 'a circle: base -> ckpt -> base'

fresh
echo '#include "base/file_impl.h"' >"$work/tree/src/spec/a.c"
refuses check_floors.py 'private to base'

for header in mpi.h dnnl.h immintrin.h jansson.h omp.h; do
    fresh
    printf '\n#include <%s>\n' "$header" >"$work/tree/src/spec/a.c"
    refuses check_floors.py "src/spec/a.c:2: <$header>"
done

fresh
printf 'void f(void)\n{\n    g(malloc(3));\n}\n' >"$work/tree/src/spec/a.c"
refuses check_floors.py 'src/spec/a.c:3: malloc()'

fresh
mkdir "$work/tree/src/new"
echo >"$work/tree/src/new/a.c"
refuses check_floors.py 'the folder new has no line'

fresh
printf '/* Saves. Collective: over dp. */\nint cero_a(int x);\n\n/* Loads. */\nint cero_b(void);\n' \
    >"$work/tree/src/ckpt/a.h"
refuses check_docs.py 'src/ckpt/a.h:5: cero_b does not say'
grep -q '2 functions looked at, 1 errors' "$work/out"
