#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every public function says whether all ranks must call it together.

usage: tools/check_docs.py [ROOT]

Looked at: the headers of comm, zero, parallel, ckpt and train (but for *_impl.h and what only comm/ and its transports include), and include/cero/.
The comment above a prototype, or above a run of prototypes without a blank line between, contains
"Collective:" or "Not collective". A header whose first comment says "Nothing here is
collective." speaks for all its functions.
"""
import re
import sys
from pathlib import Path

FLOORS = ("comm", "zero", "parallel", "ckpt", "train")
SAYS = re.compile(r"Collective:|not[\s*]+collective|nothing[\s*]+here[\s*]+is[\s*]+collective", re.I)
TOKEN = re.compile(r"/\*.*?\*/|//[^\n]*|\n[ \t]*\n|[^/\n]+|/|\n", re.S)
FUNCTION = re.compile(r"\b(cero_\w+)\s*\([^;{}]*\)[^;{}()]*(?:CERO_PRINTF\([^)]*\))?\s*;", re.S)


def pieces(text):
    """The header as a list of ("comment", text), ("code", text) and ("blank", "")."""
    code = ""
    for token in TOKEN.findall(text):
        if token.startswith(("/*", "//")) or re.fullmatch(r"\n[ \t]*\n", token):
            if code.strip():
                yield "code", code
            code = ""
            yield ("blank", "") if token.startswith("\n") else ("comment", token)
        else:
            code += token
    if code.strip():
        yield "code", code


def outside_braces(text):
    """Without preprocessor lines, extern "C" and what stands in braces; comments outside are kept."""
    text = re.sub(r"(?m)^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", "", text)
    text = re.sub(r'extern "C" \{', "", text)
    depth, out = 0, []
    for token in re.findall(r"/\*.*?\*/|//[^\n]*|[{}]|[^{}/]+|/", text, re.S):
        if token == "{":
            depth += 1
        elif token == "}":
            depth = max(depth - 1, 0)
        elif depth == 0:
            out.append(token)
    return "".join(out)


def check_header(path, name):
    text = path.read_text()
    head = re.search(r"/\* SPDX[^\n]*\*/\s*(/\*.*?\*/)", text, re.S)
    speaks_for_all = bool(head and SAYS.search(head[1]))
    errors, count, said, has_comment = [], 0, False, False
    for kind, piece in pieces(outside_braces(text)):
        if kind == "blank":
            has_comment = False
        elif kind == "comment":
            said = bool(SAYS.search(piece)) or (has_comment and said)
            has_comment = True
        else:
            for match in FUNCTION.finditer(piece):
                before = piece[:match.start()].rsplit(";", 1)[-1]
                if "typedef" in before or "(*" in before or "static" in before:
                    continue
                count += 1
                if not (speaks_for_all or (said and has_comment)):
                    line = text[:text.index(match[1] + "(")].count("\n") + 1
                    errors.append(f"{name}:{line}: {match[1]} does not say 'Collective:' or "
                                  "'Not collective.'")
    return errors, count


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
    headers = sorted((root / "include/cero").glob("*.h"))
    for floor in FLOORS:
        headers += sorted((root / "src" / floor).rglob("*.h"))
    errors, total = [], 0
    for path in headers:
        if path.name.endswith(("_impl.h", "_transport.h")) or "src/comm/mpi/" in str(path):
            continue
        found, count = check_header(path, path.relative_to(root).as_posix())
        errors += found
        total += count
    for error in errors:
        print(error, file=sys.stderr)
    print(f"docs: {len(headers)} headers, {total} functions looked at, {len(errors)} errors")
    sys.exit(1 if errors else 0)


main()
