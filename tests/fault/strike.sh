# SPDX-License-Identifier: Apache-2.0
# Words for the tests that strike one rank of a run: which, where, with what signal, and what must follow.
# shellcheck shell=bash
. "$(dirname "${BASH_SOURCE[0]}")/../cli/world.sh"

make_tokens "$work/train.u16" 700
make_tokens "$work/eval.u16" 200
steps=6

# <ranks> <rank> <point> <signal> [<option…>]: a run in which a rank meets it.
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
    mpich) expect_out "signal 9" ;;
    esac
    [ ! -e "$work/run/model/model.safetensors" ] || fail "there is a model"
}

# Who was waited for, in what, and what each of the ranks did last, with its number.
expect_silence() { # <rank> <ranks>
    [ "$(grep -c 'error: ' "$work/err")" -eq 1 ] || fail "expected one message"
    grep -qE "error: .*no sign of life from rank $1 for 3 s while waiting in [a-z_]+.* \(operation [0-9]+\)" \
        "$work/err" || fail "the message does not name rank $1"
    [ "$(grep -cE '^  rank [0-9]+' "$work/err")" -eq "$2" ] || fail "expected $2 ranks in the table"
    grep -qE '^    operation [0-9]+, .* bytes, (done|waiting|started), begun' "$work/err" ||
        fail "the table has no operations"
    [ "$code" -ne 0 ] || fail "expected an exit code"
    [ "$CERO_TEST_MPI" != openmpi ] || expect_code 75
}

expect_stopped() { # <steps>: all ranks at the same one, with a checkpoint and no model
    expect_code 75
    expect_err "stopped by SIGTERM after step $1 of 6"
    [ "$(wc -l <"$work/run/metrics.jsonl")" -eq "$1" ] || fail "expected $1 steps"
    [ -s "$(printf '%s/run/checkpoints/step-%08d/manifest.json' "$work" "$1")" ] || fail "there is no checkpoint"
    [ ! -e "$work/run/model" ] || fail "there is a model"
}
