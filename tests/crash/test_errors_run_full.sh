#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# As test_errors_run.sh, at every change of the only rank and of both of two, with runs that go on after a failed save and
# runs that stop.
# RUN: long
. "$(dirname "$0")/../cli/world.sh"
. "$(dirname "$0")/kill.sh"

prepare_strikes 1
fail_run 1 0 1 ENOSPC "No space left on device"
fail_run 1 0 1 EIO "Input/output error" --on-save-error stop
prepare_strikes 2
fail_run 2 0 3 EROFS "Read-only file system" --on-save-error stop
fail_run 2 1 1 EIO "Input/output error" --on-save-error stop
