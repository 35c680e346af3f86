#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# When a run saves, which checkpoints stay, and what it does when one cannot be saved: it goes on or stops as it was
# told, what was there before is there, and a run without its last checkpoint has an exit code of its own.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/resume.sh"

# At multiples and at the end; not twice at a step that is both.
train_well plain --steps 7 --save-every 3
expect_checkpoints plain 3 6 7
[ "$(saves_of plain)" = "3 6 7" ] || fail "other saves in the metrics"
[ "$(cat "$work/plain/checkpoints/latest")" = step-00000007 ] || fail "the hint names another one"
train_well even --steps 6 --save-every 3
expect_checkpoints even 3 6
[ "$(grep -c ' saved ' "$work/err")" -eq 2 ] || fail "expected two saves"
train_well never --steps 4
[ ! -e "$work/never/checkpoints" ] || fail "a run without --save-every saved"
# Seconds of a save are those of its step alone.
grep -oE '"save":[^,}]*' "$work/plain/metrics.jsonl" | cut -d: -f2 >"$work/seconds"
[ "$(awk '$1 > 0 { printf "%d ", NR }' "$work/seconds")" = "3 6 7 " ] || fail "other steps have seconds of a save"

# CK-09: the newest by number, not by name.
train_well ck09 --steps 9 --save-every 9 --keep-checkpoints 2
train_well ck09 --steps 10 --save-every 1000 --keep-checkpoints 2 --resume auto
train_well ck09 --steps 100 --save-every 1000 --keep-checkpoints 2 --resume auto
expect_checkpoints ck09 10 100

# CK-12: keep one; the third save finds the disk full.
train_well ck12 --steps 2 --save-every 1 --keep-checkpoints 1
expect_checkpoints ck12 2
CERO_FAULT=fsync:2:ENOSPC train ck12 --steps 3 --save-every 3 --keep-checkpoints 1 --resume auto
expect_code 74
expect_err 'step 3: the checkpoint could not be saved: '
expect_err 'No space left on device'
expect_err 'error: the checkpoint of step 3, the last, is not there: '
expect_checkpoints ck12 2
[ -s "$work/ck12/model/model.safetensors" ] || fail "the model was not exported"
cero ckpt verify "$work/ck12/checkpoints/step-00000002"
expect_code 0
train_well ck12 --steps 3 --save-every 3 --keep-checkpoints 1 --resume auto
expect_checkpoints ck12 3
[ "$(wc -l <"$work/ck12/metrics.jsonl")" -eq 3 ] || fail "expected three steps"

# A save that fails on the way: the run goes on, and the next that is due tries again.
train_well base --steps 2 --save-every 2
cp -r "$work/base" "$work/goes"
CERO_FAULT=fsync:2:EIO train_well goes --steps 8 --save-every 2 --resume auto
expect_err 'step 4: the checkpoint could not be saved: '
expect_checkpoints goes 2 6 8
[ "$(saves_of goes)" = "2 6 8" ] || fail "other saves in the metrics"
[ -z "$(find "$work/goes/checkpoints" -name '*.tmp-*')" ] || fail "something was left"
# Told to stop it stops, with the error.
rm -r "$work/base/model"
cp -r "$work/base" "$work/stops"
CERO_FAULT=fsync:2:EIO train stops --steps 8 --save-every 2 --resume auto --on-save-error stop
expect_code 74
expect_err 'error: saving '
[ "$(wc -l <"$work/stops/metrics.jsonl")" -eq 4 ] || fail "expected four steps"
[ ! -e "$work/stops/model" ] || fail "a model was exported"
# In the background the same.
background=(--set checkpoint.writer.decoupled=true)
cp -r "$work/base" "$work/behind"
CERO_FAULT=fsync:2:EIO train_well behind --steps 8 --save-every 2 --resume auto "${background[@]}"
expect_err 'the checkpoint could not be saved: '
expect_checkpoints behind 2 6 8
rm -r "$work/stops"
cp -r "$work/base" "$work/stops"
CERO_FAULT=fsync:2:EIO train stops --steps 1000000 --save-every 2 --resume auto --on-save-error stop "${background[@]}"
expect_code 74
expect_err 'error: saving '
[ ! -e "$work/stops/model" ] || fail "a model was exported"

# The save of a signal fails: not "temporary", as there is nothing new to go on from. Files of 256 KiB at most.
set_run signal --steps 1000000
code=0
(
    trap '' XFSZ
    ulimit -f 256
    CERO_FAULT=update:3:SIGTERM exec "$CERO_COMMAND" "${run[@]}"
) >"$work/out" 2>"$work/err" </dev/null || code=$?
last="SIGTERM and files that are too large"
expect_code 74
expect_err 'error: the checkpoint of step 3, the last, is not there: '
expect_err 'File too large'
[ -z "$(ls "$work/signal/checkpoints")" ] || fail "something was left"
