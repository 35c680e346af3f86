#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `cero train` in which any change of files fails (every fifth here, each in test_errors_run_full.sh) goes on or ends with
# the stated exit code and a message with the reason; what was saved is whole, and another start ends with the metrics
# and the model of a run that met nothing.
. "$(dirname "$0")/../cli/lib.sh"
. "$(dirname "$0")/kill.sh"

prepare_strikes 1
fail_run 1 0 5 ENOSPC "No space left on device"
