#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# As test_strike.sh, at every point of a run: start, forward, backward, exchange, update, evaluation, export.
# RUN: slow
. "$(dirname "$0")/strike.sh"

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
# What can only be asked by message has no answer for it.
strike 4 2 exchange:30 SIGSTOP --no-shared-memory
expect_silence 2 4
expect_err "rank 2: no answer"

for point in forward backward exchange update; do
    strike 4 2 "$point:1" SIGTERM
    expect_stopped 1
done
strike 4 3 evaluate:1 SIGTERM # step 3 was agreed to go on
expect_stopped 4
strike 2 1 export:1 SIGTERM # nothing is left to be ended
expect_code 0
[ -s "$work/run/model/model.safetensors" ] || fail "there is no model"
strike 2 1 start:1 SIGTERM # nothing is there yet that could be saved
[ "$code" -ne 0 ] || fail "expected an exit code"
expect_no_run
