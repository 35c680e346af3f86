#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what is larger than the aims of size, so that it is seen and thought about; fails nothing.

usage: tools/check_sizes.py [ROOT]

Aims: functions under 60 lines with a median of 7-16, .c files of 150-400 lines, headers under 150,
at most 6 parameters, nesting of 3, at most 15 files in a folder.
"""
import re
import statistics
import sys
from collections import Counter
from pathlib import Path


def functions(lines):
    """(name, first line, length, parameters, nesting) of each function; relies on our formatting."""
    start = None
    for i, line in enumerate(lines):
        if line == "{":
            start = i
        elif line == "}" and start is not None:
            head = start - 1
            while head > 0 and not re.match(r"[A-Za-z_]", lines[head]):
                head -= 1
            signature = " ".join(lines[head:start])
            name = re.search(r"(\w+)\(", signature)
            inside = signature[signature.index("(") + 1:signature.rindex(")")] if name else ""
            count = 0 if inside.strip() in ("", "void") else inside.count(",") + 1
            opened = [(len(x) - len(x.lstrip())) // 4 for x in lines[start:i]
                      if re.match(r"\s+(\} else|if|for|while|switch|do)\b.*\{$", x)]
            depth = max(opened, default=0)
            yield (name[1] if name else "?"), head + 1, i - head + 1, count, depth
            start = None


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
    rows, lengths, folders = [], [], Counter()
    for path in sorted(root.glob("src/**/*.[ch]")) + sorted(root.glob("include/**/*.h")):
        name = path.relative_to(root).as_posix()
        lines = path.read_text().splitlines()
        folders[path.parent.relative_to(root).as_posix()] += 1
        limit = 150 if path.suffix == ".h" else 400
        if len(lines) > limit:
            rows.append((f"{name}", f"{len(lines)} lines", f"aim {limit}"))
        if max(map(len, lines), default=0) > 110:
            rows.append((name, f"a line of {max(map(len, lines))} columns", "aim 100"))
        for func, line, length, params, depth in functions(lines):
            lengths.append(length)
            where = f"{name}:{line} {func}"
            if length > 60:
                rows.append((where, f"{length} lines", "aim 60"))
            if params > 6:
                rows.append((where, f"{params} parameters", "aim 6"))
            if depth > 3:
                rows.append((where, f"nesting {depth}", "aim 3"))
    rows += [(f, f"{n} files", "aim 15") for f, n in folders.items() if n > 30]
    for row in rows:
        print(f"{row[0]:<64} {row[1]:<16} {row[2]}")
    if lengths:
        under = 100 * sum(n <= 60 for n in lengths) / len(lengths)
        print(f"sizes: {len(lengths)} functions, median {statistics.median(lengths):.0f} lines, "
              f"{under:.1f} % within 60; {len(rows)} outliers")


main()
