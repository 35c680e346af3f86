#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The examples run with the shared library alone, and the model of the first one learns.
set -euo pipefail
if [ ! -x "$CERO_BUILD/examples/first_model" ]; then
    echo "skipped: built without examples"
    exit 77
fi
out=$("$CERO_BUILD/examples/first_model")
echo "$out"
last=$(sed -n 's/^step 60 loss //p' <<<"$out")
awk -v loss="$last" 'BEGIN { exit !(loss != "" && loss < 0.1) }'
