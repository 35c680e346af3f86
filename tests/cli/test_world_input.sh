#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Bad input on several ranks, on all of them or on one: one rank speaks, once, all processes end, the exit code is
# that of the fault, and nothing that was there before changes.
. "$(dirname "$0")/world.sh"

make_tokens "$work/train.u16" 700

# All ranks fail alike: the lowest speaks. Three times, as it was a race once.
for _ in 1 2 3; do
    set_train --set gradient_clipp1ng=1
    world 3 "${train[@]}"
    expect_world_error 78 0 "gradient_clipping"
done
set_train --stepz 3
world 3 "${train[@]}"
expect_world_error 2 0 "did you mean --steps?"
set_train
world 3 "${train[@]:0:7}"
expect_world_error 2 0 "--out"
config=$work/absent.json set_train
world 2 "${train[@]}"
expect_world_error 66 0 "absent.json"
model=absent set_train
world 2 "${train[@]}"
expect_world_error 78 0 "absent"
data=$work/absent.u16 set_train
world 2 "${train[@]}"
expect_world_error 66 0 "absent.u16"
make_tokens "$work/short.u16" 20
data=$work/short.u16 set_train
world 2 "${train[@]}"
expect_world_error 65 0 "20 tokens found" "33"
set_train --seq-len 33
world 2 "${train[@]}"
expect_world_error 78 0 "of 32 positions"
set_train --set 'cero.frozen=["*"]'
world 2 "${train[@]}"
expect_world_error 78 0 "nothing to train"
expect_no_run
# No context comes about: the message is that of a command.
set_train
run_world -n 3 env CERO_ISA=none "$CERO_COMMAND" "${train[@]}"
[ "$(grep -c 'error: ' "$work/err")" -eq 1 ] || fail "expected one message"
expect_err "CERO_ISA=none"
expect_no_process

# CF-03: 16 is not 3 x 2 x 2.
set_train --set train_batch_size=16 --set train_micro_batch_size_per_gpu=3 \
    --set gradient_accumulation_steps=2
world 2 "${train[@]}"
expect_world_error 78 0 16 12
# CF-04: the accumulation, or the batch, follows; neither is an error.
set_train --set train_batch_size=24 --set train_micro_batch_size_per_gpu=3 --print-config
world 2 "${train[@]}"
expect_code 0
[ "$(grep -c '"gradient_accumulation_steps": {"value": 4, "origin": "derived"}' "$work/out")" -eq 1 ] ||
    fail "expected one accumulation of 4"
set_train --set train_micro_batch_size_per_gpu=3 --print-config
world 2 "${train[@]}"
expect_code 0
expect_out '"train_batch_size": {"value": 6, "origin": "derived"}'
expect_out '"gradient_accumulation_steps": {"value": 1,'
echo '{}' >"$work/empty.json"
config=$work/empty.json set_train
world 2 "${train[@]}"
expect_world_error 78 0 train_micro_batch_size_per_gpu
# A world that the batch does not fit, and more ranks than samples.
set_train --set train_batch_size=4
world 3 "${train[@]}"
expect_world_error 78 0 train_batch_size
make_tokens "$work/few.u16" 65
data=$work/few.u16 set_train
world 3 "${train[@]:0:9}" --threads 1
expect_world_error 78 0 "2 samples" "takes 3"
expect_no_run

# One rank is given something else: it is the one that speaks, and says what differs.
set_train --seed 7
odd=("${train[@]}")
set_train
odd_world 2 1
expect_world_error 78 1 "config of rank 1 differs" "cero.seed" 7 1234
set_train --set gradient_clipp1ng=1
odd=("${train[@]}")
set_train
odd_world 3 2
expect_world_error 78 2 gradient_clipping
odd=("${train[@]}" --stepz 3)
odd_world 3 1
expect_world_error 2 1 "did you mean --steps?"
sed 's/"n_layer": 2/"n_layer": 3/' "$work/g1.json" >"$work/deep.json"
sed 's/"n_head": 4/"n_head": 2/' "$work/g1.json" >"$work/heads.json" # the same shapes
model=$work/deep.json set_train
odd=("${train[@]}")
set_train
odd_world 3 1
expect_world_error 78 1 "model description of rank 1 differs" n_layer
model=$work/heads.json set_train
odd=("${train[@]}")
set_train
odd_world 2 1
expect_world_error 78 1 "model description of rank 1 differs" n_head
steps=5 set_train
odd=("${train[@]}")
set_train
odd_world 2 1
expect_world_error 78 1 "steps: 5" "steps: 4"
set_train --eval-data "$work/train.u16" --eval-every 2
odd=("${train[@]}")
set_train
odd_world 2 1
expect_world_error 78 1 "evaluation data: given"
odd=("${train[@]}")
odd_env=(CERO_ISA=ref)
if "$CERO_COMMAND" info | grep -q '^kernels *ref$'; then
    echo "skipped: this CPU has no other instruction set than ref"
else
    odd_world 2 1
    expect_world_error 78 1 "the build of rank 1 differs" "kernels ref"
fi

# Other data on one rank: fewer tokens, other tokens, an id that is none.
make_tokens "$work/fewer.u16" 699
make_tokens "$work/other.u16" 700 3
for file in fewer other; do
    data=$work/$file.u16 set_train
    odd=("${train[@]}")
    set_train
    odd_world 3 2
    expect_world_error 65 2 "training data" "rank 2"
done
set_train --eval-data "$work/fewer.u16"
odd=("${train[@]}")
set_train --eval-data "$work/train.u16"
odd_world 2 0
expect_world_error 65 1 "evaluation data" 699 700

# HA-07: one rank cannot read the data.
data=$work/absent.u16 set_train
odd=("${train[@]}")
set_train
odd_world 2 1
expect_world_error 66 1 "absent.u16" "not there"
odd=("${train[@]}")
odd_env=(CERO_FAULT=open:1:EACCES) # the config
odd_world 3 1
expect_world_error 74 1 "ds.json" "Permission denied"
expect_no_run

# What is to be written cannot be.
echo "in the way" >"$work/file"
out=file/run set_train
world 3 "${train[@]}"
expect_world_error 73 0 "$work/file"
set_train
world 2 "${train[@]}"
expect_code 0
cp -r "$work/run" "$work/before"
steps=2 set_train
world 3 "${train[@]}"
expect_world_error 73 0 "an earlier run"
diff -r -x .lock "$work/run" "$work/before" || fail "the earlier run was changed"

# Weights of another model on one rank: the same names and shapes, from a folder of its node.
cp -r "$work/run/model" "$work/there"
python3 - "$work/there/model.safetensors" <<'P'
import sys
with open(sys.argv[1], "r+b") as f:
    size = int.from_bytes(f.read(8), "little")
    f.seek(8 + size)
    data = f.read()
    f.seek(8 + size)
    f.write(data[1024:] + data[:1024])
P
model=$work/there out=next set_train
odd=("${train[@]}")
model=$work/run/model out=next set_train
odd_world 2 1
expect_world_error 65 1 "set of weights of rank 1 differs"
[ ! -e "$work/next/model" ] || fail "there is a model"

# LA-08: variables of a launcher whose MPI is another: two jobs would write the same files.
set_train
rm -rf "$work/run"
for name in OMPI_COMM_WORLD PMI; do
    code=0
    env "${name}_SIZE=2" "${name}_RANK=1" timeout 60 "$CERO_COMMAND" "${train[@]}" \
        >"$work/out" 2>"$work/err" </dev/null || code=$?
    last="cero with ${name}_SIZE=2"
    [ "$code" -ne 0 ] || fail "expected an exit code"
    if [ "$CERO_TEST_MPI" = openmpi ]; then
        expect_error 1 "one of 2 ranks (${name}_SIZE=2), and MPI (Open MPI"
        expect_err "sees 1"
    fi
    [ ! -e "$work/run" ] || fail "the run's folder was touched"
done
