#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What `cero launch` promises holds with the real mpirun of Open MPI and the real mpiexec of MPICH: ranks,
# words, values and exit codes arrive as they are, signals reach the ranks, and nothing stays behind.
# Other hosts are this one behind an agent that starts commands with an empty environment.
source "$(dirname "$0")/lib.sh"
# A test that fails leaves no job behind.
launcher=
trap 'rm -rf "$work"; [ -z "$launcher" ] || kill -TERM "$launcher" 2>/dev/null || true' EXIT

unset "${!OMP_@}" "${!OMPI_@}" "${!PMI@}" "${!SLURM_@}"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
kinds=()
for kind in openmpi mpich; do
    cero launch --launcher "$kind" -- true
    if [ "$code" -eq 0 ]; then
        kinds+=("$kind")
    else
        expect_err 'PATH has nothing of the kind'
        echo "skipped: no launcher of the kind $kind is installed"
    fi
done
[ "${#kinds[@]}" -gt 0 ] || exit 77

cat >"$work/start" <<'S'
#!/bin/sh
# agent [-option…] HOST COMMAND…; a host has a folder for temporary files of its own
while [ "${1#-}" != "$1" ]; do shift; done
echo "$1" >>"$AGENT_LOG"
mkdir -p "${AGENT_LOG%.log}/$1"
tmp=${AGENT_LOG%.log}/$1
shift
exec env -i PATH="$PATH" HOME="$HOME" TMPDIR="$tmp" AGENT_LOG="$AGENT_LOG" /bin/sh -c "$*"
S
chmod +x "$work/start"
export AGENT_LOG=$work/agent.log
printf 'fakeA slots=2\nfakeB slots=1\n' >"$work/hosts"

# A rank writes what it has got, each into its own file, one item a line of `od`.
cat >"$work/rank" <<'S'
#!/bin/sh
rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
out=$1/$rank
shift
{
    for word; do printf '%s' "$word" | od -An -c; echo; done
    for name in CERO_A CERO_B CERO_C CERO_D CERO_E EXPORTED; do
        eval "value=\$$name"
        printf '%s' "$value" | od -An -c
        echo
    done
    echo "threads $OMP_NUM_THREADS"
} >"$out.part"
mv "$out.part" "$out"
S
chmod +x "$work/rank"
export CERO_A='2(x2)' CERO_B='{"a": "b c", "d": [1, 2]}' CERO_C=$'line 1\nline 2\n\n x' \
    CERO_D="it's \"q\"; x \$HOME \`id\` \\ back, = \$(x)" CERO_E=$'\x01\xff\xfe\ttab ' EXPORTED=$'-x\n; # '
words=('' 'a b' $'x\ny' "q'\"" "\$HOME \`id\`" '*' "\\" $'\xff\x01' '--' '-n' '5')
mkdir "$work/plain"
PMI_RANK=0 OMP_NUM_THREADS=1 "$work/rank" "$work/plain" "${words[@]}"

alive() { # <pid>: true while it runs; a zombie does not
    [ -e "/proc/$1/stat" ] && [ "$(sed 's/.*) \(.\).*/\1/' "/proc/$1/stat" 2>/dev/null)" != Z ]
}
await_files() { # <file…>
    for ((i = 0; i < 3000; i++)); do
        local all=1
        for file; do [ -s "$file" ] || all=0; done
        [ "$all" -eq 0 ] || return 0
        sleep 0.02
    done
    fail "not all of $* appeared"
}
expect_gone() { # <file with pid…>
    for file; do
        for ((i = 0; i < 1000; i++)); do
            alive "$(cat "$file")" || continue 2
            sleep 0.02
        done
        fail "process $(cat "$file") of $file is still there"
    done
}
begin() { # <program…>: two ranks in the background, which write $work/pid.RANK
    rm -f "$work"/pid.* "$work"/got.*
    last="cero launch $*"
    env --default-signal=INT "$CERO_COMMAND" launch --launcher "$kind" -n 2 --oversubscribe "$@" \
        >"$work/out" 2>"$work/err" </dev/null &
    launcher=$!
    await_files "$work/pid.0" "$work/pid.1"
}
finish() {
    code=0
    wait "$launcher" || code=$?
    launcher=
}
# shellcheck disable=SC2016
waiting='rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
    trap "echo USR1 >\"$0/got.$rank\"; exit 75" USR1
    echo $$ >"$0/pid.$rank"; while :; do sleep 0.05; done'

# A model and a config for `train`.
cat >"$work/config.json" <<'J'
{"model_type": "gpt2", "vocab_size": 256, "n_positions": 32, "n_embd": 64, "n_layer": 2, "n_head": 4,
 "bos_token_id": 0, "eos_token_id": 0}
J
cat >"$work/ds.json" <<'J'
{"train_batch_size": 2, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}}
J
# shellcheck disable=SC2059
for ((i = 0; i < 225; i++)); do printf "\\x$(printf %02x "$i")\\0"; done >"$work/tokens.u16"

for kind in "${kinds[@]}"; do
    # Three ranks on two hosts: in order, with everything byte for byte.
    mkdir "$work/$kind"
    : >"$AGENT_LOG"
    cero launch --launcher "$kind" --hostfile "$work/hosts" --remote-agent "$work/start" --cores 2 \
        --export EXPORTED -- "$work/rank" "$work/$kind" "${words[@]}"
    expect_code 0
    for rank in 0 1 2; do
        cmp "$work/plain/0" "$work/$kind/$rank" || fail "rank $rank got something else"
    done
    [ ! -e "$work/$kind/3" ] || fail "a rank too many"
    [ "$(sort "$AGENT_LOG" | uniq)" = "$(printf 'fakeA\nfakeB')" ] || fail "other hosts"

    # Locally: threads, and no two ranks on one core where there are enough.
    # shellcheck disable=SC2016
    cero launch --launcher "$kind" -n 1 -- sh -c 'echo "threads $OMP_NUM_THREADS"; nproc'
    expect_code 0
    expect_out "threads "
    if [ "$(nproc)" -ge 2 ] && [ "$(nproc)" -eq "$(nproc --all)" ] && command -v taskset >/dev/null; then
        # shellcheck disable=SC2016
        cero launch --launcher "$kind" -n 2 -- sh -c 'taskset -cp $$ | sed "s/.*: //"'
        expect_code 0
        if [ "$(sort -u "$work/out" | wc -l)" -ne 2 ]; then
            fail "two ranks share cores"
        fi
        # An allowed set is kept.
        code=0
        taskset -c 1 "$CERO_COMMAND" launch --launcher "$kind" -n 1 -- \
            sh -c 'taskset -cp $$ | sed "s/.*: //"' >"$work/out" 2>"$work/err" || code=$?
        expect_code 0
        [ "$(cat "$work/out")" = 1 ] || fail "left the allowed set"
    fi

    # Codes of a rank that failed, and of one that a signal killed.
    for wanted in 1 2 65 66 75 78; do
        cero launch --launcher "$kind" -n 2 --oversubscribe -- \
            sh -c "[ \${OMPI_COMM_WORLD_RANK:-\$PMI_RANK} = 0 ] || exit $wanted"
        expect_code "$wanted"
    done
    # hydra ends the other ranks by signals and may report those, so that it gets one rank.
    ranks=$([ "$kind" = mpich ] && echo 1 || echo 2)
    for signal in 6 9 11 15; do
        cero launch --launcher "$kind" -n "$ranks" --oversubscribe -- \
            sh -c "[ \${OMPI_COMM_WORLD_RANK:-\$PMI_RANK} != $((ranks - 1)) ] || kill -$signal \$\$"
        expect_code $((128 + signal))
    done

    # The gentle request reaches every rank; the hard one ends them; a killed launcher leaves none.
    begin --stop-signal usr1 --grace 600 -- sh -c "$waiting" "$work"
    kill -TERM "$launcher"
    finish
    expect_code 75
    await_files "$work/got.0" "$work/got.1"
    expect_gone "$work/pid.0" "$work/pid.1"
    begin --grace 600 -- sh -c "$waiting" "$work"
    kill -TERM "$launcher"
    finish
    expect_code 143
    expect_gone "$work/pid.0" "$work/pid.1"
    begin -- sh -c "$waiting" "$work"
    kill -KILL "$launcher"
    finish
    expect_code 137
    expect_gone "$work/pid.0" "$work/pid.1"
    # mpirun itself is killed: its ranks are ours to end.
    begin -- sh -c "$waiting" "$work"
    # `env` has become cero: its only child is the launcher.
    child=$(tr -d ' ' <"/proc/$launcher/task/$launcher/children")
    kill -KILL "$child"
    finish
    expect_code 137
    expect_gone "$work/pid.0" "$work/pid.1"

    # `train` ends after its step, with a checkpoint, and the launcher agrees about the code.
    last="cero launch -- train"
    "$CERO_COMMAND" launch --launcher "$kind" -n 1 --grace 600 -- train --config "$work/ds.json" \
        --model "$work/config.json" --data "$work/tokens.u16" --out "$work/run-$kind" --steps 1000000 \
        >"$work/out" 2>"$work/err" </dev/null &
    launcher=$!
    await_files "$work/run-$kind/metrics.jsonl"
    kill -TERM "$launcher"
    finish
    expect_code 75
    expect_err 'stopped by SIGUSR1'
    [ -e "$work/run-$kind/checkpoints/latest" ] || fail "no checkpoint was left"

    # A config error comes through and is not tried again.
    cero launch --launcher "$kind" -n 1 --max-restarts 3 -- train --config "$work/config.json" \
        --model "$work/config.json" --data "$work/tokens.u16" --out "$work/refused"
    expect_code 78
    [ "$(grep -c 'cero train: error' "$work/err")" -eq 1 ] || fail "started again after 78"
done
