#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `cero launch` brings a run that is killed again and again to its end, and the run is the straight one; a job that
# makes no progress is given up with a diagnosis. No MPI is needed: mpirun is a script that starts one rank.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/resume.sh"

mkdir "$work/bin"
cat >"$work/bin/mpirun" <<'S'
#!/bin/sh
# Notes the words of each start, from those of the program on, and becomes the program.
[ "$1" != --version ] || { echo 'mpirun (Open MPI) 4.1.4'; exit; }
while [ $# -gt 0 ] && [ "$1" != "$FAKE_PROGRAM" ]; do shift; done
echo "$*" >>"$FAKE_STARTS"
exec "$@"
S
chmod +x "$work/bin/mpirun"
FAKE_PROGRAM=$(realpath "$CERO_COMMAND")
export FAKE_PROGRAM FAKE_STARTS=$work/starts PATH="$work/bin:$PATH" OMPI_ALLOW_RUN_AS_ROOT=1 \
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

launch() { # <word…>
    rm -f "$FAKE_STARTS"
    cero launch --launcher openmpi -n 1 "$@"
}
starts() { wc -l <"$FAKE_STARTS"; }

train_well straight --steps 8 --save-every 2

# Each process is killed in its fourth step: two steps of progress a start, and pauses that stay short.
set_run killed --steps 8 --save-every 2
CERO_FAULT=forward:40:SIGKILL launch --max-restarts 9 -- "${run[@]}"
expect_code 0
[ "$(starts)" -eq 4 ] || fail "expected four starts"
[ "$(grep -c 'restart [1-3] of 9 in 1 s' "$work/err")" -eq 3 ] || fail "pauses grow although there is progress"
[ "$(grep -c -- '--resume if-present$' "$FAKE_STARTS")" -eq 3 ] || fail "restarts do not go on"
! head -n 1 "$FAKE_STARTS" | grep -q -- --resume || fail "the first start goes on"
expect_same straight killed
expect_checkpoints killed 2 4 6 8

# 75 after SIGTERM: each start leaves a checkpoint of its last step. A step as --resume is for the first start alone.
set_run term --steps 8
CERO_FAULT=update:3:SIGTERM launch --max-restarts 9 -- "${run[@]}"
expect_code 0
[ "$(starts)" -eq 3 ] || fail "expected three starts"
expect_same straight term
set_run term --steps 12 --resume 6
CERO_FAULT=update:4:SIGTERM launch --max-restarts 9 -- "${run[@]}"
expect_code 0
[ "$(grep -c -- '--resume 6 --resume if-present$' "$FAKE_STARTS")" -eq 1 ] || fail "the restart does not go on"
expect_err 'resume: 10 of 12 steps are done'

# No progress: given up, with the last code.
set_run stuck --steps 8 --save-every 2
CERO_FAULT=forward:20:SIGKILL launch --max-restarts 9 --no-progress-limit 2 -- "${run[@]}"
expect_code 137
[ "$(starts)" -eq 2 ] || fail "expected two starts"
expect_err 'the job ended 2 times in a row without a newer checkpoint (exit codes 137 after '
expect_err "there is none in $work/stuck/checkpoints: it is not started again"
expect_err 'what its ranks said last is above'
# The same behind a checkpoint, found by the other ways to write --out.
for out in "--out=$work/killed" "-o$work/killed"; do
    set_run killed --steps 12 --save-every 4
    run=(train --config "$work/config.json" --model "$work/model.json" --data "$work/ids.u16" --threads 1 "$out"
        --steps 12 --save-every 100 --resume auto)
    CERO_FAULT=forward:20:SIGKILL launch --max-restarts 9 --no-progress-limit 1 -- "${run[@]}"
    expect_code 137
    [ "$(starts)" -eq 1 ] || fail "expected one start"
    expect_err "the newest in $work/killed/checkpoints is still of step 8"
done
# 0: any number; the restarts are counted then.
CERO_FAULT=forward:20:SIGKILL launch --max-restarts 1 --no-progress-limit 0 -- "${run[@]}"
expect_code 137
[ "$(starts)" -eq 2 ] || fail "expected two starts"
expect_err 'the job died 2 times (exit codes 137, 137) and --max-restarts is 1'
! grep -q -- '--resume if-present' "$FAKE_STARTS" || fail "auto was changed"
# Another program, whose checkpoints are named.
FAKE_PROGRAM=sh launch --max-restarts 9 --no-progress-limit 1 --progress-dir "$work/killed/checkpoints" -- sh -c 'exit 75'
expect_code 75
[ "$(starts)" -eq 1 ] || fail "expected one start"
expect_err 'the job ended 1 times in a row without a newer checkpoint (exit codes 75 after'

# What a restart cannot mend ends it: a config, other data, a directory in use.
set_run killed --steps 12 --resume auto --seq-len 16
launch --max-restarts 9 -- "${run[@]}"
expect_code 65
[ "$(starts)" -eq 1 ] || fail "started again after 65"
set_run killed --steps 12 --resume auto --set optimizer.typ=Adam
launch --max-restarts 9 -- "${run[@]}"
expect_code 78
[ "$(starts)" -eq 1 ] || fail "started again after 78"
