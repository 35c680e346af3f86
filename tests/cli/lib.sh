# SPDX-License-Identifier: Apache-2.0
# Words for the tests of the command: run it, look at its exit code, stdout and stderr.
# shellcheck shell=bash
set -euo pipefail

export LC_ALL=C.UTF-8
unset NO_COLOR CERO_LOG CERO_ISA
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# cero ARGUMENT…: leaves $work/out, $work/err and $code.
cero() {
    code=0
    "$CERO_COMMAND" "$@" >"$work/out" 2>"$work/err" </dev/null || code=$?
    last="cero $*"
}

fail() {
    echo "$last: $1"
    echo "exit code $code, stdout:"
    head -c 2000 "$work/out"
    echo "stderr:"
    head -c 2000 "$work/err"
    exit 1
}

expect_code() { [ "$code" -eq "$1" ] || fail "expected exit code $1"; }
expect_out() { grep -qF -- "$1" "$work/out" || fail "stdout lacks '$1'"; }
expect_err() { grep -qF -- "$1" "$work/err" || fail "stderr lacks '$1'"; }
expect_no_err() { [ ! -s "$work/err" ] || fail "expected nothing on stderr"; }
expect_no_out() { [ ! -s "$work/out" ] || fail "expected nothing on stdout"; }

# An error is one line "cero …: error: …" on stderr, nothing on stdout, and this exit code.
expect_error() { # <code> <text>
    expect_code "$1"
    expect_err "$2"
    expect_no_out
    [ "$(wc -l <"$work/err")" -eq 1 ] || fail "expected one line on stderr"
    grep -qE '^cero( [a-z]+)*: error: ' "$work/err" || fail "the error has no 'cero …: error:'"
}

expect_json() {
    python3 -c 'import json, sys; [json.loads(line) for line in open(sys.argv[1])]' "$work/out" ||
        fail "stdout is not JSON"
}

need_shared() { # <path below ../shared>
    if [ ! -e "$CERO_SHARED/$1" ]; then
        echo "skipped: $CERO_SHARED/$1 is not there"
        exit 77
    fi
}
