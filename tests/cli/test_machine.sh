#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One run on every instruction set this CPU has gives the same losses within 1e-5 (BU-01); more threads than
# cores are warned of (LA-10); samples that no step takes are counted (AC-08).
. "$(dirname "$0")/lib.sh"

cat >"$work/config.json" <<'J'
{"model_type": "gpt2", "vocab_size": 256, "n_positions": 32, "n_embd": 64, "n_layer": 2, "n_head": 4,
 "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1, "bos_token_id": 0, "eos_token_id": 0}
J
cat >"$work/ds.json" <<'J'
{"train_batch_size": 4, "train_micro_batch_size_per_gpu": 2,
 "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}}
J
# 7 samples of 32 and one token: bytes 0 .. 224 as 16-bit ids.
for ((i = 0; i < 225; i++)); do printf "\\x$(printf %02x "$i")\\0"; done >"$work/tokens.u16"
train() { # <name> <option…>
    local out=$1
    shift
    cero train --config "$work/ds.json" --model "$work/config.json" --data "$work/tokens.u16" \
        --out "$work/$out" "$@"
}
losses() { sed -E 's/.*"loss":([^,]*),.*/\1/' "$work/$1/metrics.jsonl"; }

train plain
expect_code 0
expect_err "3 samples of the epoch are unused"
[ "$(wc -l <"$work/plain/metrics.jsonl")" -eq 1 ] || fail "expected one step"

CERO_ISA=ref train ref --steps 6
expect_code 0
for isa in avx2 avx512 avx512bf16; do
    CERO_ISA=$isa train "$isa" --steps 6
    if [ "$code" -ne 0 ]; then
        expect_err "this CPU has"
        echo "skipped: $isa, which this CPU lacks"
        continue
    fi
    paste <(losses ref) <(losses "$isa") | awk '
        { d = ($1 - $2) / $1; if (d < 0) d = -d; if (d > 1e-5) { print "step " NR ": " $0; bad = 1 } }
        END { exit bad || NR != 6 }' || fail "losses differ from ref's"
done
CERO_ISA=none train none
expect_error 1 "CERO_ISA=none: "

if command -v taskset >/dev/null; then
    code=0
    taskset -c 0 "$CERO_COMMAND" train --config "$work/ds.json" --model "$work/config.json" \
        --data "$work/tokens.u16" --out "$work/one" --threads 4 >"$work/out" 2>"$work/err" || code=$?
    expect_code 0
    expect_err "4 threads for 1 core(s)"
fi
