#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The commands of docs/checkpoints.md run, in their order; its Python reads what `cero ckpt export` exports.
# RUN: slow
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
page=$CERO_SOURCE/docs/checkpoints.md
has_mpi=false
! "$CERO_COMMAND" --version | grep -qiE 'open mpi|mpich' || has_mpi=true

# Blocks of a language, one file each.
blocks() { # <language>
    awk -v language="$1" -v work="$work" '
        $0 == "```" language { name = sprintf("%s/%s-%02d", work, language, ++count); next }
        $0 == "```" { name = "" }
        name != "" { print > name }' "$page"
}
blocks sh
blocks python
blocks json
[ "$(find "$work" -name 'sh-*' | wc -l)" -ge 4 ]
[ "$(find "$work" -name 'python-*' | wc -l)" -eq 1 ]

cd "$work"
mkdir texts
cp "$CERO_SOURCE"/docs/{checkpoints,launch,metrics}.md texts
cat >ds_config.json <<'JSON'
{"train_batch_size": 2, "train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 1},
 "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}}
JSON
cero() {
    "$CERO_COMMAND" "$@" >>"$work/out" 2>&1 || {
        local code=$?
        echo "cero $* ended with $code:"
        tail -5 "$work/out"
        return "$code"
    }
}
cero tokenizer train --vocab-size 600 --out my-tokenizer texts/
for block in sh-*; do
    if grep -q 'cero launch' "$block" && { [ "$has_mpi" = false ] || [ "$(nproc)" -lt 2 ]; }; then
        continue
    fi
    # shellcheck disable=SC1090
    . "./$block"
done

# Two stay, and the copy went on.
[ "$(find run/checkpoints -maxdepth 1 -name 'step-*' | wc -l)" -eq 2 ]
[ -e moved/model/model.safetensors ]

# The page's key is one that cero takes, and a config besides.
python3 -c 'import json; print(json.dumps({**json.load(open("ds_config.json")), **json.load(open("json-01"))}))' >key.json
cero inspect key.json
grep -q 'checkpoint.writer.decoupled' "$work/out"

# The page's program, and the first and last value of the same tensor as Hugging Face's file has it.
name=transformer.wte.weight
python3 python-01 moved/checkpoints/step-00000014 "$name" >found
cero ckpt export moved/checkpoints/step-00000014 --out again
python3 - again/model.safetensors "$name" >expected <<'PY'
import json, struct, sys
with open(sys.argv[1], "rb") as f:
    header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    tensor = header[sys.argv[2]]
    begin, end = tensor["data_offsets"]
    f.seek(-(max(t["data_offsets"][1] for n, t in header.items() if n != "__metadata__") - begin), 2)
    values = struct.unpack(f"<{(end - begin) // 4}f", f.read(end - begin))
print(tensor["shape"], len(values), values[0], values[-1])
PY
cmp found expected
