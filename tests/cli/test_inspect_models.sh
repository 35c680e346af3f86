#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `cero inspect` knows models, weights and tokenizers, files and directories, and names what is wrong with
# broken ones.
source "$CERO_SOURCE/tests/cli/lib.sh"
need_shared reference/gpt2-tiny/config.json
gpt2=$CERO_SHARED/reference/gpt2-tiny

cero inspect "$gpt2"
expect_code 0
expect_no_err
expect_out 'gpt2 model, 118592 parameters'
expect_out 'weights in 1 file: 28 tensors, 118592 elements'
cero inspect --json "$gpt2" "$CERO_SHARED/reference/llama-tiny/model.safetensors"
expect_code 0
expect_json
expect_out '"kind": "model", "arch": "gpt2"'
expect_out '{"name": "model.norm.weight", "dtype": "F32", "shape": [64], "nbytes": 256}'
cero inspect "$gpt2/config.json"
expect_out 'vocabulary 257, context 32'
cero inspect "$CERO_SHARED/data/gpt2/tokenizer.json"
expect_out 'vocabulary of 50257'
expect_out 'end of document 50256 "<|endoftext|>"'
cero inspect "$gpt2/ds_config.json"
expect_code 0
expect_out '"train_batch_size": {"value": 8, "origin": "file"}'
cero inspect "$gpt2/tokens.u16"
expect_out '7681 tokens, largest id 253'

head -c 1000 "$gpt2/model.safetensors" >"$work/cut.safetensors"
cero inspect "$work/cut.safetensors"
expect_error 65 'cut.safetensors'
: >"$work/empty.safetensors"
cero inspect "$work/empty.safetensors"
expect_error 65 'empty.safetensors'
sed 's/"n_layer"/"n_lyaer"/' "$gpt2/config.json" >"$work/config.json"
cero inspect "$work/config.json"
expect_error 78 'config.json:'
echo '{"train_batch_size": 8, "optimzer": {}}' >"$work/ds.json"
cero inspect "$work/ds.json"
expect_error 78 'did you mean'
printf 'abc' >"$work/odd.u16"
cero inspect "$work/odd.u16"
expect_error 65 'odd.u16'
echo '{"a": 1}' >"$work/other.json"
cero inspect "$work/other.json"
expect_error 65 'neither name nor contents'
echo '{"a": ' >"$work/other.json"
cero inspect "$work/other.json"
expect_error 65 'other.json:'
mkdir "$work/dir"
cero inspect "$work/dir"
expect_error 65 'holds none of config.json'
