#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `cero bench` measures what it is asked for, and nothing when one of the names is wrong.
source "$CERO_SOURCE/tests/cli/lib.sh"

cero bench gemm --m 64 --n 48 --k 32 --seconds 0.01 --dtype f32
expect_code 0
expect_no_err
expect_out 'f32 64 x 48 x 32'
cero bench --json memory adamw attention --n 100000 --seconds 0.001
expect_code 0
expect_json
expect_out '"bench": "memory"'
python3 - "$work/out" <<'PY'
import json, sys
rates = [v for line in open(sys.argv[1]) for k, v in json.loads(line).items() if k.endswith("second")]
assert len(rates) == 6 and all(r > 0 for r in rates), rates
PY
cero bench memory gem
expect_error 2 "there is no bench 'gem'; did you mean gemm"
cero bench gemm --m 4
expect_error 2 '--m, --n and --k go together'
CERO_ISA=neon cero info
expect_error 2 'CERO_ISA=neon'
