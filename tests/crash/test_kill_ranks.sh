#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A job of 2 ranks of which one is killed at a change it makes to files (some here, each in test_kill_ranks_full.sh), or
# all are killed at any time, ends after another start with the metrics, the model and the files of a run that was
# never killed.
. "$(dirname "$0")/../cli/world.sh"
. "$(dirname "$0")/kill.sh"

prepare_strikes 2
strike_run 2 0 25
strike_run 2 1 3
kill_at_random 2 2 4
