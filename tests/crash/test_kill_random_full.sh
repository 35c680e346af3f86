#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs of 1 and 2 ranks that are killed 200 times at any time, with saves in the step and beside the next one, end with
# the metrics, the model and the files of runs that were never killed.
# RUN: long
. "$(dirname "$0")/../cli/world.sh"
. "$(dirname "$0")/kill.sh"

background=(--set checkpoint.writer.decoupled=true --keep-checkpoints 2)
kill_at_random 1 80 2
kill_at_random 2 30 3
may_stay=step-0000001
saved_steps_vary=1
kill_at_random 1 60 4 "${background[@]}"
kill_at_random 2 30 5 "${background[@]}"
