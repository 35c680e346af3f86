#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a run may go on from, and what it is told when it may not: nothing that is there is lost, no run starts where
# one was to go on, and what means something else now is refused or named.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/resume.sh"

# The last line is the error; what comes before is about checkpoints that were skipped.
expect_refusal() { # <code> <text…>
    local text
    expect_code "$1"
    expect_no_out
    [ "$(grep -c '^cero train: error: ' "$work/err")" -eq 1 ] || fail "expected one error"
    for text in "${@:2}"; do expect_err "$text"; done
}

# CK-07: nothing to go on from is an error, unless a start is what was asked for then.
train absent --steps 4 --resume auto
expect_refusal 66 "absent/checkpoints has no checkpoint to load"
[ ! -e "$work/absent" ] || fail "a directory was made"
mkdir -p "$work/empty/checkpoints"
train empty --steps 4 --resume auto
expect_refusal 66 "empty/checkpoints has no checkpoint to load"
train empty --steps 4 --resume 2
expect_refusal 66 "step-00000002: there is no such checkpoint"
train empty --steps 4 --resume if-present
expect_code 0
expect_err "no checkpoint in $work/empty/checkpoints, starting at step 0"
# A run that was killed before it saved is begun again, with one history.
CERO_FAULT=forward:30:SIGKILL train begun --steps 4
[ "$code" -eq 137 ] || fail "expected a kill"
[ "$(wc -l <"$work/begun/metrics.jsonl")" -eq 2 ] || fail "expected two steps"
train begun --steps 4
expect_refusal 73 "begun holds the metrics.jsonl of an earlier run"
train_well begun --steps 4 --resume if-present
expect_err "starting at step 0"
[ "$(wc -l <"$work/begun/metrics.jsonl")" -eq 4 ] || fail "expected four steps"
# One that left a model is not.
train begun --steps 4 --resume if-present
expect_refusal 73 "begun holds the model of a run that has no checkpoints"

# A directory with checkpoints is another run's.
train_well base --steps 6 --save-every 2
sums() { (cd "$work" && find "$@" -type f -not -path '*/log/*' -not -name .lock -print0 | sort -z | xargs -0 sha256sum); }
sums base >"$work/sums"
train base --steps 8
expect_refusal 73 "base holds 3 checkpoint(s) of an earlier run, such as step-0000000" "--resume auto"
cp -r "$work/base" "$work/bare"
rm "$work/bare/metrics.jsonl"
train bare --steps 8
expect_refusal 73 "bare holds 3 checkpoint(s) of an earlier run"
sums base | cmp - "$work/sums" || fail "a refused run changed something"

# Two runs in one folder, by their names.
cp -r "$work/base" "$work/mixed"
train_well other --steps 3 --save-every 3
cp -r "$work/other/checkpoints/step-00000003" "$work/mixed/checkpoints/"
for resume in auto if-present 6; do
    train mixed --steps 8 --resume $resume
    expect_refusal 73 "mixed/checkpoints holds checkpoints of two runs: step-00000006 is of run" "step-00000003 of run"
done

# Other data, sequence, order, seed: both values, and what drops the piece.
refuse() { # <text> <option…>
    train base --steps 8 --resume auto "${@:2}"
    expect_refusal 65 "base/checkpoints/step-00000006/manifest.json: " "$1" "--resume-without data"
}
head -c 3000 "$work/ids.u16" >"$work/short.u16"
make_ids "$work/as-many.u16" 1700 11
refuse 'the sequence length was 32, now 16' --seq-len 16
refuse 'the order was shuffled, now sequential' --order sequential
refuse 'cero.seed was 1234, now 7' --seed 7
refuse 'the sequence length was 32, now 16; the order was shuffled, now sequential' --seq-len 16 --order sequential
cp "$work/ids.u16" "$work/kept.u16"
cp "$work/short.u16" "$work/ids.u16"
refuse 'the data were 1700 tokens, now 1500'
cp "$work/as-many.u16" "$work/ids.u16"
refuse 'the data were other tokens, as many (hash '
sums base | cmp - "$work/sums" || fail "a refused run changed something"
cp -r "$work/base" "$work/moved"
train_well moved --steps 8 --resume auto --resume-without data
expect_err 'resume: 6 of 8 steps are done, the next begins at sample 0'
[ "$(tail -n 1 "$work/moved/metrics.jsonl" | grep -oE '"samples":[0-9]+')" = '"samples":96' ] || fail "other samples"
cp "$work/kept.u16" "$work/ids.u16"

# Another optimizer; one of the same name with other numbers goes on and says so.
train base --steps 8 --resume auto --set optimizer.type=Lion
expect_refusal 65 'the optimizer was "AdamW", now "Lion"' '--resume-without optimizer'
sums base | cmp - "$work/sums" || fail "a refused run changed something"
cp -r "$work/base" "$work/lion"
train_well lion --steps 8 --save-every 2 --resume auto --resume-without optimizer,data --set optimizer.type=Lion
expect_err 'resume: optimizer.type was "AdamW", now "Lion"'
grep -oE '"(step|applied|samples)":[0-9]+' <(tail -n 1 "$work/lion/metrics.jsonl") | xargs |
    grep -qF 'step:8 applied:8 samples:96' || fail "the run did not go on where it was"
cp -r "$work/base" "$work/lr"
train_well lr --steps 8 --resume auto --set optimizer.params.lr=0.0005 --set gradient_clipping=0.5 \
    --set steps_per_print=1 --set wall_clock_breakdown=true
expect_err 'train info: resume: optimizer.params.lr was 0.001, now 0.0005'
expect_err 'train info: resume: gradient_clipping was 1, now 0.5'
[ "$(grep -c 'train info: resume: ' "$work/err")" -eq 3 ] || fail "expected two changes and the place"
grep -qF 'resume: optimizer.params.lr was' "$work/lr/log/rank-00000.log" || fail "the log lacks it"
# Another batch goes on at the right sample.
cp -r "$work/base" "$work/batch"
train_well batch --steps 8 --resume auto --set train_batch_size=6
[ "$(tail -n 1 "$work/batch/metrics.jsonl" | grep -oE '"samples":[0-9]+')" = '"samples":84' ] || fail "other samples"

# A newest one that does not verify is skipped, and named; the run goes on from the one before.
cp -r "$work/base" "$work/spoilt"
spoil spoilt 6
train_well spoilt --steps 6 --save-every 2 --resume auto
expect_err 'skipped '
expect_err 'spoilt/checkpoints/step-00000006: '
expect_err 'resume: 4 of 6 steps are done'
expect_same base spoilt
expect_checkpoints spoilt 2 4 6
[ -d "$work/spoilt/checkpoints-after-4/step-00000006" ] || fail "what does not verify is gone"
cp -r "$work/base" "$work/cut"
truncate -s 1000 "$work/cut/checkpoints/step-00000006/manifest.json"
train_well cut --steps 6 --save-every 2 --resume auto
expect_err 'cut/checkpoints/step-00000006: '
expect_same base cut
# When none verifies a start is no help.
cp -r "$work/base" "$work/lost"
for step in 2 4 6; do spoil lost $step; done
for resume in auto if-present; do
    train lost --steps 6 --resume $resume
    expect_refusal 65 "none of the checkpoints in $work/lost/checkpoints verifies" step-00000006 step-00000004 step-00000002
done
expect_checkpoints lost 2 4 6
train lost --steps 6 --resume 4
expect_refusal 65 step-00000004
train lost --steps 6 --resume step-4
expect_refusal 66 'step-4: there is no such checkpoint; there are step-00000006, step-00000004, step-00000002'

# By tag, by step.
cp -r "$work/base" "$work/tag"
train_well tag --steps 6 --save-every 2 --resume step-00000004
expect_same base tag

# Weights alone: a run that starts.
for from in base base/checkpoints base/checkpoints/step-00000006 base/checkpoints/step-00000006/; do
    rm -rf "$work/init"
    train_well init --steps 1 --init-from "$work/$from"
    expect_err 'weights from a checkpoint'
    [ "$(grep -oE '"(step|applied|samples)":[0-9]+' "$work/init/metrics.jsonl" | xargs)" = 'step:1 applied:1 samples:12' ] ||
        fail "counters are not those of a start"
done
train init2 --steps 1 --init-from "$work/base/model"
expect_refusal 65 'a model of Hugging Face' '--model'
train init2 --steps 1 --init-from "$work/nowhere"
expect_refusal 66 nowhere
sed 's/"n_layer": 2/"n_layer": 3/' "$work/model.json" >"$work/three.json"
cp "$work/model.json" "$work/two.json"
cp "$work/three.json" "$work/model.json"
rm -rf "$work/init"
train init --steps 1 --init-from "$work/base"
expect_refusal 65 transformer.h.2
rm -rf "$work/init"
train_well init --steps 1 --init-from "$work/base" --partial
expect_err transformer.h.2
train base --steps 8 --resume auto
expect_refusal 65 transformer.h.2
cp "$work/two.json" "$work/model.json"
# With if-present, what is there wins.
train_well base --steps 6 --resume if-present --init-from "$work/other"
expect_err 'the run is finished'

# Words that mean nothing.
train no --steps 2 --resume ../x
expect_refusal 2 '--resume takes never, auto, if-present, a step or a tag: '
train no --steps 2 --resume auto --resume-without dta
expect_refusal 2 "--resume-without: 'dta' is not one of data and optimizer"
train no --steps 2 --resume-without data
expect_refusal 2 'add --resume'
train no --steps 2 --partial
expect_refusal 2 '--init-from'
train no --steps 2 --resume auto --init-from "$work/base"
expect_refusal 2 'give one of them'
train no --steps 2 --save-every -1
expect_refusal 2 '--save-every'
train no --steps 2 --on-save-error perhaps
expect_refusal 2 "'perhaps' is not one of continue|stop"
[ ! -e "$work/no" ] || fail "something was made"

# Two processes in one directory: the second is refused, with the number of the first.
set_run busy --steps 1000000 --save-every 1000000
"$CERO_COMMAND" "${run[@]}" >"$work/first.out" 2>"$work/first.err" </dev/null &
first=$!
trap 'kill -9 $first 2>/dev/null || true; rm -rf "$work"' EXIT
for ((i = 0; i < 3000; i++)); do
    [ -s "$work/busy/metrics.jsonl" ] && break
    sleep 0.02
done
for resume in never auto if-present; do
    train busy --steps 4 --resume $resume
    expect_refusal 73 "$first"
done
kill -TERM $first
code=0
wait $first || code=$?
last="the first run"
expect_code 75
train_well busy --steps 1 --resume auto
expect_err 'the run is finished'
