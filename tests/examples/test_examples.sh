#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The examples run with the shared library alone, and their models learn.
set -euo pipefail
if [ ! -x "$CERO_BUILD/examples/first_model" ]; then
    echo "skipped: built without examples"
    exit 77
fi
out=$("$CERO_BUILD/examples/first_model")
echo "$out"
last=$(sed -n 's/^step 60 loss //p' <<<"$out")
awk -v loss="$last" 'BEGIN { exit !(loss != "" && loss < 0.1) }'

# An operation of the program's own, with gradients, bf16 and activation checkpointing.
out=$("$CERO_BUILD/examples/own_model" "$CERO_SOURCE/examples/own_model.c")
echo "$out"
last=$(sed -n 's/^step 120 loss //p' <<<"$out")
awk -v loss="$last" 'BEGIN { exit !(loss != "" && loss < 2.2) }'
if "$CERO_BUILD/examples/own_model" /nowhere 2>/dev/null; then
    echo "own_model took a file that is not there" >&2
    exit 1
fi
