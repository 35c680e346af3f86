#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# As test_kill_ranks.sh, at every change of rank 0 and of rank 1 of 2; beside the next step at every third.
# RUN: long
. "$(dirname "$0")/../cli/world.sh"
. "$(dirname "$0")/kill.sh"

prepare_strikes 2
strike_run 2 0 1
strike_run 2 1 1
may_stay=step-00000002
saved_steps_vary=1
background=(--set checkpoint.writer.decoupled=true --keep-checkpoints 1)
prepare_strikes 2 "${background[@]}"
strike_run 2 0 3 "${background[@]}"
strike_run 2 1 1 "${background[@]}"
