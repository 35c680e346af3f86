#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `cero ckpt` lists, shows, verifies, hashes and exports checkpoints, and names what is wrong with broken ones.
source "$CERO_SOURCE/tests/cli/lib.sh"
make_checkpoint=$CERO_BUILD/tests/make_checkpoints
run=$work/run
dir=$run/checkpoints
mkdir "$run"
"$make_checkpoint" "$dir" step-00000010 3 flat 10 0
"$make_checkpoint" "$dir" step-00000020 2 tensors 20 1

# Flips the bits of mask $3 in byte $2 of file $1 (from its end when negative).
flip() {
    python3 - "$@" <<'PY'
import sys
path, at, mask = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
data = bytearray(open(path, "rb").read())
data[at] ^= mask
open(path, "wb").write(data)
PY
}

# json EXPRESSION: the one object on stdout, as `o`, makes the expression true.
expect_object() {
    python3 -c 'import json, sys
lines = open(sys.argv[1]).read().splitlines()
assert len(lines) == 1, "not one line"
o = json.loads(lines[0])
assert eval(sys.argv[2]), o' "$work/out" "$1" || fail "the object is not as expected: $1"
}

# Listing.
for d in "$run" "$dir"; do
    cero ckpt ls "$d"
    expect_code 0
    expect_no_err
    grep -qE '^ +20  step-00000020 .* 2 +2  01234567  complete, latest$' "$work/out" || fail 'no line of step 20'
    grep -qE '^ +10  step-00000010 .* 3 +2  01234567  complete$' "$work/out" || fail 'no line of step 10'
done
cero ckpt ls --json "$run"
expect_code 0
expect_object 'o["latest"] == "step-00000020" and [c["step"] for c in o["checkpoints"]] == [20, 10]'
expect_object '[c["files"] for c in o["checkpoints"]] == [2, 3] and o["checkpoints"][0]["is_latest"]'
cero ckpt ls "$dir/step-00000010"
expect_error 65 'is one checkpoint'

mkdir "$dir/notes"
cero ckpt ls "$run"
if grep -q notes "$work/out"; then fail 'a folder that is no checkpoint is listed'; fi

# Showing.
cero ckpt show "$dir/step-00000010"
expect_code 0
expect_no_err
expect_out '  written by                         3 ranks (dp 3, tp 1, pp 1, sp 1), ZeRO stage 2'
expect_out '  model                              gpt2, 2 layers, hidden 12, vocabulary 17,'
expect_out '  precision                          bf16'
expect_out '  train.data.position                10'
expect_out '  engine.applied                     10'
if grep -q wte.weight "$work/out"; then fail 'tensors are shown without --tensors'; fi
cero ckpt show --tensors "$dir/step-00000010"
expect_out '  transformer.wte.weight f32 [17, 12]'
expect_out 'in rank-00000.safetensors at byte'
cero ckpt show "$run"
expect_code 0
expect_err "newest complete checkpoint: $dir/step-00000020, step 20"
expect_out '  step                               20'
cero --quiet ckpt show --json --tensors "$run"
expect_no_err
expect_object 'o["step"] == 20 and o["mesh"]["dp"] == 2 and o["engine"]["applied"] == 20 and o["precision"] == "bf16"'
expect_object 'sum(r["end"] - r["begin"] for t in o["tensors"] if t["name"] == "transformer.wte.weight" for r in t["ranges"]) == 17 * 12'
cero inspect "$dir/step-00000010"
expect_code 0
expect_out '  train.data.position                10'
cero inspect --json "$dir/step-00000010/manifest.json"
expect_object 'o["kind"] == "checkpoint" and o["step"] == 10'
cero inspect "$run"
expect_out 'step-00000020'

# Hashes do not depend on the layout, and tell values apart.
for cut in '1 flat' '2 tensors' '4 flat' '5 tensors'; do
    # shellcheck disable=SC2086
    "$make_checkpoint" "$work/cuts" "as-${cut// /-}" ${cut} 10 0
done
cero ckpt hash "$dir/step-00000010"
expect_code 0
expect_no_err
cp "$work/out" "$work/hash"
[ "$(wc -l <"$work/hash")" -eq 4 ] || fail 'expected four lines'
for c in "$work"/cuts/as-*; do
    cero ckpt hash "$c"
    expect_code 0
    cmp -s "$work/out" "$work/hash" || fail 'another layout has another hash'
done
cero ckpt hash "$dir/step-00000020"
if grep -qFf <(grep -oE '^[0-9a-f]{16}  (weights|state|all)' "$work/hash") "$work/out"; then
    fail 'other values have the same hash'
fi
grep -qF "$(grep moments "$work/hash")" "$work/out" && fail 'moments with other values have the same hash'
cero ckpt hash --json --tensors "$dir/step-00000010"
expect_object 'len(o["tensors"]) == 56 and o["step"] == 10 and len(o["all"]) == 16'
cero ckpt hash --tensors "$dir/step-00000010"
[ "$(wc -l <"$work/out")" -eq 60 ] || fail 'expected a line for each tensor'

# Export: what is read back is what the checkpoint has.
cero ckpt export --out "$work/model" "$run"
expect_code 0
expect_out 'of step 20 as f32'
cero inspect "$work/model"
expect_out 'weights in 1 file: 28 tensors'
python3 - "$dir/step-00000020" "$work/model/model.safetensors" <<'PY' || fail 'the export has other values'
import json, struct, sys
def load(path):
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    header.pop("__metadata__")
    return {k: data[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]] for k, v in header.items()}
manifest = json.load(open(sys.argv[1] + "/manifest.json"))
model = load(sys.argv[2])
raw = [open(sys.argv[1] + "/" + f["name"], "rb").read() for f in manifest["files"]]
weights = {t["name"]: b"".join(raw[r["file"]][r["offset"]:r["offset"] + 4 * (r["end"] - r["begin"])]
                               for r in t["ranges"])
           for t in manifest["tensors"] if not t["name"].startswith("optim.")}
assert weights == model
PY
cero ckpt export --json --dtype bf16 --shard-size 2000 --out "$work/model16" "$dir/step-00000010"
expect_code 0
expect_object 'o["dtype"] == "bf16" and o["shards"] > 1 and o["step"] == 10'
[ -e "$work/model16/model.safetensors.index.json" ] || fail 'no index of the shards'
cero ckpt export "$run"
expect_error 2 '--out'
cero ckpt export --out "$work/m" --tokenizer "$work/absent" "$run"
expect_error 66 'absent'
cero ckpt export --out "$work/m" --dtype f64 "$run"
expect_error 2 'f32|bf16|f16'
: >"$work/file"
cero --quiet ckpt export --out "$work/file" "$run"
expect_error 73 'file'

# Verification: everything that is damaged is named.
cero ckpt verify "$run"
expect_code 0
expect_no_err
expect_out 'step-00000020: good, step 20'
expect_out 'step-00000010: good, step 10'
flip "$dir/step-00000020/rank-00000.safetensors" -3 4
flip "$dir/step-00000020/rank-00001.safetensors" -700 1
flip "$dir/step-00000020/rank-00001.safetensors" 30 1
cero ckpt verify "$run"
expect_code 65
expect_err 'error: '"$run"': 1 of 2 checkpoints is damaged or cannot be read'
expect_out 'step-00000020: damaged'
expect_out 'rank-00000.safetensors: tensor "'
expect_out 'rank-00001.safetensors: tensor "'
expect_out 'rank-00001.safetensors: the header (bytes 0 .. '
expect_out 'step-00000010: good'
cero ckpt verify --json "$dir/step-00000020"
expect_code 65
expect_object 'len(o["checkpoints"]) == 1 and len(o["checkpoints"][0]["findings"]) == 3 and not o["checkpoints"][0]["is_good"]'
expect_object 'sum(f["tensor"] is not None for f in o["checkpoints"][0]["findings"]) == 2'
cero ckpt hash "$dir/step-00000020"
expect_error 65 'the file is damaged: restore it or use another checkpoint'
cero ckpt export --out "$work/bad" "$dir/step-00000020"
expect_error 65 'the file is damaged'
if compgen -G "$work/bad/*" >/dev/null; then fail 'something of a damaged checkpoint was exported'; fi
flip "$dir/step-00000020/rank-00000.safetensors" -3 4
flip "$dir/step-00000020/rank-00001.safetensors" -700 1
flip "$dir/step-00000020/rank-00001.safetensors" 30 1
cero ckpt verify "$dir/step-00000020"
expect_code 0

# A file of another step; a lost one; a folder that lost its manifest; what a kill leaves.
"$make_checkpoint" "$dir" step-00000030 2 tensors 30 1
cp "$dir/step-00000020/rank-00001.safetensors" "$work/kept"
cp "$dir/step-00000030/rank-00001.safetensors" "$dir/step-00000020/"
cero ckpt verify "$dir/step-00000020"
expect_code 65
expect_out 'rank-00001.safetensors says that it is of checkpoint '
cp "$work/kept" "$dir/step-00000020/rank-00001.safetensors"
rm "$dir/step-00000030/rank-00000.safetensors"
mkdir "$dir/step-00000040.tmp-0123456789abcdef0123456789abcdef"
cero ckpt verify "$run"
expect_code 65
expect_out 'rank-00000.safetensors is missing'
cero ckpt ls "$run"
expect_code 0
expect_out 'orphan'
expect_out 'broken'
cero ckpt ls --json "$run"
expect_object 'sorted(c["state"] for c in o["checkpoints"]) == ["broken", "complete", "complete", "orphan"]'
cero ckpt show "$run"
expect_code 0
expect_err "passed over $dir/step-00000030: "
expect_out '  step                               20'
rm "$dir/step-00000030/manifest.json"
cero ckpt show "$dir/step-00000030"
expect_error 65 'manifest.json'

# What is no checkpoint.
for command in ls show verify hash 'export --out x'; do
    # shellcheck disable=SC2086
    cero ckpt $command "$work/nowhere"
    expect_error 66 'nowhere: there is no such directory'
    # shellcheck disable=SC2086
    cero ckpt $command "$work/file"
    expect_error 65 'is a file'
    mkdir -p "$work/empty/folder"
    # shellcheck disable=SC2086
    cero ckpt $command "$work/empty"
    expect_error 65 'is no checkpoint'
    # shellcheck disable=SC2086
    cero ckpt $command
    expect_error 2 'DIR'
done
mkdir -p "$work/new/checkpoints"
cero ckpt ls "$work/new"
expect_code 0
expect_out 'no checkpoints'
cero ckpt show "$work/new"
expect_error 65 'holds no checkpoint'
cero ckpt
expect_error 2 'ckpt ls'
for command in ls show verify hash export; do
    cero ckpt $command --help
    expect_code 0
    expect_out "usage: cero ckpt $command"
done
