#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `cero ckpt` reads what `cero train` saves: it verifies, and its export is the run's own, bit for bit.
source "$CERO_SOURCE/tests/cli/lib.sh"
need_shared reference/gpt2-tiny/config.json
gpt2=$CERO_SHARED/reference/gpt2-tiny

cero train --config "$gpt2/ds_config.json" --model "$gpt2" --data "$gpt2/tokens.u16" --seq-len 16 \
    --out "$work/run" --steps 3 --save-every 1
expect_code 0
cero ckpt verify "$work/run"
expect_code 0
expect_out 'step-00000001: good'
expect_out 'step-00000003: good'
cero ckpt show "$work/run"
expect_code 0
expect_out 'weights                            28 tensors, 118592 elements'
expect_out 'moments                            56 tensors, 237184 elements'
expect_out 'train.sampler.position             24'
cero ckpt export --out "$work/model" "$work/run"
expect_code 0
for file in config.json model.safetensors; do
    cmp "$work/model/$file" "$work/run/model/$file" || fail "$file is not the one of the run"
done
cero ckpt export --out "$work/before" "$work/run/checkpoints/step-00000002"
expect_code 0
cmp -s "$work/before/model.safetensors" "$work/model/model.safetensors" && fail 'two steps have the same weights'
cero inspect "$work/run"
expect_code 0
expect_out 'complete, latest'
