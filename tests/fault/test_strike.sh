#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A rank that is killed, stopped or asked to end ends all others in bounded time: with a message that names it and
# what was done, an exit code, and no process left; one that is asked to end makes all end at the same step, with
# the model. test_strike_points.sh strikes at every point of a run.
. "$(dirname "$0")/strike.sh"

strike 2 1 exchange:20 SIGKILL
expect_killed 1
# HA-11: the rank that is stuck in update 5 says so.
strike 4 2 forward:5 SIGSTOP
expect_silence 2 4
expect_err "step 5, "
# HA-09: SIGTERM for one rank of four.
strike 4 2 forward:2 SIGTERM
expect_stopped 2

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
