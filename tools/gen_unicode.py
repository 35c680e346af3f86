#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes src/data/unicode/tables.c from Python's unicodedata.

usage: tools/gen_unicode.py > src/data/unicode/tables.c

The class of a code point is one byte: bits 0-1 other, letter, number or white space; bit 2 part of a
word; bit 3 punctuation; bit 4 may change under NFC. The committed file is Unicode 14.0.0, which is
also what PCRE2 10.42 of Debian 12 knows; run it with a Python of that version (3.11).
"""
import sys
import unicodedata as ud

BLOCK = 128
WHITE_SPACE = {*range(0x9, 0xE), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029,
               0x202F, 0x205F, 0x3000}
HANGUL = range(0xAC00, 0xAC00 + 11172)


def decomposition(cp):
    text = ud.decomposition(chr(cp))
    if not text or text.startswith("<"):
        return None
    return [int(x, 16) for x in text.split()]


def nfc_tables():
    decompose, compose, second = [], [], set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))
    for cp in range(0x110000):
        parts = decomposition(cp)
        if parts is None or cp in HANGUL:
            continue
        decompose.append((cp, parts[0], parts[1] if len(parts) == 2 else 0))
        if len(parts) == 2 and ud.normalize("NFC", chr(cp)) == chr(cp):
            compose.append((parts[0], parts[1], cp))
            second.add(parts[1])
    return decompose, sorted(compose), second


def char_class(cp, second):
    cat = ud.category(chr(cp))
    if 0xD800 <= cp < 0xE000:
        return 0
    value = 3 if cp in WHITE_SPACE else 1 if cat[0] == "L" else 2 if cat[0] == "N" else 0
    if cat[0] in "LM" or cat in ("Nd", "Nl", "Pc") or cp in (0x200C, 0x200D):
        value |= 4
    if cat[0] == "P" or (cp < 128 and chr(cp) in "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"):
        value |= 8
    if ud.combining(chr(cp)) or cp in second or ud.normalize("NFC", chr(cp)) != chr(cp):
        value |= 16
    return value


def combining_ranges():
    ranges = []
    for cp in range(0x110000):
        ccc = ud.combining(chr(cp))
        if ccc == 0:
            continue
        if ranges and ranges[-1][1] == cp - 1 and ranges[-1][2] == ccc:
            ranges[-1][1] = cp
        else:
            ranges.append([cp, cp, ccc])
    return ranges


def print_numbers(numbers):
    line = "   "
    for n in numbers:
        text = f" {n},"
        if len(line) + len(text) > 99:
            print(line)
            line = "   "
        line += text
    print(line)


def print_rows(name, struct, rows):
    print(f"const {struct} {name}[] = {{")
    line = "   "
    for row in rows:
        text = " {" + ", ".join(f"0x{x:x}" for x in row) + "},"
        if len(line) + len(text) > 99:
            print(line)
            line = "   "
        line += text
    print(line)
    print("};")
    print(f"const int {name}_count = {len(rows)};\n")


def main():
    if ud.unidata_version != "14.0.0":
        sys.exit(f"this Python has Unicode {ud.unidata_version}; 14.0.0 is expected")
    decompose, compose, second = nfc_tables()
    blocks, index = {}, []
    for start in range(0, 0x110000, BLOCK):
        block = tuple(char_class(cp, second) for cp in range(start, start + BLOCK))
        index.append(blocks.setdefault(block, len(blocks)))
    assert len(blocks) < 65536
    print(f"""/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Character classes and canonical composition of Unicode {ud.unidata_version}, in two-stage tables.
 *
 * Written by tools/gen_unicode.py from Python's unicodedata; change that script, not this file.
 */
#include "data/unicode/unicode.h"

/* clang-format off */
const uint16_t cero_unicode_block[{len(index)}] = {{""")
    print_numbers(index)
    print("};\n")
    print(f"const uint8_t cero_unicode_class_table[{len(blocks)} * {BLOCK}] = {{")
    print_numbers(x for block in blocks for x in block)
    print("};\n")
    print_rows("cero_unicode_decompose", "cero_unicode_triple", decompose)
    print_rows("cero_unicode_compose", "cero_unicode_triple", compose)
    print_rows("cero_unicode_combining", "cero_unicode_triple", combining_ranges())
    print("/* clang-format on */")


main()
