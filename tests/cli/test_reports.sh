#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a run with several ranks says: its start, its times over ranks, its communication and its profile, with
# numbers masked; metrics whose parts add up; one voice for all ranks.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

if [ -z "${CERO_MPIEXEC:-}" ] || [ "${CERO_TEST_MPI:-none}" = none ]; then
    echo "skipped: there is no MPI to start ranks with"
    exit 77
fi
export OMP_NUM_THREADS=1
cd "$work"

mkdir g1
cat >g1/config.json <<'JSON'
{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 256, "n_positions": 32,
 "n_embd": 64, "n_layer": 2, "n_head": 4, "resid_pdrop": 0.0, "activation_function": "gelu_new",
 "embd_pdrop": 0.0, "attn_pdrop": 0.0}
JSON
python3 -c 'import struct; open("train.u16", "wb").write(b"".join(struct.pack("<H", i % 256) for i in range(6000)))'
cat >ds.json <<'JSON'
{"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2, "gradient_clipping": 0,
 "steps_per_print": 2, "wall_clock_breakdown": true,
 "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 200}}
JSON

# train <ranks> <argument>…: leaves $work/err, $work/out, $code and the run directory "run".
train() {
    local np=$1
    shift
    rm -rf run
    code=0
    # shellcheck disable=SC2086
    timeout 300 "$CERO_MPIEXEC" $CERO_MPIEXEC_FLAGS -n "$np" "$CERO_COMMAND" train --config ds.json \
        --model g1 --data train.u16 --out run --steps 4 "$@" >out 2>err </dev/null || code=$?
    last="cero train with $np ranks, $*"
    expect_code 0
}

# Numbers, sizes and what belongs to the machine are masked; a machine with few cores says one thing more.
mask() {
    grep -v 'wait for each other; start fewer ranks' "$1" |
        sed -E -e 's/host [^:]+:/host HOST:/' -e 's/(Open MPI|MPICH) [0-9][^ ]*$/LIBRARY/' \
            -e 's/, [0-9]+ of [0-9]+ cores allowed(, the same for all| each)?,/, CORES,/' \
            -e 's/-?[0-9]+(\.[0-9]+)?(e-?[0-9]+)?( to [0-9.]+)?( (bytes|KiB|MiB))?/N/g' \
            -e 's/  +/ /g' -e 's/N[kM] tokens/N tokens/'
}

expect_masked() { # <file>, the wanted text on stdin
    mask "$1" >found
    cat >wanted
    diff -u wanted found || fail "$1 says something else"
}

# The start, from two ranks that exchange by messages.
train 2 --no-shared-memory --set train_batch_size=8
sed -n '/^step /q;p' err >start
expect_masked start <<'TEXT'
model gN: gptN, N layers of width N, N heads, vocabulary N; N parameters; initial weights
world ranks N on N node (N), dp N, threads N per rank; transport: messages, LIBRARY
node N host HOST: ranks N - N, CORES, N thread each
precision fN; normaliser: per token, sums over the batch are divided once by the tokens that count
batch N samples = micro-batches of N x N accumulated x N ranks
optimizer AdamW, decoupled decay: p -= lr*wd*p; p -= lr*m^/(sqrt(v^) + eps)
 lr N, schedule constant
decay N on N tensors of N elements; none on N elements; N frozen
clipping off
data N tokens, N samples of N an epoch (N tokens in none); N steps = N epochs
 N samples of the epoch are unused
saves none but at a signal; --save-every N makes checkpoints
zero stage N, optimizer states, gradient sums and parameters are cut over N ranks; exchanges of gradients go on while backward does
order global (auto: one node); bits depend on neither ranks nor nodes; gradients take N a step and rank
buckets reduce_bucket_size N is clamped to the model: gradients go unit by unit, the largest has N elements
whole N of N units, N of N elements, stay whole on every rank: they have at most stageN_param_persistence_threshold N
prefetch up to N elements ahead of use (an eighth of the model, or one unit; stageN_prefetch_bucket_size is clamped to it): N of a step's N gathers start ahead
 parameters are gathered for every use: on one node stage N is usually faster where its memory suffices
sends N a step and rank, N of gradients and N of parameters; N messages of N on average
memory N a rank: param N, grad N, optim N, activation N, comm N, io N, other N
TEXT
# The log of rank 0 has it too; other ranks say nothing.
mask run/log/rank-00000.log >log0
grep -qF 'zero stage N, optimizer states' log0 || fail "rank 0's log lacks the start"
[ ! -s run/log/rank-00001.log ] || fail "rank 1 spoke"

# Times over ranks, communication, and one step's profile, from three ranks; the terminal has rank 0's alone.
train 3 --set 'comms_logger={"enabled": true, "verbose": true, "debug": true}' \
    --set 'flops_profiler={"enabled": true, "profile_step": 2, "module_depth": 1, "detailed": false}'
grep -E 'time \(ms\)|^\[rank 0/3\] train info: step of' err | head -2 >times
expect_masked times <<'TEXT'
[rank N/N] train info: time (ms) | forward: N (N) | backward: N (N) | exchange: N (N) | step: N (N) | data: N (N)
[rank N/N] train info: step of N ms | exposed exchange: N % | gathers: N, N started ahead | sent by rank N: N in N messages | slowest: rank N, N ms of its own work, N % above the mean
TEXT
[ "$(grep -c 'time (ms)' err)" -eq 2 ] || fail "expected the times of two intervals"
[ "$(grep -c '^\[rank [12]/3\].* info: ' err)" -eq 0 ] || fail "another rank than 0 spoke"
# Which unit takes the longest depends on the machine.
sed -n '/flops profiler/,/forward time/p' err | sed 's/forward time: transformer[^ ]*/forward time: UNIT/' >profile
expect_masked profile <<'TEXT'
[rank N/N] train info: flops profiler: step N on rank N of N, model gN
[rank N/N] train info: parameters N k
[rank N/N] train info: micro-batches N of N samples on this rank
[rank N/N] train info: forward N MFLOP in N ms, N GFLOP/s
[rank N/N] train info: backward N MFLOP in N ms, N GFLOP/s
[rank N/N] train info: forward and backward N MFLOP in N ms, N GFLOP/s
[rank N/N] train info: recomputed -, in backward
[rank N/N] train info: update N ms
[rank N/N] train info: step N ms, N samples/s over all ranks
[rank N/N] train info: top N units by parameters: transformer.h.N N k
[rank N/N] train info: top N units by operations: transformer.h.N N MFLOP
[rank N/N] train info: top N units by forward time: UNIT N ms
TEXT
sed -n '/communication of rank/,/exported/p' err | grep -v exported | mask /dev/stdin | uniq >comms
for line in 'communication of rank N of N while training' \
    'operation message size count total ms average ms GbitN/s bus GbitN/s' \
    'all_gather_into_tensor N N N N N N' 'reduce_scatter_tensor N N N N N N' \
    'all_reduce N N N N N N' 'all_gather N N N N N N'; do
    line=${line//GbitN/Gbit}
    grep -qxF "[rank N/N] train info: $line" comms || fail "the table lacks '$line'"
done
# Two micro-batches reduce four units in each of four steps.
[ "$(sed -n '/communication of rank/,$p' err | awk '/reduce_scatter_tensor/ {n += $8} END {print n}')" -eq 32 ] ||
    fail "expected 32 reductions of units"
for r in 0 1 2; do
    [ "$(grep -c 'comm debug: reduce_scatter_tensor of transformer.h.1 | time: ' "run/log/rank-0000$r.log")" -eq 8 ] ||
        fail "rank $r did not log its eight reductions of a unit"
done
! grep -q 'comm debug' err || fail "the terminal has debug lines"

# Metrics: parts are the whole, messages are counted, and the start foretold what is sent.
cat >check.py <<'PY'
import json, sys

lines = [json.loads(line) for line in open("run/metrics.jsonl")]
assert len(lines) == 4
rest = []
for line in lines:
    s = line["seconds"]
    whole = line["step_seconds"]
    parts = sum(s[k] for k in ("forward", "backward", "exchange", "update", "data", "other"))
    assert abs(parts - whole) <= 1e-6 * whole, (parts, whole)
    assert all(s[k] >= 0 for k in s) and s["exchange"] > 0
    rest.append(max(0, s["other"] - 1e-3) / whole)
    assert line["messages_sent"] > 0 and line["bytes_between_nodes"] == 0
    assert line["bytes_sent"] == lines[0]["bytes_sent"]
assert min(rest) <= 0.05, rest
if len(sys.argv) > 1:
    expected = float(sys.argv[1])
    assert 0 <= lines[0]["bytes_sent"] - expected <= 0.05 * expected, lines[0]["bytes_sent"]
PY
python3 check.py || fail "metrics"
train 2 --set zero_optimization.stage=2 --set wall_clock_breakdown=false
sends=$(sed -nE 's/^sends +([0-9.]+)( to [0-9.]+)? KiB a step and rank.*/\1/p' err)
python3 check.py "$(awk -v k="$sends" 'BEGIN {print k * 1024}')" || fail "metrics of stage 2"
! grep -q 'time (ms)' err || fail "times that nobody asked for"
expect_err "peers read it in shared memory, without messages"

# PF-03: small pieces are warned of, with their number; the default is not.
! grep -q 'reduce_bucket_size.*slow' err || fail "a warning of the default"
train 2 --no-shared-memory --set zero_optimization.stage=2 --set zero_optimization.reduce_bucket_size=1000
grep -qE '^\[rank 0/2\] train warn: zero_optimization.reduce_bucket_size 1000 over 2 ranks cuts gradients into pieces of 2.00 KiB \([0-9]+ messages a step\)' err ||
    fail "no warning of a small bucket"

# Keys that do nothing here, and monitors' times, by one rank for all.
train 2 --set zero_optimization.stage=0 --set cero.share_within_node=true --set csv_monitor.enabled=true
expect_err "zero_optimization.stage3_param_persistence_threshold: for stage 3 alone"
expect_err "cero.share_within_node: for stages 1 and 2, where parameters are whole"
for tag in forward backward backward_inner backward_allreduce step; do
    file=run/Train_Samples_elapsed_time_ms_$tag.csv
    [ "$(wc -l <"$file")" -eq 5 ] || fail "$file has other than a heading and four steps"
done

# A step that all ranks skip is spoken of once.
train 2 --set fp16.enabled=true --set fp16.initial_scale_power=30 --set fp16.hysteresis=1
skipped=$(tail -1 run/metrics.jsonl | sed -E 's/.*"skipped":([0-9]+).*/\1/')
[ "$skipped" -gt 0 ] || fail "nothing was skipped"
[ "$(grep -c 'step skipped: ' err)" -eq "$skipped" ] || fail "expected $skipped lines of skipped steps"

# One rank: the same start without what needs two.
cero train --config ds.json --model g1 --data train.u16 --out one --steps 2
expect_code 0
expect_err "world      1 rank"
expect_err "no effect  zero_optimization.stage: one rank holds everything"
! grep -q '^sends\|^order\|slowest' err || fail "one rank speaks of others"
