#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the shared library exports exactly what include/cero/ marks CERO_API.

usage: tools/check_symbols.py LIBCERO.SO [ROOT]
"""
import re
import subprocess
import sys
from pathlib import Path

library = sys.argv[1]
root = Path(sys.argv[2] if len(sys.argv) > 2 else Path(__file__).parent.parent)
declared = set()
for header in sorted((root / "include/cero").glob("*.h")):
    text = re.sub(r"/\*.*?\*/|//[^\n]*|(?m:^[ \t]*#(?:[^\n]*\\\n)*[^\n]*)", "", header.read_text(),
                  flags=re.S)
    declared |= set(re.findall(r"\bCERO_API\b[^;(]*?\b(cero_\w+)\s*\(", text))
listing = subprocess.run(["nm", "-D", "--defined-only", "--format=posix", library], check=True,
                         capture_output=True, text=True).stdout
exported = {line.split()[0].split("@")[0] for line in listing.splitlines()
            if line.split()[1] not in "A"}
for name in sorted(exported - declared):
    print(f"{library} exports {name}, which no public header marks CERO_API", file=sys.stderr)
for name in sorted(declared - exported):
    print(f"{library} lacks {name}, which a public header marks CERO_API", file=sys.stderr)
print(f"symbols: {len(exported)} exported, {len(exported ^ declared)} errors")
sys.exit(1 if exported != declared or not exported else 0)
