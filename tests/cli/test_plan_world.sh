#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `cero plan --world` says of any rank of any world what it will hold and send, in seconds; and a run of that
# world holds that.
source "$CERO_SOURCE/tests/cli/lib.sh"

mkdir "$work/g1"
cat >"$work/g1/config.json" <<'END'
{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 256, "n_positions": 32,
 "n_embd": 64, "n_layer": 2, "n_head": 4, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
 "activation_function": "gelu_new"}
END
cat >"$work/ds.json" <<'END'
{"train_micro_batch_size_per_gpu": 2, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}},
 "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0}}
END
plan=(plan --model "$work/g1" --config "$work/ds.json" --threads 1)

# value PATH: a number of the JSON object on stdout, "memory.param".
value() {
    python3 -c '
import functools, json, sys
print(functools.reduce(lambda o, k: o[k], sys.argv[2].split("."), json.load(open(sys.argv[1]))))
' "$work/out" "$1"
}

expect_value() { # <path> <expected>
    [ "$(value "$1")" = "$2" ] || fail "$1 is $(value "$1"), expected $2"
}

# One rank: nothing is sent, and nothing is said of a world.
cero "${plan[@]}"
expect_code 0
expect_no_err
if grep -q '^world\|^exchange' "$work/out"; then
    fail 'one rank has no world'
fi

# The last rank stands for all, in text and in JSON.
cero "${plan[@]}" --world 6 --ranks-per-node 2
expect_code 0
expect_no_err
expect_out 'world       rank 5 of 6, on 3 nodes; ZeRO stage 3 with 4 of 4 units cut, gradients in order node'
expect_out 'exchange    a step sends '
expect_out ' for 8 uses of units, 7 of them ahead'
cero "${plan[@]}" --world 6 --ranks-per-node 2 --json
expect_code 0
expect_json
expect_value world.size 6
expect_value world.rank 5
expect_value world.nodes 3
expect_value zero.stage 3
expect_value zero.gradient_order node
expect_value zero.overlap_comm True
expect_value zero.units 4
expect_value zero.whole_units 0
python3 - "$work/out" <<'END' || fail 'the sums are not sums'
import json, sys
p = json.load(open(sys.argv[1]))
assert p["total"] == sum(p["memory"].values())
b = p["bytes_sent"]
assert b["total"] == b["reductions"] + b["gathers"]
assert 0 < b["between_nodes"] < b["total"]
END
cp "$work/out" "$work/last"
cero "${plan[@]}" --world 6 --ranks-per-node 2 --rank 5 --json
cmp -s "$work/out" "$work/last" || fail 'the last rank is not the default'

# Over all ranks a step sends (N-1)/N of three times the parameters for each, and no more.
sum=0
for rank in 0 1 2; do
    cero "${plan[@]}" --world 3 --rank "$rank" --json
    sum=$((sum + $(value bytes_sent.total)))
done
[ "$sum" -eq $((3 * 118528 * 4 * 2)) ] || fail "three ranks send $sum bytes"
cero "${plan[@]}" --world 3 --set zero_optimization.stage=0 --json
expect_value zero.stage 0
expect_value zero.whole_units 4
cero "${plan[@]}" --world 4 --set zero_optimization.stage=1 --set cero.share_within_node=true
expect_out 'ZeRO stage 1, gradients in order global, weights once per node'
cero "${plan[@]}" --world 4 --set zero_optimization.stage=1 \
    --set gradient_accumulation_steps=2 --json
expect_value zero.gradient_order local
expect_value zero.overlap_comm False

# The list shows what is gathered, released and reduced, and where its room is.
cero "${plan[@]}" --world 4 --dump
expect_code 0
for node in gather_start gather_finish gather_release reduce_start reduce_finish reduce_release; do
    grep -Eq "^ *[0-9]+ (forward|backward) +transformer\.h\.1 +$node +<- f32\[[0-9]+\]@room@[0-9]+" \
        "$work/out" || fail "the list has no $node with its room"
done
grep -Eq 'f32\[64, 192\]@param:transformer\.h\.1\.attn\.c_attn\.weight@[0-9]+' "$work/out" ||
    fail 'no parameter is read in a room'
cero "${plan[@]}" --world 4 --set zero_optimization.stage=2 --dump
expect_out ' refresh_finish '

# Worlds that nobody has are planned as quickly.
for world in 1024 65536; do
    cero plan --model zero-170b --config "$work/ds.json" --world "$world" --ranks-per-node 8 --json
    expect_code 0
    expect_value world.rank $((world - 1))
done

# What cannot be is refused.
cero "${plan[@]}" --world 4 --rank 4
expect_error 2 '--rank 4 of --world 4; expected 0 to 3'
cero "${plan[@]}" --rank 1
expect_error 2 '--rank 1 of --world 1'
cero "${plan[@]}" --world 4 --no-shared-memory --ranks-per-node 2 --set cero.gradient_order=node
expect_error 1 'share no memory'

# Two ranks that train hold what was planned for them; those without the option below also copy their half of weights
# and moments to save in the background.
if [ "$CERO_TEST_MPI" = none ] || [ -z "$CERO_MPIEXEC" ] || [ "${CERO_MPIEXEC%NOTFOUND}" != "$CERO_MPIEXEC" ]; then
    echo "no run of two ranks: there is no MPI"
    exit 0
fi
python3 -c '
import struct, sys
sys.stdout.buffer.write(b"".join(struct.pack("<H", i * 7 % 256) for i in range(4000)))
' >"$work/train.u16"
for shared in '' --no-shared-memory; do
    for stage in 0 1 2 3; do
        set=(--set "zero_optimization.stage=$stage" --set gradient_accumulation_steps=2)
        saves=()
        if [ -z "$shared" ]; then
            set+=(--set checkpoint.writer.decoupled=true)
            saves=(--save-every 2)
        fi
        rm -rf "$work/run"
        # shellcheck disable=SC2086
        "$CERO_MPIEXEC" $CERO_MPIEXEC_FLAGS -n 2 "$CERO_COMMAND" train --config "$work/ds.json" \
            --model "$work/g1" --data "$work/train.u16" --out "$work/run" --steps 3 --threads 1 \
            $shared "${set[@]}" "${saves[@]}" >"$work/train.log" 2>&1 || {
            cat "$work/train.log"
            exit 1
        }
        # shellcheck disable=SC2086
        cero "${plan[@]}" --world 2 --rank 0 $shared "${set[@]}" --json
        python3 - "$work/out" "$work/run/metrics.jsonl" "${#saves[@]}" <<'END' || fail "stage $stage $shared holds something else"
import json, sys
plan = json.load(open(sys.argv[1]))
steps = [json.loads(line) for line in open(sys.argv[2])]
steps = [s for s in steps if "loss" in s]
held = steps[-1]["memory"]
assert len(steps) == 3 and held["param"] > 0 and held["comm"] > 0, steps
copied = 118528 * 12 // 2
assert held["io"] > copied if sys.argv[3] != "0" else held["io"] < copied, held
assert held == {c: b for c, b in plan["memory"].items() if c in held}, (held, plan["memory"])
END
    done
done
