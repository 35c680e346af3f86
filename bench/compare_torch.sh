#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A GPT-2 124M training step (bf16, AdamW, clipping): cero against PyTorch, alternating, as a ratio.
# Needs Debian's python3-torch; nothing else in the project does.
# usage: bench/compare_torch.sh [ROUNDS] [CERO]     default: 5 rounds, build/release/cero
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
rounds=${1:-5}
cero=${2:-$here/../build/release/cero}
threads=${THREADS:-2}
python=${PYTHON:-/usr/bin/python3}

if ! "$python" -c 'import torch' 2>/dev/null; then
    echo "skipped: $python has no torch (apt-get install python3-torch)" >&2
    exit 77
fi
median() { sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

for shape in "4 256" "1 1024" "4 64"; do
    read -r batch length <<<"$shape"
    ratios=""
    for ((round = 0; round < rounds; round++)); do
        torch=$("$python" "$here/torch_step.py" "$batch" "$length" 3 "$threads" | median)
        ours=$("$cero" bench --json --threads "$threads" --steps 3 --seconds 0.05 \
            --micro-batch "$batch" --seq-len "$length" step |
            sed -n 's/.*"step_seconds": \([0-9.e-]*\).*/\1/p')
        ratio=$(awk -v a="$torch" -v b="$ours" 'BEGIN { printf "%.3f", a / b }')
        echo "B$batch T$length round $round: torch $torch s, cero $ours s, $ratio x" >&2
        ratios+="$ratio"$'\n'
    done
    sorted=$(printf '%s' "$ratios" | sort -g)
    echo "B$batch T$length: $(printf '%s\n' "$sorted" | median) x (of $rounds rounds," \
        "$(head -1 <<<"$sorted") .. $(tail -1 <<<"$sorted"))"
done
