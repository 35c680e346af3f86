#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Weights that are no safetensors are refused by name with the way to convert them, and never taken for a model
# without weights; the model that a run leaves is cut into files of the size asked for, and comes back in.
source "$CERO_SOURCE/tests/cli/lib.sh"
export OMP_NUM_THREADS=1
cd "$work"

cat >ds.json <<'J'
{"train_micro_batch_size_per_gpu": 1, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}}
J
mkdir model
cat >model/config.json <<'J'
{"model_type": "gpt2", "vocab_size": 256, "n_positions": 16, "n_embd": 32, "n_layer": 2, "n_head": 4,
 "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "bos_token_id": 0, "eos_token_id": 0,
 "pad_token_id": 7}
J
for ((i = 0; i < 120; i++)); do printf "\\x$(printf %02x $i)\\0"; done >train.u16
train() { # <model> <argument>…
    rm -rf run
    cero train --config ds.json --model "$1" --data train.u16 --out run --steps 2 --quiet "${@:2}"
}

# One line with the file, what it is, and how to convert it; nothing is made.
refused() { # <model> <file> <what> <way>
    train "$1"
    expect_error 65 "$2"
    expect_err "$3"
    expect_err "$4"
    [ ! -e run ] || fail "a run directory was made"
    cero generate --model "$1" --prompt a
    expect_error 65 "$2"
    expect_err "$4"
}
printf 'PK\3\4 data.pkl' >model/pytorch_model.bin
refused model model/pytorch_model.bin 'PyTorch pickled' 'safe_serialization=True'
train model --no-weights
expect_code 0
rm model/pytorch_model.bin
cp -r model sharded
printf 'PK\3\4' >model/consolidated.00.pth
refused model consolidated.00.pth Meta convert_llama_weights_to_hf.py
rm model/consolidated.00.pth
printf 'PK\3\4' >weights.pt
refused weights.pt weights.pt 'PyTorch pickled' 'save_pretrained('
printf 'GGUF\3' >model.gguf
refused model.gguf model.gguf 'not supported' safetensors
mkdir -p ds/global_step10
printf global_step10 >ds/latest
printf 'PK\3\4' >ds/global_step10/mp_rank_00_model_states.pt
printf 'PK\3\4' >ds/global_step10/zero_pp_rank_0_mp_rank_00_optim_states.pt
refused ds ds/global_step10/mp_rank_00_model_states.pt DeepSpeed zero_to_fp32.py
refused ds/global_step10 mp_rank_00_model_states.pt DeepSpeed zero_to_fp32.py
cero inspect weights.pt
expect_error 65 'PyTorch pickled'
cero inspect ds/global_step10
expect_error 65 DeepSpeed
# A shard whose index is lost is not a model without weights either.
printf x >sharded/model-00001-of-00002.safetensors
train sharded
expect_error 65 'model.safetensors.index.json is there'

# 34,000 parameters: 137 kB in one file, or in shards of at most 40 kB that hold the same.
train model
expect_code 0
grep -qF '"pad_token_id": 7' run/model/config.json || fail 'a field was lost'
mv run whole
train model --export-shard-size 40000
expect_code 0
ls run/model >found
cat >wanted <<'T'
config.json
generation_config.json
model-00001-of-00004.safetensors
model-00002-of-00004.safetensors
model-00003-of-00004.safetensors
model-00004-of-00004.safetensors
model.safetensors.index.json
T
diff -u wanted found || fail 'other files'
python3 - whole/model/model.safetensors run/model <<'P' || fail 'other weights'
import glob, json, struct, sys
def tensors(path):
    with open(path, "rb") as f:
        n, = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(n))
        header.pop("__metadata__", None)
        data = f.read()
    return {k: (v["shape"], data[v["data_offsets"][0]:v["data_offsets"][1]]) for k, v in header.items()}
whole = tensors(sys.argv[1])
parts = {}
for path in glob.glob(sys.argv[2] + "/model-*.safetensors"):
    part = tensors(path)
    assert sum(len(d) for _, d in part.values()) <= 40000 or len(part) == 1
    parts.update(part)
index = json.load(open(sys.argv[2] + "/model.safetensors.index.json"))
assert index["weight_map"].keys() == whole.keys()
assert index["metadata"]["total_size"] == sum(len(d) for _, d in whole.values())
assert parts == whole
P
mv run/model left
train left
expect_code 0
train left --export-shard-size 0
expect_code 2
