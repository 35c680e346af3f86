#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `cero inspect metrics.jsonl` tells first, last and least value of a run, draws them, and names file, line
# and column of what is wrong.
source "$CERO_SOURCE/tests/cli/lib.sh"
m=$work/metrics.jsonl

for i in 1 2 3 4 5; do
    echo "{\"step\": $i, \"loss\": $((10 - i)).5, \"lr\": 0.1, \"note\": \"x\"}" >>"$m"
done
cero inspect "$m"
expect_code 0
expect_no_err
expect_out 'metrics of 5 steps'
expect_out 'loss: first 9.5, last 5.5 at step 5, least 5.5 at step 5'
expect_out '⠒'
LC_ALL=C cero inspect "$m"
expect_out '*'
cero inspect --json "$m" "$m"
expect_code 0
expect_json
[ "$(wc -l <"$work/out")" -eq 2 ] || fail "one object for each file"
expect_out '"first": 9.5, "last": 5.5, "last_step": 5'
cero inspect --key lr "$m"
expect_out 'lr: first 0.1, last 0.1'

cero inspect "$m" --svg "$work/loss.svg"
expect_code 0
python3 -c 'import sys, xml.dom.minidom as x; x.parse(sys.argv[1])' "$work/loss.svg"
cero inspect "$m" --svg "$work/no/such/folder/loss.svg"
expect_code 73
expect_err 'no/such/folder'

# A resumed run repeats steps, and a killed one leaves half a line.
printf '{"step": 4, "loss": 1.5}\n{"step": 5, "loss": null}\n{"step": 6, "lo' >>"$m"
cero inspect "$m"
expect_code 0
expect_out 'metrics of 4 steps'
expect_out 'last 1.5 at step 4'
expect_out '1 steps have no finite loss'
expect_out 'the last line is cut short'

cero inspect "$work/absent.jsonl"
expect_error 66 'absent.jsonl: there is no such file'
cero inspect --key lsos "$m"
expect_error 65 'did you mean "loss"?'
cero inspect --key note "$m"
expect_error 65 '"note" is a string, not a number'
echo '{"step": 1, "loss": 2}' >"$m"
echo '{"step": 2, "loss": }' >>"$m"
cero inspect "$m"
expect_error 65 'metrics.jsonl, line 2:1:21'
echo '[1]' >"$m"
cero inspect "$m"
expect_error 65 'expected an object with the metrics of a step'
echo '{"loss": 1}' >"$m"
cero inspect "$m"
expect_error 65 '"step" is not a number'
: >"$m"
cero inspect "$m"
expect_error 65 'no line has a finite "loss"'
cero inspect "$CERO_SOURCE/LICENSE"
expect_error 65 'LICENSE'
mkdir "$work/dir.jsonl"
cero inspect "$work/dir.jsonl"
[ "$code" -ne 0 ] || fail "a directory is no metrics.jsonl"
