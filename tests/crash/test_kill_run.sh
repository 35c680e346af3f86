#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `cero train` that is killed at changes it makes to files (every third here, each in test_kill_run_full.sh), from the
# first of a run that goes on to the last of its export, or at any time, ends after another start with the metrics, the
# model and the files of a run that was never killed.
. "$(dirname "$0")/../cli/lib.sh"
. "$(dirname "$0")/kill.sh"

prepare_strikes 1
strike_run 1 0 3
kill_at_random 1 6 1
