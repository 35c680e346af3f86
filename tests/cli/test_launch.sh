#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `cero launch` says what it will do, refuses what it cannot do with one line and the right exit code, and
# watches the launcher it starts. No MPI is needed: mpirun, mpiexec and srun are scripts here.
source "$(dirname "$0")/lib.sh"
# A test that fails leaves no job behind.
launcher=
trap 'rm -rf "$work"; [ -z "$launcher" ] || kill -TERM "$launcher" 2>/dev/null || true' EXIT

mkdir "$work/bin" "$work/empty"
cat >"$work/bin/mpirun" <<'S'
#!/bin/sh
# Says its version, notes its words, then does what $FAKE_RUN says.
if [ "$1" = --version ]; then
    echo "${FAKE_VERSION-mpirun (Open MPI) 4.1.4}"
    exit
fi
for word; do printf '[%s]\n' "$word"; done >"$FAKE_DIR/words"
printf x >>"$FAKE_DIR/runs"
exec sh -c "${FAKE_RUN:-exit 0}" fake "$@"
S
chmod +x "$work/bin/mpirun"
printf '# two nodes\r\n\r\nnode1 slots=4  \r\nnode2:2\r\n' >"$work/hosts"

# Only what is given here reaches the launcher.
path="$work/bin:/usr/bin:/bin"
launch() { # [NAME=VALUE…] -- <word…>
    local environment=()
    while [ "$1" != -- ]; do
        environment+=("$1")
        shift
    done
    shift
    code=0
    rm -f "$work/runs" "$work/words"
    env -i PATH="$path" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 LC_ALL=C.UTF-8 \
        FAKE_DIR="$work" "${environment[@]}" "$CERO_COMMAND" launch "$@" \
        >"$work/out" 2>"$work/err" </dev/null || code=$?
    last="cero launch $*"
}
expect_output() { # stdin: all of stdout
    cat >"$work/expected"
    diff "$work/expected" "$work/out" || fail "other output than expected"
}
runs() { wc -c <"$work/runs"; }

# The dry run is a script, a word a line.
launch CERO_X=1 OMP_PLACES=cores SECRET=s -- --hostfile "$work/hosts" --cores 8 --export SECRET \
    --launcher-args="--mca btl 'self,tcp'" --remote-agent /opt/agent --dry-run -- ./a 'b c' "it's"
expect_code 0
expect_no_err
expect_output <<'T'
# launcher openmpi: mpirun (Open MPI) 4.1.4
# host node1: 4 rank(s) of 2 thread(s), bound to cores, 4 slot(s)
# host node2: 2 rank(s) of 2 thread(s), bound to cores, 2 slot(s)
OMP_NUM_THREADS=2 \
mpirun \
  --host \
  node1:4,node2:2 \
  -n \
  6 \
  --map-by \
  slot:PE=2 \
  --bind-to \
  core \
  --mca \
  plm_rsh_agent \
  /opt/agent \
  -x \
  CERO_X \
  -x \
  OMP_NUM_THREADS \
  -x \
  OMP_PLACES \
  -x \
  SECRET \
  --mca \
  btl \
  self,tcp \
  ./a \
  'b c' \
  'it'\''s'
T

launch -- --hostfile "$work/hosts" --include node1:0,1@node2:1 --bind none --cores 2 -n 3 \
    --launcher mpich --dry-run -- ./a
expect_code 0
expect_out '# host node1: 2 rank(s) of 1 thread(s), not bound, 2 slot(s)'
tail -n +4 "$work/out" | tr -d '\\\n' >"$work/line"
grep -qE '^OMP_NUM_THREADS=1 mpiexec\.hydra   -hosts   node1:2,node2:1   -n   3   -bind-to   none   -genvall   \./a$' \
    "$work/line" || fail "MPICH's words"

# In an allocation srun is the launcher when it is there, and the hosts are Slurm's.
slurm=(SLURM_JOB_ID=7 'SLURM_JOB_NODELIST=n[01-02]' SLURM_NTASKS=4 'SLURM_TASKS_PER_NODE=2(x2)'
    'SLURM_JOB_CPUS_PER_NODE=8(x2)')
cp "$work/bin/mpirun" "$work/bin/srun"
launch "${slurm[@]}" -- --dry-run -- ./a
expect_code 0
expect_no_err
expect_output <<'T'
# launcher slurm
# host n01: 2 rank(s) of 4 thread(s), bound to cores, 2 slot(s)
# host n02: 2 rank(s) of 4 thread(s), bound to cores, 2 slot(s)
OMP_NUM_THREADS=4 \
srun \
  --mpi=pmix \
  --nodes=2 \
  --nodelist=n01,n02 \
  --ntasks=4 \
  --ntasks-per-node=2 \
  --distribution=block \
  --cpus-per-task=4 \
  --cpu-bind=cores \
  --kill-on-bad-exit=1 \
  --export=ALL \
  ./a
T
launch "${slurm[@]}" -- --hostfile "$work/hosts" --cores 4 --dry-run -- ./a
expect_out '# launcher openmpi'
rm "$work/bin/srun"
launch "${slurm[@]}" -- --dry-run -- ./a
expect_out '# launcher openmpi'
expect_out '  n01:2,n02:2'
launch -- --launcher slurm -- ./a
expect_error 2 '--launcher slurm needs an allocation (sbatch, salloc) or --hostfile'
launch SLURM_JOB_ID=7 -- -- ./a
expect_error 2 'SLURM_JOB_NODELIST is not'

# What mpirun says decides; nothing that is known is an error.
launch FAKE_VERSION='HYDRA build details:
    Version:                  4.0.2' -- --dry-run -- sh
expect_out '# launcher mpich: hydra 4.0.2'
expect_out 'mpirun \'
path="$work/bin"
launch FAKE_VERSION='Intel(R) MPI Library' -- -- /bin/sh
expect_error 1 "mpirun says 'Intel(R) MPI Library'; Open MPI, MPICH's hydra and Slurm are what"
path="$work/empty"
launch -- -- /bin/sh
expect_error 1 'no launcher is in PATH: looked for mpirun, mpiexec.hydra, mpiexec; install'
launch -- --launcher mpich -- /bin/sh
expect_error 1 '--launcher mpich: PATH has nothing of the kind (looked for mpiexec.hydra, '
path="$work/bin:/usr/bin:/bin"

# Hosts: absent, wrong, too few; filters.
launch -- --hostfile "$work/absent" -- sh
expect_error 66 "$work/absent"
printf 'node1 slots=2\nnode2 lots=8\n' >"$work/bad"
launch -- --hostfile "$work/bad" -- sh
expect_error 65 "$work/bad:2: 'node2 lots=8' is no line of a hostfile"
expect_err "expected 'HOST slots=N'"
printf 'node1 slots=2\n' >"$work/two"
launch -- --hostfile "$work/two" -n 4 -- sh
expect_error 2 '4 ranks for 2 slot(s) of 1 host(s); --oversubscribe permits more ranks than slots'
launch -- --hostfile "$work/two" --cores 2 -n 4 --oversubscribe --dry-run -- sh
expect_code 0
expect_err 'host node1: 4 rank(s) of 1 thread(s) for 2 core(s)'
expect_out 'mpi_yield_when_idle'
launch -- --hostfile "$work/two" --include node3 -- sh
expect_error 2 "--include: there is no host 'node3'; there is node1"
launch -- --hostfile "$work/two" --include node1 --exclude node1 -- sh
expect_error 2 'exclude each other'
launch -- --hostfile "$work/two" --dry-run -- sh
expect_err 'the cores of node1 are not known here'
launch OMP_NUM_THREADS=4 -- --hostfile "$work/two" --cores 2 --dry-run -- sh
expect_err 'host node1: 2 rank(s) of 4 thread(s) for 2 core(s)'
expect_out '  none \'

# LA-10: one allowed core and more threads.
if command -v taskset >/dev/null; then
    code=0
    env -i PATH="$path" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=4 \
        taskset -c "$(taskset -cp $$ | sed 's/.*: \([0-9]*\).*/\1/')" \
        "$CERO_COMMAND" launch --dry-run -- sh >"$work/out" 2>"$work/err" || code=$?
    expect_code 0
    expect_err '1 rank(s) of 4 thread(s) for 1 core(s)'
fi

# Programs: a command of cero is this cero; others are found before anything starts.
launch -- --dry-run -- tokenizer train --out x
expect_out "  $(realpath "$CERO_COMMAND") \\"
expect_out '  tokenizer \'
launch -- -- "$work/no-such-program"
expect_error 66 "there is no program '$work/no-such-program' that can be started"
launch -- -- no-such-program
expect_error 66 "there is no program 'no-such-program'"
[ ! -e "$work/runs" ] || fail "mpirun ran without a program"
launch -- -- launch -- train
expect_error 2 'cero launch does not start itself'
launch -- -- -x
expect_error 2 "the program '-x'"
launch -- -- sh : x
expect_error 2 "is ':'"
launch -- -n 1
expect_error 2 'PROGRAM is missing'
launch -- --export ABSENT -- sh
expect_error 2 '--export: ABSENT is not set'
launch -- --launcher-args="'x" -- sh
expect_error 2 'a quote stays open'
launch OMPI_COMM_WORLD_RANK=0 -- -- sh
expect_error 2 'OMPI_COMM_WORLD_RANK is set: this is a rank of a job already'
if [ "$(id -u)" -eq 0 ]; then
    launch OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=0 -- -- sh
    expect_error 2 'set OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1'
    launch OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=0 -- --allow-run-as-root --dry-run -- sh
    expect_code 0
fi

# Words arrive byte for byte, by the launcher and by the shell that the dry run is pasted into.
hostile=(sh '' 'a b' $'x\ny' "q'\"" '$HOME' '`id`' '*' '\' $'\xff\x01' '--' '--dry-run' '2(x2)')
launch -- -- "${hostile[@]}"
expect_code 0
cp "$work/words" "$work/started"
launch -- --dry-run -- "${hostile[@]}"
cp "$work/out" "$work/script"
FAKE_DIR=$work PATH=$path sh "$work/script"
cmp "$work/started" "$work/words" || fail "the dry run's script gives other words"
printf '[%s]\n' "${hostile[@]}" >"$work/expected"
tail -n +"$(($(grep -nxF '[sh]' "$work/words" | head -n 1 | cut -d: -f1)))" "$work/words" |
    cmp - "$work/expected" || fail "words changed"

# The thread count is set, unless the user did.
launch -- --cores 6 -n 2 -- sh
launch FAKE_RUN='echo $OMP_NUM_THREADS' -- --cores 6 -n 2 --bind none -- sh
expect_out 3
launch OMP_NUM_THREADS=2 FAKE_RUN='echo $OMP_NUM_THREADS' -- --cores 6 -n 2 --bind none -- sh
expect_out 2

# Exit codes come through; 75 and signals start again, the others never.
for wanted in 0 1 2 65 66 70 73 74 78; do
    launch FAKE_RUN="exit $wanted" -- --max-restarts 3 -- sh
    expect_code "$wanted"
    [ "$(runs)" -eq 1 ] || fail "started again after $wanted"
done
launch FAKE_RUN='exit 75' -- --max-restarts 1 -- sh
expect_code 75
[ "$(runs)" -eq 2 ] || fail "expected two runs"
expect_err 'the job ended with 75'
expect_err 'restart 1 of 1 in 1 s'
expect_err 'the job died 2 times (exit codes 75, 75) and --max-restarts is 1'
launch FAKE_RUN='[ $(wc -c <"$FAKE_DIR/runs") -gt 1 ] || kill -9 $$' -- --max-restarts 5 -- sh
expect_code 0
[ "$(runs)" -eq 2 ] || fail "expected two runs"
launch FAKE_VERSION='HYDRA' FAKE_RUN='exit 11' -- -- sh
expect_code 139

# Signals. A job in the background of a script ignores SIGINT, which `env` takes back.
await() { # <file>
    for ((i = 0; i < 3000; i++)); do
        [ -e "$1" ] && return
        sleep 0.02
    done
    fail "$1 did not appear"
}
begin() { # <what mpirun does> <word…>
    local does=$1
    shift
    last="cero launch $*"
    rm -f "$work/ready" "$work/got"
    env -i --default-signal=INT PATH="$path" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
        FAKE_DIR="$work" FAKE_RUN="$does" "$CERO_COMMAND" launch "$@" \
        >"$work/out" 2>"$work/err" </dev/null &
    launcher=$!
    await "$work/ready"
}
finish() {
    code=0
    wait "$launcher" || code=$?
    launcher=
}
# The traps and $$ are for the script that mpirun becomes.
# shellcheck disable=SC2016
notes='for s in INT TERM USR1 USR2; do trap "echo $s >\"$FAKE_DIR/got\"; exit 75" $s; done
    echo $$ >"$FAKE_DIR/pid"; : >"$FAKE_DIR/ready"; while :; do sleep 0.05; done'
for case in 'INT INT 130' 'TERM TERM 143' 'HUP TERM 129' 'USR1 USR1 75' 'USR2 USR2 75'; do
    read -r sent got wanted <<<"$case"
    begin "$notes" --grace 600 -- sh
    kill -"$sent" "$launcher"
    finish
    expect_code "$wanted"
    [ "$(cat "$work/got")" = "$got" ] || fail "$sent became $(cat "$work/got")"
done
for sent in INT TERM USR1; do
    begin "$notes" --grace 600 --max-restarts 3 -- info
    kill -"$sent" "$launcher"
    finish
    expect_code 75
    [ "$(cat "$work/got")" = USR1 ] || fail "$sent became $(cat "$work/got")"
    expect_err 'the ranks are asked to save and leave within 600 s'
done
begin "$notes" --grace 600 --stop-signal term -- info
kill -TERM "$launcher"
finish
expect_code 143

# The launcher dies with cero launch, also when that is killed.
begin "$notes" -- sh
kill -KILL "$launcher"
finish
await "$work/got"
[ "$(cat "$work/got")" = TERM ] || fail "the launcher was not told"

# What the launcher leaves is ended.
# shellcheck disable=SC2016
launch FAKE_RUN='setsid sleep 1000 & echo $! >"$FAKE_DIR/pid"; kill -9 $$' -- -- sh
expect_code 137
! kill -0 "$(cat "$work/pid")" 2>/dev/null || fail "an orphan stayed"
