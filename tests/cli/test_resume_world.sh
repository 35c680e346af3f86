#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A run goes on with another number of ranks and another stage, and is still the straight run. All ranks save one
# checkpoint, whoever was asked to leave, and whoever could not write his part.
. "$(dirname "$0")/world.sh"
. "$(dirname "$0")/resume.sh"

# <run> <ranks> <option…>: a leg, and nothing is wrong with it.
leg() {
    set_run "$1" "${@:3}"
    world "$2" "${run[@]}"
    expect_code 0
}

# RS-01, RS-06: five legs on 1, 2, 3, 4 and 1 ranks, at all stages, against one process.
bf16=(--set bf16.enabled=true)
train_well straight --steps 20 --save-every 4 "${bf16[@]}"
ranks=(1 2 3 4 1)
stages=(0 3 1 2 0)
for i in 0 1 2 3 4; do
    leg legs "${ranks[i]}" --steps $((4 * i + 4)) --save-every 4 --resume if-present "${bf16[@]}" \
        --set "zero_optimization.stage=${stages[i]}" --set zero_optimization.stage3_param_persistence_threshold=0
done
expect_err 'resume: zero_optimization.stage was 2, now 0'
expect_same straight legs other
cero ckpt hash "$work/straight"
cp "$work/out" "$work/hash"
cero ckpt hash "$work/legs"
cmp "$work/out" "$work/hash" || fail "other digests"

# RS-10: four ranks, dropout, and now what is of the layout too: bytes, messages, memory.
leg four 4 --steps 6 --save-every 3 --set zero_optimization.stage=2
leg halves 4 --steps 3 --save-every 3 --set zero_optimization.stage=2
leg halves 4 --steps 6 --save-every 3 --set zero_optimization.stage=2 --resume auto
expect_same four halves

# CK-05: a rank that starts late.
set_run late --steps 2 --save-every 1
run_world -n 1 "$CERO_COMMAND" "${run[@]}" : -n 1 sh -c 'sleep 1; exec "$0" "$@"' "$CERO_COMMAND" "${run[@]}"
expect_code 0
expect_checkpoints late 1 2
[ "$(find "$work/late/checkpoints/step-00000002" -name 'rank-*' | wc -l)" -eq 2 ] || fail "expected two files"

# SIGTERM for one rank of three: all save the same step; then two go on.
set_run term --steps 6
train=("${run[@]}")
odd=("${run[@]}")
odd_env=(CERO_FAULT=update:3:SIGTERM)
odd_world 3 1
[ "$code" -ne 0 ] || fail "expected an exit code"
[ "$CERO_TEST_MPI" != openmpi ] || expect_code 75
expect_err 'stopped by SIGTERM after step 3 of 6'
expect_checkpoints term 3
leg term 2 --steps 6 --resume auto
train_well whole --steps 6
expect_same whole term other

# One rank cannot write its part: its reason, once; the older checkpoint stays; the code is that of I/O.
leg broken 2 --steps 2 --save-every 2
set_run broken --steps 4 --save-every 2 --resume auto
train=("${run[@]}")
odd=("${run[@]}")
odd_env=(CERO_FAULT=fsync:1:ENOSPC)
odd_world 2 1
expect_world_error 74 0 'the checkpoint of step 4, the last, is not there: ' 'No space left on device'
expect_checkpoints broken 2
[ -s "$work/broken/model/model.safetensors" ] || fail "the model was not exported"

# Ranks that were told different things.
set_run differ --steps 4 --save-every 2
train=("${run[@]}")
odd=("${run[@]}" --keep-checkpoints 3)
odd_world 2 1
expect_world_error 78 1 'checkpoints that are kept: 3' 'checkpoints that are kept: 0'
out=differ
expect_no_run

# Nothing to go on from, on all ranks at once.
set_run nothing --steps 4 --resume auto
world 3 "${run[@]}"
expect_world_error 66 0 'has no checkpoint to load'
[ ! -e "$work/nothing" ] || fail "a directory was made"
