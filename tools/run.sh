#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What `make run` does: trains a small GPT on the text that is always there (this project's sources and
# documents) on two ranks with ZeRO, draws its loss and lets it write. Everything it makes is in out/run.
# usage: tools/run.sh [COMMAND]      STEPS=600 and RANKS=2 in the environment set steps and ranks
set -euo pipefail
cero=$(realpath "${1:-build/release/cero}")
cd "$(dirname "$0")/.."

out=out/run
steps=${STEPS:-600}
ranks=${RANKS:-2}
corpus=(src include docs examples README.md)

show() { # prints a command, then runs it
    printf '\n$ cero %s\n' "$*"
    "$cero" "$@"
}

# Open MPI asks whether root is meant. A build without MPI trains on one rank.
launch=(launch -n "$ranks" --oversubscribe)
[ "$(id -u)" -ne 0 ] || launch+=(--allow-run-as-root)
launch+=(--)
if "$cero" --version | grep -q '^mpi: none'; then
    launch=()
fi

rm -rf "$out"
mkdir -p "$out"
show tokenizer train --vocab-size 2048 --out "$out/tokenizer" "${corpus[@]}"
show "${launch[@]}" train --config examples/configs/gpt-mini.json --model gpt-mini \
    --tokenizer "$out/tokenizer" --data "${corpus[@]}" --out "$out" \
    --seq-len 128 --steps "$steps" --set "scheduler.params.total_num_steps=$steps"
show inspect "$out/metrics.jsonl" --svg "$out/loss.svg"
show generate --model "$out/model" --prompt "static cero_status " --max-tokens 120 --temperature 0.7 \
    --seed 1
printf '\nthe model is in %s/model, the picture of its loss in %s/loss.svg\n' "$out" "$out"
