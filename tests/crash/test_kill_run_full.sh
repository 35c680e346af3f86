#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# As test_kill_run.sh, at every change, with saves in the step and beside the next one, all checkpoints kept and one.
# RUN: long
. "$(dirname "$0")/../cli/lib.sh"
. "$(dirname "$0")/kill.sh"

may_stay=step-00000002
prepare_strikes 1 --keep-checkpoints 1
strike_run 1 0 1 --keep-checkpoints 1
may_stay=
saved_steps_vary=1
background=(--set checkpoint.writer.decoupled=true)
prepare_strikes 1 "${background[@]}"
strike_run 1 0 1 "${background[@]}"
