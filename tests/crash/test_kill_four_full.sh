#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# As test_kill_ranks.sh, at every change of rank 0 and of rank 3 of 4.
# RUN: long
. "$(dirname "$0")/../cli/world.sh"
. "$(dirname "$0")/kill.sh"

prepare_strikes 4
strike_run 4 0 1
strike_run 4 3 1
