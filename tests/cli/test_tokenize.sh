#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Text made into tokens and back is the same text, for a tokenizer trained on the spot, for every format and
# for arbitrary bytes; mistakes are named and leave nothing behind.
source "$CERO_SOURCE/tests/cli/lib.sh"
cd "$work"

mkdir texts
cp "$CERO_SOURCE"/docs/*.txt "$CERO_SOURCE"/src/base/*.c texts/
head -c 20000 /dev/urandom >bytes
printf 'no newline at the end' >short
: >empty

cero tokenizer train --vocab-size 600 --out tok texts
expect_code 0
expect_no_err
expect_out 'tok: tokenizer of 600 tokens'
cero inspect tok
expect_out 'vocabulary of 600'
# The same texts give the same file.
cero tokenizer train --vocab-size 600 --out again texts -q
expect_no_out
cmp tok/tokenizer.json again/tokenizer.json || fail "two trainings differ"

for format in megatron u16 u32 npy; do
    cero tokenize --tokenizer tok --out "t-$format" --format "$format" --no-eod short bytes texts
    expect_code 0
    expect_no_err
    case $format in
        megatron) name=t-megatron.bin ;;
        *) name=t-$format.$format ;;
    esac
    [ -s "$name" ] || fail "$name is not there"
    cero tokenize --decode --tokenizer tok "$name"
    expect_code 0
    cat short bytes texts/* >expected
    cmp "$work/out" expected || fail "$format: the text came back changed"
done

# Longer than the portion that is decoded at once.
for _ in $(seq 12); do cat texts/*; done >long
cero tokenize --tokenizer tok --out long --no-eod --format u16 long --json
expect_code 0
expect_json
cero tokenize --decode --tokenizer tok long.u16
cmp "$work/out" long || fail "the long text came back changed"

# One end-of-document token after each document, and none for an empty one.
cero tokenize --tokenizer tok --out eod --format u16 short short empty
expect_out 'eod.u16: 3 documents'
cero tokenize --decode --tokenizer tok eod.u16
expect_out 'no newline at the end<|endoftext|>no newline at the end<|endoftext|>'

cero tokenize --tokenizer tok short
expect_error 2 '--out PREFIX is missing'
cero tokenize --tokenizer tok --out x --decode short
expect_error 2 '--out cannot be given'
cero tokenize --out x short
expect_error 2 '--tokenizer DIR|FILE is missing'
cero tokenize --tokenizer nowhere --out x short
expect_error 66 'nowhere'
cero tokenize --tokenizer tok --out x absent
expect_error 66 'absent'
cero tokenize --tokenizer tok --decode t-megatron
expect_code 0
CERO_FAULT=read:1:EIO cero tokenize --tokenizer tok --decode t-u16.u16
expect_code 74
cero tokenize --tokenizer tok --out no/such/x short
expect_error 73 'no/such/x'
cero tokenize --tokenizer tok --decode --tokenizer short short
[ "$code" -eq 65 ] || fail "a text is no tokenizer"
cero tokenize --tokenizer tok --decode short
[ "$code" -eq 65 ] || fail "a text is no token file"
python3 -c 'import sys; sys.stdout.buffer.write((599).to_bytes(2, "little") + (600).to_bytes(2, "little"))' >big.u16
cero tokenize --tokenizer tok --decode big.u16
expect_code 65
expect_err '600'
cero tokenizer train --vocab-size 100 --out x short
expect_error 2 '--vocab-size: 100 is outside'
cero tokenizer train --vocab-size 300 --out x absent
expect_error 66 'absent'
cero tokenizer train --vocab-size 300 --out x empty
expect_error 65 ''
cero tokenizer train --vocab-size 300 --out short/x texts
expect_error 73 'short'
cero tokenizer tran
expect_error 2 "did you mean 'tokenizer train'?"
for name in x x.bin x.idx; do
    [ ! -e "$name" ] || fail "$name was left though nothing worked"
done
