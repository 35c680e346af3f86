#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a run of several ranks leaves and says: a log for each rank, what all ranks would say alike said once, samples
# that are in no step counted, memory that is not there named; odd but harmless differences between ranks harm
# nobody.
. "$(dirname "$0")/world.sh"

make_tokens "$work/train.u16" 700

expect_once() { # <text>
    [ "$(grep -cF -- "$1" "$work/err")" -eq 1 ] || fail "expected one line with '$1'"
}

# A warning that each rank's config gives.
set_train --set scheduler.type=WarmupDecayLR --set scheduler.params.total_num_steps=2 \
    --set scheduler.params.warmup_num_steps=5
world 3 "${train[@]}"
expect_code 0
expect_once "total_num_steps 2 is less than warmup_num_steps 5"
expect_once "step 1/4"
expect_once "exported"
[ "$(wc -l <"$work/run/metrics.jsonl")" -eq 4 ] || fail "expected four lines of metrics"
[ "$(find "$work/run/log" -type f | wc -l)" -eq 3 ] || fail "expected three logs"

# Steps that all skip: once on the terminal, and in the log of each rank.
rm -rf "$work/run"
set_train --set fp16.enabled=true --set fp16.initial_scale_power=30 --set fp16.hysteresis=1
world 3 "${train[@]}"
expect_code 0
skipped=$(grep -c 'step skipped' "$work/err")
[ "$skipped" -gt 0 ] || fail "nothing was skipped"
! grep 'step skipped' "$work/err" | grep -v '^\[rank 0/3\]' || fail "another rank than 0 spoke"
for r in 0 1 2; do
    [ "$(grep -c "^\[rank $r/3\] zero warn: step skipped" "$work/run/log/rank-0000$r.log")" -eq "$skipped" ] ||
        fail "rank $r's log lacks a skipped step"
done

# HA-03: 11 samples over two ranks.
rm -rf "$work/run"
make_tokens "$work/eleven.u16" 353
data=$work/eleven.u16 set_train
world 2 "${train[@]:0:9}" --threads 1
expect_code 0
expect_err "5 steps"
expect_err "1 samples of the epoch are unused"
[ "$(wc -l <"$work/run/metrics.jsonl")" -eq 5 ] || fail "expected five steps"

# ME-07: a budget that the plan does not fit, named by one rank with what it was for.
rm -rf "$work/run"
set_train --set cero.memory_budget=100000
world 2 "${train[@]}"
expect_world_error 1 0 "of category" bytes 100000
expect_no_run

# LA-10: four threads on one core, on two ranks that sit alike.
if command -v taskset >/dev/null; then
    rm -rf "$work/run"
    set_train
    run_world -n 2 taskset -c "$(taskset -pc $$ | grep -oE '[0-9]+' | tail -1)" "$CERO_COMMAND" \
        "${train[@]:0:11}" --threads 4
    expect_code 0
    expect_once "4 threads for 1 core(s)"
    expect_once "--bind-to none, taskset"
else
    echo "skipped: there is no taskset to take cores away with"
fi

# PF-02: ranks of one node divide the cores that they may use.
rm -rf "$work/run"
set_train
run_world -n 2 env -u OMP_NUM_THREADS "$CERO_COMMAND" "${train[@]:0:11}"
expect_code 0
cores=$(sed -nE 's/^node 0 .*, ([0-9]+) of [0-9]+ cores allowed, the same for all, .*/\1/p' "$work/err")
if [ -n "$cores" ]; then
    grep -qE "the same for all, $((cores > 3 ? cores / 2 : 1)) threads? each" "$work/err" ||
        fail "two ranks do not divide $cores cores"
else
    echo "skipped: the launcher gave each rank cores of its own"
fi

# PF-06: exposed exchange is told with and without overlap.
for overlap in true false; do
    rm -rf "$work/run"
    set_train --set zero_optimization.stage=2 --set zero_optimization.overlap_comm=$overlap \
        --set wall_clock_breakdown=true --set steps_per_print=2
    world 2 "${train[@]}"
    expect_code 0
    expect_err "exposed exchange: "
    [ "$(metric "$work/run/metrics.jsonl" exchange | awk '$1 > 0' | wc -l)" -eq 4 ] ||
        fail "a step without seconds of exchange"
done

# Threads and shared memory may differ: the losses are those of ranks that are alike.
rm -rf "$work/run"
set_train
world 2 "${train[@]}"
expect_code 0
metric "$work/run/metrics.jsonl" loss >"$work/losses"
[ "$(wc -l <"$work/losses")" -eq 4 ] || fail "expected four losses"
for options in '--threads 2' '--no-shared-memory'; do
    rm -rf "$work/run"
    set_train
    # shellcheck disable=SC2206
    odd=("${train[@]:0:11}" $options)
    odd_world 2 1
    expect_code 0
    metric "$work/run/metrics.jsonl" loss | cmp - "$work/losses" || fail "losses with $options"
done

# ME-06: /dev/shm of 1 MB. Either the reason with both numbers, or a run by messages.
small='mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$@"'
if [ "$(id -u)" -ne 0 ] || ! unshare -m sh -c "$small" sh true 2>/dev/null; then
    echo "skipped: no rights to give the test a /dev/shm of its own"
    exit 0
fi
sed 's/"n_embd": 64/"n_embd": 256/' "$work/g1.json" >"$work/wide.json"
for stage in 0 3; do
    rm -rf "$work/run"
    model=$work/wide.json set_train --set zero_optimization.stage=$stage
    code=0
    # shellcheck disable=SC2086
    timeout 120 unshare -m sh -c "$small" sh "$CERO_MPIEXEC" $CERO_MPIEXEC_FLAGS -n 2 "$CERO_COMMAND" \
        "${train[@]}" >"$work/out" 2>"$work/err" </dev/null || code=$?
    last="a small /dev/shm at stage $stage"
    # MPICH's own transport needs more, and says so before cero is there to.
    if [ "$code" -ne 0 ] && [ "$CERO_TEST_MPI" = openmpi ]; then
        [ "$(grep -c 'error: ' "$work/err")" -eq 1 ] || fail "expected one message"
        grep -qE 'error: no shared memory for .* need [0-9]+ bytes, and [0-9]+ are free in /dev/shm' "$work/err" ||
            fail "the message lacks what is needed and free"
        expect_err "--no-shared-memory"
    fi
    ! grep -qE 'Bus error|signal 7|SIGNAL: 7' "$work/err" || fail "a rank met a bus error"
done
[ "$CERO_TEST_MPI" = openmpi ] || exit 0
rm -rf "$work/run"
code=0
# shellcheck disable=SC2086
timeout 120 unshare -m sh -c "$small" sh "$CERO_MPIEXEC" $CERO_MPIEXEC_FLAGS -n 2 "$CERO_COMMAND" \
    "${train[@]}" --no-shared-memory >"$work/out" 2>"$work/err" </dev/null || code=$?
last="a small /dev/shm and --no-shared-memory"
expect_code 0
