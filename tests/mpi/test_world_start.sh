#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A process joins the world it was started in and refuses one that is not what its launcher said; a rank that is
# killed, stopped or out of step ends the job: no process stays, the code is not 0, and a message names the rank.
set -euo pipefail

steps="$CERO_BUILD/tests/mpi_test_steps"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "$case: $1"
    echo "code $code, output:"
    head -c 6000 out
    exit 1
}
expect() { grep -qE -- "$1" out || fail "the output lacks '$1'"; }
expect_code() { [ "$code" -eq "$1" ] || fail "expected code $1"; }
expect_failure() { [ "$code" -ne 0 ] || fail "expected a code that is not 0"; }

# In an environment without any launcher but for the variables given: "plain A=1 B=2 -- arguments".
plain() {
    local variables=()
    while [ "$1" != -- ]; do variables+=("$1"); shift; done
    shift
    code=0
    env -i PATH="$PATH" HOME="$HOME" ${LD_LIBRARY_PATH:+LD_LIBRARY_PATH="$LD_LIBRARY_PATH"} \
        ${LSAN_OPTIONS:+LSAN_OPTIONS="$LSAN_OPTIONS"} \
        OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "${variables[@]}" \
        timeout -k 5 60 "$steps" "$@" >out 2>&1 || code=$?
}

case="plain start"
plain -- steps=3
expect_code 0
expect '^rank 0 of 1, self'

case="a batch script of Slurm, not started by srun"
plain SLURM_JOB_ID=7 SLURM_NTASKS=4 SLURM_PROCID=0 SLURM_NPROCS=4 -- steps=3
expect_code 0
expect '^rank 0 of 1, self'

case="a shell that is a step of one task"
plain SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1 SLURM_NTASKS=4 -- steps=3
expect_code 0
expect '^rank 0 of 1, self'

if [ "$CERO_TEST_MPI" = none ]; then
    case="several ranks without MPI"
    plain OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 -- steps=3
    expect_failure
    expect 'one of 2 ranks \(OMPI_COMM_WORLD_SIZE=2\), and this build has no MPI'
    echo "skipped: the rest needs MPI"
    exit 77
fi

case="a launcher of another MPI"
variable=PMI_SIZE
[ "$CERO_TEST_MPI" = mpich ] && variable=OMPI_COMM_WORLD_SIZE
plain $variable=2 -- steps=3 out=never_written
expect_failure
expect "one of 2 ranks \\($variable=2\\), and MPI \\(.*\\) sees 1: 2 jobs would write the same files"
expect 'srun --mpi=pmix'
[ ! -e never_written ] || fail "output was touched"

case="the variables of this launcher, without it"
plain OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 -- steps=3 out=never_written
expect_failure
[ ! -e never_written ] || fail "output was touched"

if [ -z "$CERO_MPIEXEC" ]; then
    echo "skipped: there is no mpiexec"
    exit 77
fi

# Ranks by the launcher, in its own session; the output is in out, the ranks' process numbers in pids/.
start() { # <ranks> <arguments…>
    rm -rf pids
    mkdir pids
    # shellcheck disable=SC2086
    timeout -k 5 120 "$CERO_MPIEXEC" $CERO_MPIEXEC_FLAGS -n "$1" "$steps" "${@:2}" pids="$work/pids" \
        >out 2>&1 </dev/null &
    launcher=$!
}
await_steps() { # <ranks>
    for _ in $(seq 600); do
        [ "$(find pids -type f ! -name '*.part' | wc -l)" -eq "$1" ] && return
        sleep 0.1
    done
    code=-1
    fail "the ranks did not start"
}
await_end() {
    code=0
    wait "$launcher" || code=$?
}
# A process that ended and was not yet waited for is gone, too.
is_gone() { ! [ -e "/proc/$1" ] || grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null; }
expect_nobody() {
    local file pid
    for file in pids/*; do
        pid=$(cat "$file")
        for _ in $(seq 200); do
            is_gone "$pid" && continue 2
            sleep 0.1
        done
        fail "process $pid is still there"
    done
}

case="one rank under the launcher"
start 1 steps=3
await_end
expect_code 0
expect '^rank 0 of 1, self'

case="three ranks"
start 3 steps=20
await_end
expect_code 0
expect '^rank 0 of 3, mpi, shared memory yes'
expect '^rank 2 of 3, mpi, shared memory yes'

case="one rank fails"
start 3 steps=100000 fail=1
await_end
expect_failure
expect 'rank 1: error: /data/tokens.bin: input error'
expect_nobody

case="one rank alone does something else"
start 2 steps=100000 alone=0
await_end
expect_failure
expect 'ranks make different calls: rank 0 barrier of 0 bytes .*, rank 1 all_reduce of 8 bytes'
expect_nobody

case="a rank is killed"
start 3 steps=1000000
await_steps 3
kill -9 "$(cat pids/1)"
await_end
expect_failure
expect_nobody

case="a rank is stopped"
start 2 steps=1000000 timeout=1
await_steps 2
kill -STOP "$(cat pids/1)"
await_end
expect_failure
expect 'rank 0: error: no sign of life from rank 1 for 1 s while waiting in all_reduce'
expect 'rank 1, recent operations:'
expect_nobody

case="all ranks are stopped for longer than the timeout, and go on"
start 2 steps=1000000 timeout=1
await_steps 2
# shellcheck disable=SC2046
kill -STOP $(cat pids/0 pids/1)
sleep 2
# shellcheck disable=SC2046
kill -CONT $(cat pids/0 pids/1)
sleep 1
code=0
kill -0 "$launcher" 2>/dev/null || fail "the job ended"
grep -q 'no sign of life' out && fail "a rank that was stopped itself accused another"
kill -9 "$(cat pids/1)"
await_end
expect_nobody

# Where MPI itself can do without, ranks exchange messages instead of ending in a bus error at the first touch.
case="little room in /dev/shm"
if unshare -m true 2>/dev/null; then
    for size in 16k 1m; do
        code=0
        # shellcheck disable=SC2086,SC2016
        unshare -m sh -c 'mount -t tmpfs -o size="$0" tmpfs /dev/shm && exec "$@"' $size \
            timeout -k 5 120 "$CERO_MPIEXEC" $CERO_MPIEXEC_FLAGS -n 2 "$steps" steps=20 >out 2>&1 || code=$?
        [ "$code" -lt 128 ] || fail "died of a signal"
        if [ "$CERO_TEST_MPI" = openmpi ]; then
            expect_code 0
            [ $size = 1m ] || expect 'shared memory takes [0-9]+ bytes, and [0-9]+ are free in /dev/shm'
            [ $size = 1m ] || expect '^rank 1 of 2, mpi, shared memory no'
        fi
    done
else
    echo "no mount name spaces here: little room in /dev/shm was not tried"
fi
