#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that code looks down, never up.

usage: tools/check_floors.py [ROOT]

docs/floors.txt says which folders of src/ a folder may include. This script checks that the table has
no cycle, that every #include keeps to it, that *_impl.h stays in its folder, that a third-party header
stays in the folder that owns it, and that only base/ allocates and only base/ and cli/ end the process.
"""
import re
import sys
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)', re.M)
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)
INTRINSICS = re.compile(r"^([a-z0-9]*mmintrin|immintrin|x86intrin|arm_neon|arm_sve)\.h$")

# Third-party header -> folders (prefixes below the root) that may include it.
THIRD_PARTY = {
    # The benchmark of exchanges measures MPI's own collectives beside them.
    "mpi.h": ("src/comm/mpi", "include/cero/mpi.h", "tests", "bench/exchange.c"),
    "dnnl.h": ("src/device/cpu",),
    "dnnl_version.h": ("src/device/cpu",),
    "omp.h": ("src/device", "src/data"),
    "pcre2.h": ("src/data", "tests"),
    "xxhash.h": ("src/base", "src/ckpt", "src/data", "tests", "bench"),
    "liburing.h": ("src/offload",),
    "hwloc.h": ("src/device/cpu",),
    "cuda.h": ("src/device/cuda",),
    "cuda_runtime.h": ("src/device/cuda",),
    "nccl.h": ("src/comm/nccl",),
    "cmocka.h": ("tests",),
    "jansson.h": (),
    "assert.h": ("src/base", "tests", "examples"),
}
BANNED_CALL = re.compile(r"(?<![\w.>])(malloc|calloc|realloc|abort|exit|_exit|assert)\s*\(")
ALLOWED_CALLS = {"src/base": {"malloc", "calloc", "realloc", "abort", "exit", "_exit"},
                 "src/cli": {"abort", "exit", "_exit"}}


def read_table(path):
    table = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        floor, colon, allowed = line.partition(":")
        if not colon or floor.strip() in table:
            sys.exit(f"{path}:{number}: expected one line 'folder: folders…' per folder")
        table[floor.strip()] = allowed.split()
    for floor, allowed in table.items():
        for name in allowed:
            if name not in table:
                sys.exit(f"{path}: {floor} may include {name}, which has no line of its own")
    return table


def find_cycle(table):
    state = {}

    def visit(floor, trail):
        if state.get(floor) == "done":
            return None
        if floor in trail:
            return trail[trail.index(floor):] + [floor]
        for below in table[floor]:
            cycle = visit(below, trail + [floor])
            if cycle:
                return cycle
        state[floor] = "done"
        return None

    for floor in table:
        cycle = visit(floor, [])
        if cycle:
            return cycle
    return None


def check_own_include(where, floor, included, table):
    if "/" not in included:
        return f'{where}: "{included}" has no folder: write its path from src/' \
            if not included.endswith("_tmpl.c") else None
    target = included.split("/")[0]
    if target == "cero":
        return None
    if target not in table:
        return f'{where}: "{included}" is in no folder of docs/floors.txt'
    if floor is not None and target != floor and target not in table[floor]:
        return f"{where}: {floor} may not include {target} (\"{included}\"); it may include " \
               f"{' '.join(table[floor]) or 'nothing but itself'}"
    if floor is not None and target != floor and included.endswith("_impl.h"):
        return f'{where}: "{included}" is private to {target}'
    return None


def check_system_include(where, path, included):
    if INTRINSICS.match(included):
        if re.match(r"src/kernels/(?!ref/)[a-z0-9]+/", path):
            return None
        return f"{where}: <{included}> belongs in kernels/<instruction set> alone"
    homes = THIRD_PARTY.get(included)
    if homes is None or any(path == home or path.startswith(home + "/") for home in homes):
        return None
    return f"{where}: <{included}> may be included in {' '.join(homes) or 'no folder'} alone"


def check_file(root, file, table):
    path = file.relative_to(root).as_posix()
    parts = path.split("/")
    floor = parts[1] if parts[0] == "src" else None
    if floor is not None and floor not in table:
        return [f"{path}: the folder {floor} has no line in docs/floors.txt"]
    text = file.read_text()
    errors = []
    for match in INCLUDE.finditer(text):
        where = f"{path}:{text.count(chr(10), 0, match.start(1) if match[1] else match.start(2)) + 1}"
        if match[1] is None:
            errors.append(check_system_include(where, path, match[2]))
        elif parts[0] == "src":
            errors.append(check_own_include(where, floor, match[1], table))
        elif parts[0] in ("include", "examples") and not match[1].startswith("cero/"):
            errors.append(f'{where}: "{match[1]}": {parts[0]}/ may include cero/ headers alone')
    if parts[0] == "src":
        bare = COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
        allowed = ALLOWED_CALLS.get("/".join(parts[:2]), set())
        for match in BANNED_CALL.finditer(bare):
            if match[1] not in allowed:
                line = bare.count("\n", 0, match.start()) + 1
                errors.append(f"{path}:{line}: {match[1]}() is not for {floor}: see base/memory.h "
                              "and base/status.h")
    return [e for e in errors if e]


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
    table = read_table(root / "docs/floors.txt")
    cycle = find_cycle(table)
    if cycle:
        sys.exit(f"docs/floors.txt: a circle: {' -> '.join(cycle)}")
    files = [f for top in ("src", "include", "tests", "examples", "bench")
             for f in sorted((root / top).rglob("*.[ch]"))]
    errors = [e for f in files for e in check_file(root, f, table)]
    for error in errors:
        print(error, file=sys.stderr)
    print(f"floors: {len(files)} files, {len(table)} folders, {len(errors)} errors")
    sys.exit(1 if errors else 0)


main()
