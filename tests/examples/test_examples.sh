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

# The trainer without cero: it learns, repeats itself to the bit, and leaves every parameter.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
plain=$CERO_BUILD/examples/plain_trainer
if ldd "$plain" | grep libcero; then
    echo "plain_trainer is linked with cero" >&2
    exit 1
fi
out=$("$plain" "$CERO_SOURCE/README.md" 150 weights.bin)
echo "$out"
first=$(sed -n 's/^step 1 loss \([^ ]*\) lr .*/\1/p' <<<"$out")
last=$(sed -n 's/^step 150 loss \([^ ]*\) lr .*/\1/p' <<<"$out")
awk -v first="$first" -v last="$last" \
    'BEGIN { exit !(first != "" && last != "" && first > 5.3 && first < 5.8 && last < 3) }'
[ "$(grep -c '^step [0-9]* loss [0-9.]* lr [0-9.]*$' <<<"$out")" -eq 16 ]
[ "$(stat -c %s weights.bin)" -eq $((4 * (256 * 21 + 337 * 77 + 78 * 77 + 78 * 256))) ]
again=$("$plain" "$CERO_SOURCE/README.md" 5 first.bin)
[ "$("$plain" "$CERO_SOURCE/README.md" 5 second.bin)" = "$again" ]
cmp first.bin second.bin

# Its own source is there when no text is given, and without a name for them no weights are written.
rm ./*.bin
out=$("$plain")
[ -z "$(ls)" ]
last=$(sed -n 's/^step 200 loss \([^ ]*\) lr .*/\1/p' <<<"$out")
awk -v loss="$last" 'BEGIN { exit !(loss != "" && loss < 2.5) }'

# Its gradients are right, and its check finds a backward that is not.
"$plain" --check "$CERO_SOURCE/README.md"
for wrong in 's/1\.0F - s->h1\[j\] \* s->h1\[j\]/1.0F/' 's|/ (float)count;|/ 1.0F;|' \
    's/b->grad\[j\] += dy\[j\]/b->grad[j] = dy[j]/' 's|+ k % WIDTH\]|+ k / WIDTH]|'; do
    sed "$wrong" "$CERO_SOURCE/examples/plain_trainer.c" >wrong.c
    if cmp -s wrong.c "$CERO_SOURCE/examples/plain_trainer.c"; then
        echo "plain_trainer.c has no place for $wrong" >&2
        exit 1
    fi
    "${CC:-cc}" -std=c11 -O2 -o wrong wrong.c -lm
    if ./wrong --check "$CERO_SOURCE/README.md" >wrong.out 2>&1 || ! grep 'the gradient of' wrong.out; then
        echo "plain_trainer --check takes a gradient broken by $wrong" >&2
        exit 1
    fi
done

# What cannot be trained on, or written, is said.
refused() { # <message> <argument…>
    local message=$1
    shift
    if "$plain" "$@" >/dev/null 2>refused.txt || ! grep -q -- "^trainer: .*$message" refused.txt; then
        echo "plain_trainer $*: expected a failure that says '$message'" >&2
        cat refused.txt >&2
        exit 1
    fi
}
head -c 16 "$CERO_SOURCE/README.md" >short.txt
refused 'cannot open /nowhere: No such file' /nowhere
refused 'cannot read .*: Is a directory' .
refused 'short.txt is too short: it has 16 bytes, and at least 17 are needed' short.txt
refused 'usage' short.txt 0
refused 'usage' short.txt 10x
refused 'usage' short.txt 10 weights.bin more
refused 'usage' --check short.txt 10
head -c 17 "$CERO_SOURCE/README.md" >short.txt
"$plain" short.txt 1 >/dev/null
mkdir weights.bin
refused 'cannot write weights.bin: Is a directory' short.txt 1 weights.bin
