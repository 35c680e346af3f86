#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The plain trainer with cero differs in at most twelve new lines, which the documents show; it prints the plain
# one's losses at every stage on several ranks, every layout leaves the same bits, and it resumes on other ranks.
set -euo pipefail
if [ ! -x "$CERO_BUILD/examples/plain_trainer_cero" ]; then
    echo "skipped: built without examples"
    exit 77
fi
cd "$CERO_SOURCE"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Lines of the difference: all are counted, blank ones too.
diff examples/plain_trainer.c examples/plain_trainer_cero.c | sed -n 's/^> //p; s/^>$//p' >"$work/new" || true
count=$(wc -l <"$work/new")
if [ "$count" -gt 12 ] || [ "$count" -lt 1 ]; then
    echo "plain_trainer_cero.c has $count new lines, expected at most 12:"
    cat "$work/new"
    exit 1
fi
shown() { # <document>: the new lines of its first block of a difference
    awk '/^```diff$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' "$1" | sed -n 's/^+//p'
}
shown docs/external.md >"$work/shown"
diff "$work/new" "$work/shown" || { echo "docs/external.md shows another difference"; exit 1; }
shown README.md >"$work/heart"
[ -s "$work/heart" ]
if grep -vxFf "$work/new" "$work/heart"; then
    echo "README.md shows lines that are not new in plain_trainer_cero.c"
    exit 1
fi

cd "$work"
config() { # <stage> <is_bf16> <order>
    sed -e "s/\"stage\": 2/\"stage\": $1, \"stage3_param_persistence_threshold\": 0/" \
        -e "s/\"enabled\": true/\"enabled\": $2/" \
        -e "s/\"train_batch_size\"/\"cero\": {\"gradient_order\": \"$3\"}, &/" \
        "$CERO_SOURCE/examples/configs/plain_trainer.json" >ds_config.json
}
ranks() { # <number> <program and arguments…>
    local np=$1
    shift
    if [ "$np" -eq 1 ]; then
        "$@"
    else
        # Flags are a list of words.
        # shellcheck disable=SC2086
        timeout 300 "$CERO_MPIEXEC" $CERO_MPIEXEC_FLAGS -n "$np" "$@"
    fi
}
numbers=(1)
if [ -n "${CERO_MPIEXEC:-}" ] && [ "${CERO_TEST_MPI:-none}" != none ]; then
    numbers=(1 2 3)
fi
export OMP_NUM_THREADS=1
program=$CERO_BUILD/examples/plain_trainer_cero
text=$CERO_SOURCE/README.md
steps=20
same_losses() { # <file> <file>: the losses that both print, within 1e-5
    paste -d ' ' <(grep '^step ' "$1") <(grep '^step ' "$2") |
        awk '{ d = $4 - $10; if ($2 != $8 || $6 != $12 || d > 1e-5 || d < -1e-5) exit 1 }
             END { if (NR != 3) exit 1 }'
}

"$CERO_BUILD/examples/plain_trainer" "$text" "$steps" plain.bin >plain.txt
for is_bf16 in false true; do
    rm -f first.bin
    for np in "${numbers[@]}"; do
        for stage in 0 1 2; do
            # In bf16 three of the nine layouts.
            if [ "$is_bf16" = true ] && [ "$np" -ne $((stage + 1)) ]; then
                continue
            fi
            rm -rf checkpoints
            config "$stage" "$is_bf16" global
            ranks "$np" "$program" "$text" "$steps" weights.bin >out.txt
            if [ "$is_bf16" = false ] && ! same_losses plain.txt out.txt; then
                echo "stage $stage on $np ranks does not print the plain trainer's losses:"
                paste plain.txt out.txt
                exit 1
            fi
            [ -e first.bin ] || cp weights.bin first.bin
            cmp first.bin weights.bin || { echo "stage $stage on $np ranks leaves other bits"; exit 1; }
        done
    done
done
last=$(sed -n "s/^step $steps loss \([^ ]*\) lr .*/\1/p" out.txt)
awk -v loss="$last" 'BEGIN { exit !(loss != "" && loss < 3.8) }'

# 20 steps in one go are 12 and then 8, on other ranks at another stage.
rm -rf checkpoints
config 0 true global
ranks 1 "$program" "$text" 12 >out.txt
config 2 true global
ranks "${numbers[-1]}" "$program" "$text" "$steps" weights.bin >out.txt
cmp first.bin weights.bin
[ "$(grep -c '^step ' out.txt)" -eq 1 ]
[ "$(cat checkpoints/latest)" = step-00000020 ]

# The default order of sums: the same losses, in other bits perhaps.
rm -rf checkpoints
config 1 false auto
ranks "${numbers[-1]}" "$program" "$text" "$steps" >out.txt
same_losses plain.txt out.txt

# At stage 3 a program says when it needs what; one that does not is told so.
rm -rf checkpoints
config 3 false global
if [ "${#numbers[@]}" -gt 1 ]; then
    if ranks 2 "$program" "$text" "$steps" >out.txt 2>&1; then
        echo "stage 3 trained on weights that were never gathered"
        exit 1
    fi
    grep -q 'unit table is cut at ZeRO stage 3 and was not gathered' out.txt
fi
units='"table" "hidden1" "hidden2" "output"'
each() { # <call>: a line of C that does it to every unit
    local unit
    for unit in $units; do
        printf 'TRY(%s(engine, %s)); ' "$1" "$unit"
    done
}
sed -e "s/^ *double loss = forward(model.*/$(each cero_engine_gather_unit)\n&/" \
    -e "s/^ *backward(model.*MICRO_BATCH);/&\n$(each cero_engine_release_unit)/" \
    "$CERO_SOURCE/examples/plain_trainer_cero.c" >gathers.c
[ "$(grep -c gather_unit gathers.c)" -eq 1 ] && [ "$(grep -c release_unit gathers.c)" -eq 1 ]
if ! grep -q '^CERO_SANITIZE:[A-Z]*=.' "$CERO_BUILD/CMakeCache.txt"; then
    "${CC:-cc}" -std=c11 -O2 -I"$CERO_SOURCE/include" -o gathers gathers.c -L"$CERO_BUILD" -lcero -lm \
        -Wl,-rpath,"$CERO_BUILD"
    for np in "${numbers[@]}"; do
        rm -rf checkpoints
        config 3 false global
        ranks "$np" ./gathers "$text" "$steps" >out.txt
        same_losses plain.txt out.txt
    done
    rm -rf checkpoints
    config 2 false global
    ranks "${numbers[-1]}" ./gathers "$text" "$steps" >out.txt
    same_losses plain.txt out.txt
fi

# Errors are the library's, and end the program.
rm -rf checkpoints
config 2 false global
sed -i 's/gradient_clipping/gradient_cliping/' ds_config.json
if "$program" "$text" 1 >out.txt 2>&1 || ! grep -q '^trainer: .*gradient_clipping' out.txt; then
    echo "a misspelt key was taken"
    cat out.txt
    exit 1
fi
