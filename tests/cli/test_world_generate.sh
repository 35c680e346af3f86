#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# HA-05: `cero generate` under a launcher writes one text, that of one process; text data train on every rank.
. "$(dirname "$0")/world.sh"

# A text and a tokenizer made from it; ranks tokenize at once, and leave nothing beside the data.
mkdir "$work/texts"
for ((i = 0; i < 60; i++)); do
    echo "The $i ranks of a world say the same, and $((i * 7)) times nothing at all."
done >"$work/texts/a.txt"
tr a-m n-z <"$work/texts/a.txt" >"$work/texts/b.txt"
cero tokenizer train --vocab-size 300 --out "$work/tok" "$work/texts/a.txt"
expect_code 0
sed 's/"vocab_size": 256/"vocab_size": 300/' "$work/g1.json" >"$work/text.json"
ls -R "$work/texts" >"$work/before"
model=$work/text.json data=$work/texts set_train --tokenizer "$work/tok"
world 3 "${train[@]}"
expect_code 0
ls -R "$work/texts" | cmp - "$work/before" || fail "files appeared beside the data"
tokens=$(grep -oE '^data +[0-9]+ tokens' "$work/err")
model=$work/text.json data=$work/texts out=alone set_train --tokenizer "$work/tok" --set train_batch_size=3
cero "${train[@]}"
expect_code 0
expect_err "$tokens"
cmp "$work/run/model/model.safetensors" "$work/alone/model/model.safetensors" ||
    fail "three ranks and one trained different models"

# One text, the same from one process and from three; stops after other numbers of tokens included.
for options in '--temperature 0 --max-tokens 9' '--seed 3 --max-tokens 40' '--seed 4 --max-tokens 3 --top-k 5'; do
    # shellcheck disable=SC2206
    line=(generate --model "$work/run/model" --prompt "The ranks" --threads 1 $options)
    cero "${line[@]}"
    expect_code 0
    cp "$work/out" "$work/text"
    [ -s "$work/text" ] || fail "there is no text"
    world 3 "${line[@]}"
    expect_code 0
    cmp "$work/out" "$work/text" || fail "three ranks wrote another text"
done
world 2 generate --model "$work/run/model" --prompt "The" --threads 1 --json
expect_code 0
expect_json
[ "$(wc -l <"$work/out")" -eq 1 ] || fail "expected one object"
expect_no_process

# One message, from the rank that works, or from the lowest when all know.
world 3 generate --model "$work/absent" --prompt "The"
expect_world_error 78 0 absent
world 3 generate --model "$work/run/model" --prompt "The" --max-token 3
expect_world_error 2 0 "did you mean --max-tokens?"
