#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# GPT-2's tokenizer gives 338,025 tokens for tinyshakespeare, and they give the text back.
source "$CERO_SOURCE/tests/cli/lib.sh"
need_shared data/gpt2/tokenizer.json
need_shared data/tinyshakespeare.txt

cero tokenize --tokenizer "$CERO_SHARED/data/gpt2" --out "$work/t" --no-eod --format u16 \
    "$CERO_SHARED/data/tinyshakespeare.txt"
expect_code 0
expect_out ' 338025 tokens'
cero tokenize --decode --tokenizer "$CERO_SHARED/data/gpt2" "$work/t.u16"
cmp "$work/out" "$CERO_SHARED/data/tinyshakespeare.txt" || fail "the text came back changed"
