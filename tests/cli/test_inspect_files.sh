#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `cero inspect --json` gives one object for each kind of file, tells the same of the same tokens in every format, and
# names what is wrong with broken ones.
source "$CERO_SOURCE/tests/cli/lib.sh"
need_shared data/gpt2/tokenizer.json
gpt2=$CERO_SHARED/reference/gpt2-tiny

# objects EXPRESSION: the lines of stdout, parsed as the list `o`, make it true.
expect_objects() {
    python3 -c 'import json, sys
o = [json.loads(line) for line in open(sys.argv[1])]
assert eval(sys.argv[2]), o' "$work/out" "$1" || fail "the objects are not as expected: $1"
}

# Tokens.
echo 'Tokens are the same tokens in every format.' >"$work/text.txt"
for format in megatron u16 u32 npy; do
    cero tokenize --tokenizer "$CERO_SHARED/data/gpt2" --format "$format" --out "$work/$format" "$work/text.txt"
    expect_code 0
done
cero inspect --json "$work/megatron.bin" "$work/megatron.idx" "$work/u16.u16" "$work/u32.u32" "$work/npy.npy"
expect_code 0
expect_no_err
expect_objects 'len(o) == 5 and all(x == o[0] for x in o) and o[0]["kind"] == "tokens" and o[0]["largest"] == 50256'
for name in megatron.idx u16.u16 u32.u32 npy.npy; do
    head -c 11 "$work/$name" >"$work/cut-$name"
    cp "$work/megatron.bin" "$work/cut-megatron.bin"
    cero inspect "$work/cut-$name"
    expect_error 65 "cut-$name"
done

# Weights: a file, an index of several, a directory.
mkdir "$work/model"
cp "$gpt2/config.json" "$work/model"
python3 - "$gpt2/model.safetensors" "$work/model" <<'PY'
import json, struct, sys
data = open(sys.argv[1], "rb").read()
n = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + n])
header.pop("__metadata__", None)
names = sorted(header)
where = {}
for k, part in enumerate((names[:10], names[10:])):
    head, body = {}, b""
    for name in part:
        t = header[name]
        raw = data[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]]
        head[name] = {"dtype": t["dtype"], "shape": t["shape"], "data_offsets": [len(body), len(body) + len(raw)]}
        body += raw
        where[name] = f"model-0000{k + 1}-of-00002.safetensors"
    text = json.dumps(head).encode()
    open(f"{sys.argv[2]}/model-0000{k + 1}-of-00002.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + body)
json.dump({"metadata": {"total_size": 474368}, "weight_map": where}, open(sys.argv[2] + "/model.safetensors.index.json", "w"))
PY
cero inspect --json "$work/model/model.safetensors.index.json"
expect_code 0
expect_objects 'len(o) == 1 and o[0]["kind"] == "weights" and o[0]["files"] == 2 and o[0]["elements"] == 118592'
cero inspect --json "$work/model/model-00001-of-00002.safetensors"
expect_objects 'o[0]["kind"] == "safetensors" and len(o[0]["tensors"]) == 10'
cero inspect --json "$work/model"
expect_objects '[x["kind"] for x in o] == ["model", "weights"]'
rm "$work/model/model-00002-of-00002.safetensors"
cero inspect "$work/model/model.safetensors.index.json"
expect_error 74 'model-00002-of-00002.safetensors'

# Tokenizers and configs.
cero inspect --json "$CERO_SHARED/data/gpt2/tokenizer.json" "$gpt2/config.json" "$gpt2/ds_config.json"
expect_code 0
expect_objects '[x["kind"] for x in o] == ["tokenizer", "model", "config"]'
expect_objects 'o[2]["config"]["train_batch_size"] == {"value": 8, "origin": "file"}'
echo '{"bf16": {"enabled": true}}' >"$work/bare.json"
cero inspect --json "$work/bare.json"
expect_error 78 'train_batch_size or train_micro_batch_size_per_gpu must be given'
