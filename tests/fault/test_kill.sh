#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A rank that is killed, stopped or asked to end, at any point of a run, ends all others in bounded time: with a
# message that names the rank and what it did, an exit code, and no process left. A rank that is asked to end
# makes all end at the same step, with the model.
. "$(dirname "$0")/../cli/world.sh"

make_tokens "$work/train.u16" 700
make_tokens "$work/eval.u16" 200

# <ranks> <rank> <point> <signal> [<option…>]: the run in which a rank meets it.
strike() {
    rm -rf "$work/run"
    set_train --eval-data "$work/eval.u16" --eval-every 3 "${@:5}"
    odd=("${train[@]}")
    odd_env=("CERO_FAULT=$3:$4")
    odd_world "$1" "$2"
    last="$3:$4 at rank $2 of $1: $last"
    [ "$seconds" -lt 60 ] || fail "it took $seconds s"
    expect_no_process
}

expect_killed() { # <rank>
    [ "$code" -ne 0 ] || fail "expected an exit code"
    case $CERO_TEST_MPI in
    openmpi) grep -qE "rank $1 .*signal 9" "$work/err" || fail "the launcher names no rank" ;;
    mpich) expect_err "SIGNAL: 9" ;;
    esac
    [ ! -e "$work/run/model/model.safetensors" ] || fail "there is a model"
}

# HA-11: who was waited for, in what, and what each rank did last with its number.
expect_silence() { # <rank>
    [ "$(grep -c 'error: ' "$work/err")" -eq 1 ] || fail "expected one message"
    grep -qE "error: .*no sign of life from rank $1 for 3 s while waiting in [a-z_]+.* \(operation [0-9]+\)" \
        "$work/err" || fail "the message does not name rank $1"
    [ "$(grep -cE '^  rank [0-9]+' "$work/err")" -eq "$2" ] || fail "expected $2 ranks in the table"
    grep -qE '^    operation [0-9]+, .* bytes, (done|waiting|started), begun' "$work/err" ||
        fail "the table has no operations"
    [ "$code" -ne 0 ] || fail "expected an exit code"
    [ "$CERO_TEST_MPI" != openmpi ] || expect_code 75
}

steps=6
for point in start:1 forward:3 backward:3 exchange:20 update:2 evaluate:1 export:1; do
    strike 2 1 "$point" SIGKILL
    expect_killed 1
    strike 4 2 "$point" SIGSTOP
    expect_silence 2 4
done
strike 4 0 forward:2 SIGKILL
expect_killed 0
strike 2 0 update:4 SIGSTOP
expect_silence 0 2
# HA-11: the rank that is stuck in update 5 says so.
strike 2 1 forward:5 SIGSTOP
expect_silence 1 2
expect_err "step 5, "
# What can only be asked by message has no answer for it.
strike 4 2 exchange:30 SIGSTOP --no-shared-memory
expect_silence 2 4
expect_err "rank 2: no answer"

# HA-09: SIGTERM for one rank of four.
for point in forward exchange update; do
    strike 4 2 "$point:1" SIGTERM
    expect_code 75
    expect_err "stopped by SIGTERM after step 1 of 6"
    [ "$(wc -l <"$work/run/metrics.jsonl")" -eq 1 ] || fail "expected one step"
    [ -s "$work/run/model/model.safetensors" ] || fail "there is no model"
done
strike 4 3 evaluate:1 SIGTERM # the signal comes when step 3 is over
expect_code 75
[ "$(wc -l <"$work/run/metrics.jsonl")" -eq 4 ] || fail "expected four steps"
[ -s "$work/run/model/model.safetensors" ] || fail "there is no model"
strike 2 1 export:1 SIGTERM # nothing is left to be ended
expect_code 0
[ -s "$work/run/model/model.safetensors" ] || fail "there is no model"
strike 2 1 start:1 SIGTERM # nothing is there yet that could be saved
[ "$code" -ne 0 ] || fail "expected an exit code"
expect_no_run

# A kill from outside, wherever the rank is.
rank_of() { # <pid>
    tr '\0' '\n' 2>/dev/null <"/proc/$1/environ" |
        sed -nE 's/^(OMPI_COMM_WORLD_RANK|PMI_RANK)=//p' | head -1
}
rm -rf "$work/run"
steps=1000000 set_train
world 4 "${train[@]}" &
runner=$!
for ((try = 0; try < 600; try++)); do
    [ ! -s "$work/run/metrics.jsonl" ] || break
    sleep 0.1
done
for pid in $(list_left_over); do
    if [ "$(rank_of "$pid")" = 3 ]; then kill -9 "$pid"; fi
done
wait "$runner" || true
last="kill -9 of rank 3"
code=1
expect_killed 3
expect_no_process
