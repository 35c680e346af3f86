# SPDX-License-Identifier: Apache-2.0
# Words for the tests of runs that go on, beside those of lib.sh or world.sh: a small model with dropout, runs of it,
# and what two runs that mean the same must have alike.
# shellcheck shell=bash
export OMP_NUM_THREADS=1

# In memory where there is room: checkpoints are brought to the disk one by one, and a disk may be busy.
if [ "$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')" -gt 1000000 ] 2>/dev/null; then
    in_memory=$(mktemp -d -p /dev/shm)
    cp -r "$work/." "$in_memory/"
    rm -rf "$work"
    work=$in_memory
fi

cat >"$work/model.json" <<'J'
{"model_type": "gpt2", "vocab_size": 256, "n_positions": 32, "n_embd": 64, "n_layer": 2, "n_head": 4,
 "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1, "bos_token_id": 0, "eos_token_id": 0}
J
# What does not depend on the number of ranks: the order of sums, and a batch that one to four ranks divide.
cat >"$work/config.json" <<'J'
{"train_batch_size": 12, "train_micro_batch_size_per_gpu": 1,
 "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
 "scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 20, "warmup_num_steps": 4}},
 "cero": {"timeout_seconds": 20, "gradient_order": "global"}}
J

# <path> <count> <step>: 16-bit ids 0, step + 1, 2 step + 4, … below 256.
make_ids() {
    local i hex text=''
    for ((i = 0; i < $2; i++)); do
        printf -v hex '\\x%02x\\0' $(((i * $3 + i * i) % 256))
        text+=$hex
    done
    # shellcheck disable=SC2059
    printf "$text" >"$1"
}
make_ids "$work/ids.u16" 1700 7

# <run> <option…>: the words of a run in $work/RUN, in `run`.
set_run() {
    run=(train --config "$work/config.json" --model "$work/model.json" --data "$work/ids.u16" --threads 1
        --out "$work/$1" "${@:2}")
}

# <run> <option…>: trains in one process.
train() {
    set_run "$@"
    cero "${run[@]}"
}

# <run> <option…>: the same, and nothing is wrong with it.
train_well() {
    train "$@"
    expect_code 0
}

# Metrics without times, and without when saves were made; "other": and without what the layout of a rank decides.
metrics_of() { # <run> [other]
    local layout=''
    [ "${2:-}" != other ] ||
        layout='s/"bytes_sent":[^,]*,"messages_sent":[^,]*,"bytes_between_nodes":[^,]*,//; s/,"memory":\{[^}]*\}//'
    sed -E "s/\"(step_seconds|tokens_per_second|model_flops_per_second)\":[^,]*,//g; s/\"seconds\":\{[^}]*\},?//
            s/,\"saved_step\":[0-9]*//; $layout" "$work/$1/metrics.jsonl"
}

# <run>: the steps whose lines say that a checkpoint was saved.
saves_of() {
    grep -oE '"saved_step":[0-9]+' "$work/$1/metrics.jsonl" | cut -d: -f2 | xargs
}

# <run> <run> [other]: metrics and exported weights have the same bytes; "other": at other layouts.
expect_same() {
    metrics_of "$1" "${3:-}" >"$work/metrics.1"
    metrics_of "$2" "${3:-}" >"$work/metrics.2"
    cmp "$work/metrics.1" "$work/metrics.2" || fail "metrics of $1 and $2 differ"
    cmp "$work/$1/model/model.safetensors" "$work/$2/model/model.safetensors" ||
        fail "weights of $1 and $2 differ"
}

# <run> <step…>: these checkpoints and nothing else.
expect_checkpoints() {
    local step names=''
    for step in "${@:2}"; do names+=$(printf 'step-%08d' "$step")$'\n'; done
    [ "$(find "$work/$1/checkpoints" -mindepth 1 -maxdepth 1 -name 'step-*' -printf '%f\n' | sort)" = "${names%$'\n'}" ] ||
        fail "$1 has other checkpoints than of ${*:2}: $(ls "$work/$1/checkpoints")"
}

# <run> <step>: flips a byte in the middle of the weights.
spoil() {
    local file
    file=$(printf '%s/%s/checkpoints/step-%08d/rank-00000.safetensors' "$work" "$1" "$2")
    printf 'spoilt' | dd of="$file" bs=1 seek=300000 conv=notrunc status=none
}
