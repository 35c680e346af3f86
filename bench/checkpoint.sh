#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What saving costs a training run: the same run without checkpoints, with checkpoints that are written in the
# background, and with checkpoints that the run stands still for, in turn, the order changing from round to round.
# The default model is a GPT-2 of 30 million parameters, 350 MB of weights and moments, with a step of about a
# second on two cores. A step counts as beside a save from the one after the copy was taken to the one after which the
# save was committed. Prints for each round, and then as medians and ranges over rounds, in steps of the run without
# checkpoints:
#   beside    a step beside a save in the background; between: one of the same run without a save
#   copy      what a save in the background adds to the step before it
#   standing  what a save adds that the run stands still for
# usage: bench/checkpoint.sh [COMMAND] [RANKS] [ROUNDS] [SAVES] [EVERY] [MODEL] [SEQ_LEN]
set -euo pipefail
cero=$(realpath "${1:-build/release/cero}")
ranks=${2:-1}
rounds=${3:-6}
saves=${4:-4}
every=${5:-4}
model=${6:-}
length=${7:-256}
cores=$(nproc)
threads=${THREADS:-$((cores > ranks ? cores / ranks : 1))}
dir=$(mktemp -d "${TMPDIR:-/tmp}/cero-bench.XXXXXX")
trap 'rm -rf "$dir"' EXIT
[ "$(id -u)" -ne 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

if [ -z "$model" ]; then
    model=$dir/model
    mkdir "$model"
    cat >"$model/config.json" <<'JSON'
{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 8192, "n_positions": 1024,
 "n_embd": 512, "n_layer": 8, "n_head": 8}
JSON
fi
python3 - "$dir/tokens.u16" <<'PY'
import random, sys
random.seed(1)
with open(sys.argv[1], "wb") as f:
    f.write(b"".join(random.randrange(256).to_bytes(2, "little") for _ in range(300000)))
PY
cat >"$dir/config.json" <<'JSON'
{"train_batch_size": 4, "bf16": {"enabled": true}, "gradient_clipping": 1.0,
 "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}, "zero_optimization": {"stage": 1}}
JSON

# Leaves $dir/<way>.jsonl.
run() { # <way>
    local start=() options=()
    rm -rf "$dir/out"
    sync
    [ "$ranks" -eq 1 ] || start=(mpirun -n "$ranks" --oversubscribe --bind-to none)
    [ "$1" = none ] || options=(--save-every "$every" --keep-checkpoints 1)
    [ "$1" != background ] || options+=(--set checkpoint.writer.decoupled=true)
    "${start[@]}" "$cero" train --quiet --config "$dir/config.json" --model "$model" \
        --data "$dir/tokens.u16" --out "$dir/out" --steps $((2 + saves * every)) --seq-len "$length" \
        --threads "$threads" --set train_micro_batch_size_per_gpu=$((4 / ranks)) "${options[@]}" >&2
    mv "$dir/out/metrics.jsonl" "$dir/$1.jsonl"
}

orders=("none background standing" "background standing none" "standing none background"
    "none standing background" "background none standing" "standing background none")
for ((round = 0; round < rounds; round++)); do
    for way in ${orders[round % 6]}; do
        run "$way"
    done
    python3 - "$dir" "$every" <<'PY'
import json, statistics, sys

def read(way):
    with open(f"{sys.argv[1]}/{way}.jsonl") as f:
        return {line["step"]: line for line in map(json.loads, f)}

every = int(sys.argv[2])

def beside_a_save(lines):
    """Steps during which a save was under way, and seconds of the copies."""
    found = set()
    copied = [n for n in lines if n % every == 0 and n < max(lines)]
    for n, following in zip(copied, copied[1:] + [max(lines)]):
        ends = [m for m in lines if lines[m].get("saved_step") == n and m > n]
        # One that the next save had to wait for is not told of: it was under way all the time.
        found.update(range(n + 1, min(ends, default=following) + 1))
    return found, [lines[n]["seconds"]["save"] for n in copied]

def seconds(lines, steps):
    return statistics.median(lines[n]["step_seconds"] for n in steps)

none, background, standing = read("none"), read("background"), read("standing")
beside, copies = beside_a_save(background)
if not beside or not copies:
    sys.exit("no step ran beside a save: more steps between saves or a larger model are needed")
plain = seconds(none, [n for n in none if n > 2])
alone = [n for n in background if n > 2 and n not in beside]
stands = [standing[n]["seconds"]["save"] for n in standing if n % every == 0]
found = {
    "beside": seconds(background, beside) / plain,
    "copy": statistics.median(copies) / plain,
    "standing": statistics.median(stands) / plain,
}
if alone:
    found["between"] = seconds(background, alone) / plain
with open(f"{sys.argv[1]}/rounds", "a") as f:
    f.write(json.dumps(found) + "\n")
print(f"step {plain:.3f} s, {len(beside)} steps beside a save, " +
      ", ".join(f"{name} {value:.3f}" for name, value in found.items()))
PY
done
python3 - "$dir/rounds" "$ranks" <<'PY'
import json, statistics, sys
with open(sys.argv[1]) as f:
    rounds = [json.loads(line) for line in f]
units = {"beside": "of a step without saves", "between": "of a step without saves",
         "copy": "steps for each save", "standing": "steps for each save"}
for name, unit in units.items():
    values = [found[name] for found in rounds if name in found]
    if values:
        middle = statistics.median(values)
        goal = f", goal 1.05 {'reached' if middle <= 1.05 else 'MISSED'}" if name == "beside" else ""
        print(f"{sys.argv[2]} ranks, {name}: {middle:.3f} {unit} ({min(values):.3f} - {max(values):.3f}, "
              f"{len(values)} rounds){goal}")
PY
