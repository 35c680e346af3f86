#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the fuzz targets (preset fuzz: clang, libFuzzer, ASan, UBSan) and runs each for some seconds, as many at a
# time as there are cores, at most FUZZ_JOBS (2). Ends with a table; fails when a target crashed, leaked, ran out of
# its time or memory, or stated something that does not hold. What did it stays in build/fuzz/artifacts/TARGET/.
#
# Inputs that reached new code stay in build/fuzz/found/TARGET/ and are where the next run starts. FUZZ_FRESH=1
# starts from the seeds alone, with a fixed random seed: such runs, of one build, differ by their speed only.
#
# usage: tools/fuzz.sh [SECONDS] [TARGET…]
#   SECONDS  of each target, 60 if not given
#   TARGET   a name such as hostfile; all if none is given
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=60
if [[ ${1-} =~ ^[0-9]+$ ]]; then
    seconds=$1
    shift
fi
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
    mapfile -t targets < <(cd tests/fuzz && printf '%s\n' fuzz_*.c | sed 's/^fuzz_\(.*\)\.c$/\1/')
fi
cores=$(nproc)
jobs=${FUZZ_JOBS:-2}
[ "$cores" -ge "$jobs" ] || jobs=$cores
work=$PWD/build/fuzz
fresh=${FUZZ_FRESH:-0}

for target in "${targets[@]}"; do
    if [ ! -e "tests/fuzz/fuzz_$target.c" ]; then
        echo "there is no fuzz target $target: tests/fuzz/fuzz_$target.c is not there" >&2
        exit 2
    fi
done

echo "building the fuzz targets"
cmake --preset fuzz -G Ninja >/dev/null
cmake --build "$work" --parallel "$cores" --target "${targets[@]/#/fuzz_}" >"$work/build.log" || {
    cat "$work/build.log"
    exit 1
}

# Files of targets: in memory, and gone also after a crash.
memory=${TMPDIR:-/tmp}
[ -n "${TMPDIR-}" ] || [ ! -w /dev/shm ] || memory=/dev/shm
TMPDIR=$(mktemp -d "$memory/cero-fuzz-run-XXXXXX")
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT

run_target() { # <target>
    local target=$1 found=$work/found/$1 artifacts=$work/artifacts/$1 log=$work/$1.log status=0
    local folders=("tests/fuzz/corpus/$target")
    local flags=(-max_total_time="$seconds" -rss_limit_mb=1024 -malloc_limit_mb=256 -timeout=10
        -max_len=4096 -print_final_stats=1 -close_fd_mask=3)
    [ ! -d "tests/fuzz/regressions/$target" ] || folders+=("tests/fuzz/regressions/$target")
    [ ! -e "tests/fuzz/$target.dict" ] || flags+=(-dict="tests/fuzz/$target.dict")
    if [ "$fresh" = 1 ]; then
        rm -rf "$found"
        flags+=(-seed=1)
    fi
    mkdir -p "$found" "$artifacts"
    flags+=(-artifact_prefix="$artifacts/")
    ASAN_OPTIONS=strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1 \
        "$work/tests/fuzz/fuzz_$target" "${flags[@]}" "$found" "${folders[@]}" >"$log" 2>&1 </dev/null || status=$?
    echo "$status" >"$work/$target.status"
}

# The last "#12345 … cov: 678 ft: 910 corp: 11/12Kb …" and the final statistics.
row() { # <target>
    local target=$1 log=$work/$1.log status
    status=$(cat "$work/$target.status" 2>/dev/null || echo "?")
    awk -v target="$target" -v status="$status" '
        /^#[0-9]+/ { for (i = 1; i < NF; i++) { if ($i == "cov:") cov = $(i + 1); if ($i == "ft:") ft = $(i + 1); if ($i == "corp:") corp = $(i + 1) } }
        /^stat::number_of_executed_units/ { runs = $2 }
        /^stat::average_exec_per_sec/ { rate = $2 }
        /^stat::peak_rss_mb/ { rss = $2 }
        END { sub("/.*", "", corp)
              printf "%-14s %12s %9s %9s %9s %8s %8s  %s\n", target, runs, rate, cov, ft, corp, rss, status == 0 ? "ok" : "FAILED" }
    ' "$log"
}

echo "running ${#targets[@]} targets for $seconds s each, $jobs at a time"
running=0
for target in "${targets[@]}"; do
    rm -f "$work/$target.status"
    if [ "$running" -ge "$jobs" ]; then
        wait -n || true
        running=$((running - 1))
    fi
    run_target "$target" &
    running=$((running + 1))
done
wait

failed=()
printf '%-14s %12s %9s %9s %9s %8s %8s  %s\n' target executions "per s" edges features corpus "rss MB" result
for target in "${targets[@]}"; do
    row "$target"
    [ "$(cat "$work/$target.status" 2>/dev/null || echo 1)" = 0 ] || failed+=("$target")
done
for target in ${failed[@]+"${failed[@]}"}; do
    echo "fuzz_$target failed:"
    # The newest artifact once more, with its report, which the run itself kept to the log.
    artifact=$(find "$work/artifacts/$target" -type f -newer "$work/build.log" -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d' ' -f2-)
    grep -E 'ERROR|SUMMARY|runtime error|does not hold' "$work/$target.log" | head -n 5 || true
    if [ -n "$artifact" ]; then
        "$work/tests/fuzz/fuzz_$target" -rss_limit_mb=1024 -malloc_limit_mb=256 -timeout=10 "$artifact" 2>&1 |
            grep -vE '^(INFO|\*\*\*)' | head -n 30 || true
        echo "its input: $artifact"
    fi
done
[ ${#failed[@]} -eq 0 ]
