# SPDX-License-Identifier: Apache-2.0
# Words for the tests of the command on several ranks, beside those of lib.sh: a small model and its files, ranks
# that are alike or one of which is odd, and what must hold after a failure.
# shellcheck shell=bash
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

if [ -z "${CERO_MPIEXEC:-}" ] || [ "${CERO_TEST_MPI:-none}" = none ]; then
    echo "skipped: there is no mpiexec, or cero is built without MPI"
    exit 77
fi
export OMP_NUM_THREADS=1
trap 'end_left_over; rm -rf "$work"' EXIT

cat >"$work/g1.json" <<'J'
{"model_type": "gpt2", "vocab_size": 256, "n_positions": 32, "n_embd": 64, "n_layer": 2, "n_head": 4,
 "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "bos_token_id": 0, "eos_token_id": 0}
J
cat >"$work/ds.json" <<'J'
{"train_micro_batch_size_per_gpu": 1,
 "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0},
 "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
 "cero": {"timeout_seconds": 3}}
J

# <path> <count> [<step>]: 16-bit ids 0, step, 2 step, … below 256.
make_tokens() {
    local i
    for ((i = 0; i < $2; i++)); do printf "\\x$(printf %02x $((i * ${3:-1} % 256)))\\0"; done >"$1"
}

# The arguments of a run, in `train`; options come at the end.
config=$work/ds.json
model=$work/g1.json
data=$work/train.u16
out=run
steps=4
set_train() {
    train=(train --config "$config" --model "$model" --data "$data" --out "$work/$out"
        --steps "$steps" --threads 1 "$@")
}

# <mpiexec argument…>: leaves $work/out, $work/err, $code and $seconds.
run_world() {
    local begin=$SECONDS
    code=0
    # shellcheck disable=SC2086
    timeout --kill-after=10 120 "$CERO_MPIEXEC" $CERO_MPIEXEC_FLAGS "$@" \
        >"$work/out" 2>"$work/err" </dev/null || code=$?
    seconds=$((SECONDS - begin))
    last="mpiexec $*"
}

# <ranks> <cero argument…>: all ranks alike.
world() {
    run_world -n "$1" "$CERO_COMMAND" "${@:2}"
}

# <ranks> <rank>: `train` on all ranks, but on one `odd` with the variables of `odd_env`.
odd_world() {
    local ranks=$1 rank=$2 line=()
    [ "$rank" -eq 0 ] || line+=(-n "$rank" "$CERO_COMMAND" "${train[@]}" :)
    line+=(-n 1 env ${odd_env[@]+"${odd_env[@]}"} "$CERO_COMMAND" "${odd[@]}")
    [ $((rank + 1)) -eq "$ranks" ] ||
        line+=(: -n $((ranks - rank - 1)) "$CERO_COMMAND" "${train[@]}")
    run_world "${line[@]}"
    odd_env=()
}

# Processes whose arguments have this test's folder in them.
list_left_over() {
    local dir word
    for dir in /proc/[0-9]*; do
        while IFS= read -r -d '' word; do
            if [[ $word == "$work"* ]]; then
                echo "${dir#/proc/}"
                break
            fi
        done 2>/dev/null <"$dir/cmdline" || true
    done
}

end_left_over() {
    local pid
    for pid in $(list_left_over); do kill -9 "$pid" 2>/dev/null || true; done
}

# The launcher may leave a moment before the last of its ranks.
expect_no_process() {
    local try
    for ((try = 0; try < 100; try++)); do
        [ -z "$(list_left_over)" ] && return 0
        sleep 0.1
    done
    fail "processes are left: $(list_left_over)"
}

# One rank speaks, once, in the words given; nothing is on stdout; the job has this exit code and is gone.
# When a rank ends the job, MPICH's launcher writes to stdout and has exit codes of its own.
expect_world_error() { # <code> <rank> <text…>
    local text
    [ "$(grep -c 'error: ' "$work/err")" -eq 1 ] || fail "expected one message"
    grep -qE "^cero( [a-z]+)+: rank $2 of [0-9]+: error: " "$work/err" || fail "expected rank $2 to speak"
    for text in "${@:3}"; do expect_err "$text"; done
    [ "$code" -ne 0 ] || fail "expected an exit code"
    if [ "$CERO_TEST_MPI" = openmpi ]; then
        expect_no_out
        expect_code "$1"
    fi
    [ "$seconds" -lt 60 ] || fail "it took $seconds s"
    expect_no_process
}

expect_no_run() {
    [ ! -e "$work/$out/metrics.jsonl" ] && [ ! -e "$work/$out/model" ] || fail "a run was begun"
}

metric() { # <file> <key>: its values, a line each
    grep -oE "\"$2\":[^,}]*" "$1" | cut -d: -f2
}
