#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What partitioning costs on one machine: a GPT-2 124M step in bf16 with the same global batch, on one rank with
# two threads and on two ranks with one thread, at ZeRO stages 1, 2 and 3. Runs alternate; prints each median
# of the steps' seconds, and per stage the median and the range of the ratios to the run of one rank before it.
# usage: bench/zero_ranks.sh [COMMAND] [ROUNDS] [STEPS]
set -euo pipefail
cero=$(realpath "${1:-build/release/cero}")
rounds=${2:-5}
steps=${3:-6}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
[ "$(id -u)" -ne 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

python3 - "$dir/tokens.u16" <<'PY'
import random, sys
random.seed(1)
with open(sys.argv[1], "wb") as f:
    f.write(b"".join(random.randrange(50257).to_bytes(2, "little") for _ in range(200000)))
PY
cat >"$dir/config.json" <<'JSON'
{"train_batch_size": 4, "bf16": {"enabled": true}, "gradient_clipping": 1.0,
 "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "weight_decay": 0.1}},
 "zero_optimization": {"overlap_comm": true}}
JSON

# Seconds of a step: the median after two steps of warming up.
run() { # <ranks> <threads> <stage>
    rm -rf "$dir/out"
    local start=()
    [ "$1" -eq 1 ] || start=(mpirun -n "$1" --bind-to none)
    "${start[@]}" "$cero" train --quiet --config "$dir/config.json" --model gpt2 --data "$dir/tokens.u16" \
        --out "$dir/out" --steps "$steps" --seq-len 256 --threads "$2" \
        --set train_micro_batch_size_per_gpu=$((4 / $1)) --set "zero_optimization.stage=$3" >&2
    python3 - "$dir/out/metrics.jsonl" <<'PY'
import json, statistics, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
print(statistics.median(line["step_seconds"] for line in lines[2:]))
PY
}

for ((round = 0; round < rounds; round++)); do
    alone=$(run 1 2 0)
    for stage in 1 2 3; do
        two=$(run 2 1 $stage)
        echo "stage $stage: 1 rank x 2 threads $alone s, 2 ranks x 1 thread $two s"
        echo "$stage $(python3 -c "print($two / $alone)")" >>"$dir/ratios"
    done
done
python3 - "$dir/ratios" <<'PY'
import statistics, sys
ratios = {}
for line in open(sys.argv[1]):
    stage, ratio = line.split()
    ratios.setdefault(stage, []).append(float(ratio))
for stage, values in sorted(ratios.items()):
    print(f"stage {stage}: {statistics.median(values):.3f} of one rank's time "
          f"({min(values):.3f} - {max(values):.3f}, {len(values)} runs)")
PY
