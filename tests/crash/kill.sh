# SPDX-License-Identifier: Apache-2.0
# Words for the tests that kill runs of the command and let them go on: a small run with dropout and shuffled data, and
# what must hold in the end: the metrics (times aside), the model and the files of a run that was never killed.
# shellcheck shell=bash disable=SC2034,SC2154

cat >"$work/small.json" <<'J'
{"model_type": "gpt2", "vocab_size": 256, "n_positions": 8, "n_embd": 12, "n_layer": 1, "n_head": 2,
 "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1, "bos_token_id": 0, "eos_token_id": 0}
J
cat >"$work/small_ds.json" <<'J'
{"train_batch_size": 4, "train_micro_batch_size_per_gpu": 1, "gradient_clipping": 1.0,
 "zero_optimization": {"stage": 2},
 "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
 "cero": {"timeout_seconds": 10}}
J
python3 - "$work/small.u16" <<'P'
import sys
open(sys.argv[1], "wb").write(bytes(b for i in range(900) for b in ((i * 7 + i // 3) % 256, 0)))
P

# Before the sweep of sessions of a launcher that was killed: they go with the test's folder.
export TMPDIR=$work

# <run> <steps> [<option…>]: the arguments of a run, in `train`.
set_small() {
    train=(train --config "$work/small_ds.json" --model "$work/small.json" --data "$work/small.u16"
        --out "$work/$1" --steps "$2" --threads 1 --save-every 1 --resume if-present "${@:3}")
}

# Lines of metrics without what depends on time.
plain_metrics() { # <run>
    python3 - "$work/$1/metrics.jsonl" "${saved_steps_vary:-}" <<'P'
import json, sys
for line in open(sys.argv[1]):
    step = json.loads(line)
    for key in ("step_seconds", "tokens_per_second", "model_flops_per_second", "seconds"):
        del step[key]
    if sys.argv[2]:
        step.pop("saved_step", None)
    print(json.dumps(step))
P
}

# Without the checkpoint `may_stay`: a run that is killed between its last commit and the removal of what that replaces
# saves no more.
list_files() {
    (cd "$work/$1" && find . -mindepth 1 -not -path "./checkpoints/${may_stay:-none}*" | LC_ALL=C sort)
}

expect_same_end() { # <run> <straight>
    diff <(plain_metrics "$1") <(plain_metrics "$2") >"$work/diff" ||
        fail "other metrics: $(head -c 1500 "$work/diff")"
    cmp -s "$work/$1/model/model.safetensors" "$work/$2/model/model.safetensors" ||
        fail "another model"
}

expect_same_run() { # <run> <straight>
    expect_same_end "$@"
    diff <(list_files "$1") <(list_files "$2") >"$work/diff" ||
        fail "other files: $(head -c 1500 "$work/diff")"
}

newest_step() { # <run>
    find "$work/$1/checkpoints" -maxdepth 1 -name 'step-????????' | LC_ALL=C sort | tail -1 | grep -oE '[0-9]+$'
}

# A run that was killed has what the run had that it went on from, or newer, and all of it is whole.
expect_whole() { # <run> <from>
    "$CERO_COMMAND" ckpt verify "$work/$1/checkpoints" >"$work/verify" 2>&1 ||
        fail "a checkpoint does not verify: $(cat "$work/verify")"
    [[ ! $(newest_step "$1") < $(newest_step "$2") ]] || fail "a checkpoint is lost"
}

# <ranks> [<rank> <fault>]: the run of `train`, in which a rank may meet a fault.
run_small() {
    if [ "$1" -eq 1 ] && [ $# -eq 1 ]; then
        cero "${train[@]}"
    elif [ "$1" -eq 1 ]; then
        CERO_FAULT=$3 cero "${train[@]}"
    elif [ $# -eq 1 ]; then
        world "$1" "${train[@]}"
    else
        odd=("${train[@]}")
        odd_env=("CERO_FAULT=$3")
        odd_world "$1" "$2"
    fi
    last="${3:-nothing} at rank ${2:-0} of $1: $last"
}

# A run to the end, and one that stands after two of three steps, whose third will be struck.
prepare_strikes() { # <ranks> [<option…>]
    rm -rf "$work"/straight "$work"/base
    set_small straight 3 "${@:2}"
    run_small "$1"
    expect_code 0
    set_small base 3 "${@:2}"
    run_small "$1" 0 "forward:$((2 * 4 / $1 + 1)):SIGKILL" # four micro-batches a step, over all ranks
    [ "$code" -ne 0 ] || fail "expected it to be killed"
}

# The n-th change of files by a rank kills it, from the start of the run on that goes on after step 2 until its end: n
# grows by <stride> until the run survives. Each time the next run ends as the one that was never killed.
strike_run() { # <ranks> <rank> <stride> [<option…>]
    local n killed=0
    set_small run 3 "${@:4}"
    for ((n = 1; ; n += $3)); do
        rm -rf "$work/run"
        cp -r "$work/base" "$work/run"
        run_small "$1" "$2" "io:$n:SIGKILL"
        [ "$code" -ne 0 ] || break
        killed=$((killed + 1))
        expect_whole run base
        run_small "$1"
        expect_code 0
        expect_same_run run straight
    done
    expect_same_run run straight
    echo "$1 ranks, rank $2 killed $killed times (of $n changes)${4:+ with ${*:4}}"
    [ "$killed" -ge 3 ] || fail "the run was killed only $killed times"
}

# The n-th change of files by a rank fails; n grows by <stride> until nothing is left to fail. The run ends with the
# stated code and a message that has the reason, or goes on to its end; another start ends as a run that met nothing.
fail_run() { # <ranks> <rank> <stride> <name> <reason> [<option…>]
    local n told=0 survived=0 last_told=0
    saved_steps_vary=1
    set_small run 3 "${@:6}"
    for ((n = 1; n < last_told + 40; n += $3)); do
        rm -rf "$work/run"
        cp -r "$work/base" "$work/run"
        run_small "$1" "$2" "io:$n:$4"
        case $code in
        0) survived=$((survived + 1)) ;;
        73 | 74 | 75)
            told=$((told + 1))
            expect_err "error: "
            expect_err "$5"
            ;;
        *) fail "expected exit code 0, 73, 74 or 75" ;;
        esac
        ! grep -qF "$5" "$work/err" || last_told=$n
        expect_whole run base
        if [ "$code" -ne 0 ]; then
            run_small "$1"
            expect_code 0
        fi
        expect_same_end run straight
        find "$work/run" \( -name '*.tmp-*' -o -name '*.old-*' \) >"$work/diff"
        # What a run that went on could not remove the next one does.
        if [ -s "$work/diff" ]; then
            run_small "$1"
            find "$work/run" \( -name '*.tmp-*' -o -name '*.old-*' \) >"$work/diff"
        fi
        [ ! -s "$work/diff" ] || fail "left over: $(cat "$work/diff")"
    done
    echo "$1 ranks, $4 on rank $2: the run ended $told times, went on $survived times${6:+ with ${*:6}}"
    [ "$told" -ge 3 ] || fail "the run ended only $told times"
}

# Kills the processes of the run, the launcher included.
kill_run() {
    local dir word
    for dir in /proc/[0-9]*; do
        while IFS= read -r -d '' word; do
            if [ "$word" = "$work/run" ]; then
                kill -9 "${dir#/proc/}" 2>/dev/null || true
                break
            fi
        done 2>/dev/null <"$dir/cmdline" || true
    done
}

# A job of <ranks> that is killed as a whole after delays drawn by chance, again and again until <kills> kills struck,
# each time going on; as often as it ends in between it is compared and begun anew. When it is killed depends on the
# machine; what it ends with does not.
kill_at_random() { # <ranks> <kills> <seed> [<option…>]
    local kills=0 ends=0 begin longest delay pid
    rm -rf "$work/straight" "$work/run"
    set_small straight 12 "${@:4}"
    begin=$(date +%s%3N)
    run_small "$1"
    longest=$(($(date +%s%3N) - begin))
    expect_code 0
    set_small run 12 "${@:4}"
    RANDOM=$3
    while [ "$kills" -lt "$2" ] || [ "$ends" -eq 0 ]; do
        delay=$((RANDOM * longest / 32768))
        (run_small "$1" && echo "$code" >"$work/code") 2>/dev/null &
        pid=$!
        sleep "$((delay / 1000)).$(printf %03d $((delay % 1000)))"
        [ "$kills" -ge "$2" ] || kill_run
        wait "$pid" || true
        if [ "$(cat "$work/code")" -eq 0 ]; then
            expect_same_run run straight
            ends=$((ends + 1))
            rm -rf "$work/run"
        else
            kills=$((kills + 1))
        fi
    done
    echo "$1 ranks: killed $kills times, ended $ends times${4:+ with ${*:4}}"
}
