#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A run that goes on in a new process is the run that never ended: the same metrics but for times, the same weights,
# with dropout. So it is after signals, after a kill at any point, and when saves are made in the background.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/resume.sh"

# RS-01: 20 steps against 10 + new process + 10.
for dtype in fp32 bf16 fp16; do
    set=()
    [ "$dtype" = fp32 ] || set=(--set "$dtype.enabled=true")
    train_well straight-$dtype --steps 20 --save-every 10 "${set[@]}"
    train_well halves-$dtype --steps 10 --save-every 10 "${set[@]}"
    train_well halves-$dtype --steps 20 --save-every 10 --resume auto "${set[@]}"
    expect_err 'resume: 10 of 20 steps are done, the next begins at sample 120'
    expect_err 'step 20/20'
    [ "$(wc -l <"$work/halves-$dtype/metrics.jsonl")" -eq 20 ] || fail "expected 20 lines"
    expect_same straight-$dtype halves-$dtype
    expect_checkpoints halves-$dtype 10 20
    [ "$(saves_of straight-$dtype)" = "10 20" ] || fail "other saves in the metrics"
    [ "$(saves_of halves-$dtype)" = "10 20" ] || fail "other saves in the metrics"
done
straight=$work/straight-fp32
# What a checkpoint means is the same too.
cero ckpt hash "$straight"
cp "$work/out" "$work/hash"
cero ckpt hash "$work/halves-fp32"
cmp "$work/out" "$work/hash" || fail "other digests"
# The loss depends on where the run is: an interrupted run that starts its data or dropout anew would show.
train_well anew --steps 10
! cmp -s <(metrics_of anew other | tail -n 5 | grep -oE '"loss":[^,]*') \
    <(metrics_of straight-fp32 other | tail -n 5 | grep -oE '"loss":[^,]*') || fail "losses do not tell steps apart"

# Signals: a checkpoint at the step at hand, no model, 75; and what follows is the straight run.
for signal in SIGTERM SIGUSR1; do
    CERO_FAULT=update:7:$signal train $signal --steps 20
    expect_code 75
    expect_err "stopped by $signal after step 7 of 20"
    [ ! -e "$work/$signal/model" ] || fail "a model was exported"
    expect_checkpoints $signal 7
    train_well $signal --steps 20 --resume auto
    expect_same straight-fp32 $signal
    [ "$(saves_of $signal)" = 7 ] || fail "other saves in the metrics"
done
# No second save of a step that was just saved; with an evaluation that the straight run has not.
CERO_FAULT=update:5:SIGTERM train both --steps 20 --save-every 5 --eval-data "$work/ids.u16" --eval-every 10
expect_code 75
[ "$(grep -c 'saved .*/step-00000005' "$work/err")" -eq 1 ] || fail "expected one save"
! grep -q eval_loss "$work/both/metrics.jsonl" || fail "a run that leaves was evaluated"
# In the last step there is nothing to go on with but the export.
evaluated=(--steps 4 --save-every 4 --eval-data "$work/ids.u16")
train_well end "${evaluated[@]}"
CERO_FAULT=update:4:SIGTERM train late "${evaluated[@]}"
expect_code 75
[ ! -e "$work/late/model" ] || fail "a model was exported"
train_well late "${evaluated[@]}" --resume auto
expect_same end late
grep -q eval_loss "$work/late/metrics.jsonl" || fail "there is no evaluation"
# SIGINT saves, and exports as before.
CERO_FAULT=update:7:SIGINT train int --steps 20
expect_code 0
expect_err 'stopped by SIGINT after step 7 of 20'
[ -s "$work/int/model/model.safetensors" ] || fail "there is no model"
expect_checkpoints int 7
train_well int --steps 20 --resume auto
cmp "$work/int/model/model.safetensors" "$straight/model/model.safetensors" || fail "other weights"

# Killed: at the forward of a step, in a save, and between a save and the line of its step.
train_well every5 --steps 20 --save-every 5
for fault in forward:150:SIGKILL io:60:SIGKILL rename:3:SIGKILL write:20:SIGKILL; do
    rm -rf "$work/killed"
    CERO_FAULT=$fault train killed --steps 20 --save-every 5 --resume if-present
    [ "$code" -eq 137 ] || fail "$fault: expected a kill"
    train_well killed --steps 20 --save-every 5 --resume if-present
    grep -qE 'resume: |no checkpoint in .*, starting at step 0' "$work/err" || fail "nothing is said"
    expect_same every5 killed
    [ "$(saves_of killed)" = "5 10 15 20" ] || fail "other saves in the metrics"
    expect_checkpoints killed 5 10 15 20
done
# A line that was torn or never written comes from the checkpoint; lines of later steps go.
train_well lines --steps 10 --save-every 5
metrics_of lines >"$work/ten"
head -n 9 "$work/lines/metrics.jsonl" >"$work/nine"
printf '{"step":10,"loss":1.2' >>"$work/nine"
cp "$work/nine" "$work/lines/metrics.jsonl"
train_well lines --steps 10 --save-every 5 --resume auto
metrics_of lines | cmp - "$work/ten" || fail "the line of step 10 is not as it was"
train_well lines --steps 10 --save-every 5 --resume 5
metrics_of lines | cmp - "$work/ten" || fail "going back left another history"
expect_err 'step-00000010 is of a later step and was moved to'
[ -e "$work/lines/checkpoints-after-5/step-00000010/manifest.json" ] || fail "the later checkpoint is gone"
sed -i 7q "$work/lines/metrics.jsonl"
train_well lines --steps 12 --resume auto
expect_err 'metrics.jsonl ends at step 7: it has no lines up to step 10'

# A finished run is exported again and nothing else.
cp "$work/straight-fp32/metrics.jsonl" "$work/kept"
rm -r "$work/straight-fp32/model"
train_well straight-fp32 --steps 20 --resume auto
expect_err 'the run is finished: its checkpoint is of step 20, of 20; the model is exported'
cmp "$work/straight-fp32/metrics.jsonl" "$work/kept" || fail "metrics changed"
cmp "$work/straight-fp32/model/model.safetensors" "$work/halves-fp32/model/model.safetensors" || fail "other weights"

# In the background: which step sees the end of a save is a matter of time, all else is not.
background=(--set checkpoint.writer.decoupled=true)
train_well background --steps 10 --save-every 2 "${background[@]}"
expect_err 'saves      every 2 steps and at the end, in the background'
expect_checkpoints background 2 4 6 8 10
train_well background --steps 20 --save-every 10 --resume auto "${background[@]}"
expect_same straight-fp32 background other
# The copy is planned memory: it is there from the first step.
[ "$(metrics_of background | grep -oE '"io":[0-9]+' | sort -u | wc -l)" -eq 1 ] || fail "memory grows"

# CSV: as in a straight run.
csv=(--set csv_monitor.enabled=true)
train_well csv1 --steps 12 --save-every 4 "${csv[@]}"
CERO_FAULT=forward:130:SIGKILL train csv2 --steps 12 --save-every 4 "${csv[@]}"
[ "$(wc -l <"$work/csv2/Train_Samples_lr.csv")" -eq 11 ] || fail "expected a heading and ten lines"
train_well csv2 --steps 12 --save-every 4 "${csv[@]}" --resume auto
! grep -q 'earlier run' "$work/err" || fail "its own lines are taken for another run's"
for name in lr train_loss grad_norm; do
    cmp "$work/csv1/Train_Samples_$name.csv" "$work/csv2/Train_Samples_$name.csv" || fail "$name.csv differs"
done
