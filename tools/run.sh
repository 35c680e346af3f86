#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What `make run` does: trains a small GPT on the text that is always there (this project's sources and
# documents), draws its loss and lets it write. Everything it makes is in out/run.
# usage: tools/run.sh [COMMAND]      STEPS=600 in the environment sets the number of steps
set -euo pipefail
cero=$(realpath "${1:-build/release/cero}")
cd "$(dirname "$0")/.."

out=out/run
steps=${STEPS:-600}
corpus=(src include docs examples README.md)

show() { # prints a command, then runs it
    printf '\n$ cero %s\n' "$*"
    "$cero" "$@"
}

rm -rf "$out"
mkdir -p "$out"
show tokenizer train --vocab-size 2048 --out "$out/tokenizer" "${corpus[@]}"
show train --config examples/configs/gpt-mini.json --model gpt-mini \
    --tokenizer "$out/tokenizer" --data "${corpus[@]}" --out "$out" \
    --seq-len 128 --steps "$steps" --set "scheduler.params.total_num_steps=$steps"
show inspect "$out/metrics.jsonl" --svg "$out/loss.svg"
show generate --model "$out/model" --prompt "static cero_status " --max-tokens 120 --temperature 0.7 \
    --seed 1
printf '\nthe model is in %s/model, the picture of its loss in %s/loss.svg\n' "$out" "$out"
