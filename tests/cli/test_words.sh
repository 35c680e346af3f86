#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Help goes to stdout with exit code 0, mistakes on the command line to stderr with exit code 2 and the
# nearest right word, and colours appear where they are asked for and nowhere else.
source "$CERO_SOURCE/tests/cli/lib.sh"

version=$(sed -n 's/^#define CERO_VERSION_STRING *"\(.*\)"/\1/p' "$CERO_SOURCE/include/cero/base.h")
cero --version
expect_code 0
expect_no_err
[ "$(head -n 1 "$work/out")" = "cero $version" ] || fail "first line of the version"
expect_out 'features:'

for words in --help -h help; do
    cero "$words"
    expect_code 0
    expect_no_err
    expect_out 'usage: cero COMMAND'
done

# Every command that the overview lists has help of its own.
commands=$(sed -n '/Commands:/,/Options/s/^  \([a-z]\+\( [a-z]\+\)\?\)  .*/\1/p' "$work/out")
[ "$(wc -l <<<"$commands")" -ge 2 ] || fail "the overview lists commands"
while IFS= read -r command; do
    # A command's name may be two words.
    # shellcheck disable=SC2086
    cero $command --help
    expect_code 0
    expect_no_err
    expect_out "usage: cero $command"
    expect_out '-h, --help'
    # shellcheck disable=SC2086
    cero $command --no-such-option
    expect_error 2 "cero $command: error: unknown option --no-such-option"
done <<<"$commands"

cero
expect_error 2 'a command is missing'
cero inpsect
expect_error 2 "inpsect is not a command; did you mean 'inspect'?"
cero no-such-thing-at-all
expect_error 2 'no-such-thing-at-all is not a command; cero --help lists them'
cero --verison
expect_error 2 'unknown option --verison'
cero info --jsno
expect_error 2 'unknown option --jsno; did you mean --json?'
cero info --json=yes
expect_error 2 "--json takes no value, found 'yes'"
cero info stray
expect_error 2 "unexpected word 'stray'"
cero inspect
expect_error 2 'FILE|DIR… is missing'
cero inspect --svg
expect_error 2 '--svg needs a value: --svg FILE'
cero --color sometimes info
expect_error 2 "'sometimes' is not one of auto|always|never"

cero --color always nothing
grep -q $'\033\\[1;31merror:' "$work/err" || fail "no colour though it was asked for"
cero nothing
! grep -q $'\033' "$work/err" || fail "colour in a file"
cero -v info nothing
[ "$(wc -l <"$work/err")" -gt 1 ] || fail "-v shows no trace"

# A full disk behind stdout is an error, said once.
last="cero info >/dev/full"
code=0
"$CERO_COMMAND" info >/dev/full 2>"$work/err" || code=$?
: >"$work/out"
expect_error 74 'writing to standard output: No space left on device'
code=0
"$CERO_COMMAND" --version >/dev/full 2>"$work/err" || code=$?
expect_error 74 'writing to standard output'
