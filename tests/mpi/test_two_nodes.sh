#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two nodes of two ranks, each node a network namespace of its own and joined by one link, started by `cero
# launch` with a remote agent: with order node the link's counters show what the formula says, (M-1)/M of
# {2, 2, 3} times the parameters per node and step for the stages 1, 2 and 3, with at most 5 % on top for
# headers and small messages. All stages give the same loss.
# Needs root (to make namespaces), ip, unshare and Open MPI.
set -euo pipefail

skip() {
    echo "skipped: $*"
    exit 77
}

[ "${CERO_TEST_MPI:-none}" = openmpi ] || skip "no Open MPI in this build"
[ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
for tool in ip unshare python3; do
    command -v "$tool" >/dev/null || skip "$tool is missing"
done

cero=$CERO_COMMAND
dir=$(mktemp -d)
id=$$
ip netns add "cero$id-1" 2>/dev/null || skip "this system makes no network namespaces"
cleanup() {
    ip netns del "cero$id-1" 2>/dev/null || true
    ip netns del "cero$id-2" 2>/dev/null || true
    rm -rf "$dir"
}
trap cleanup EXIT
ip netns add "cero$id-2"
ip link add veth1 netns "cero$id-1" type veth peer name veth2 netns "cero$id-2" ||
    skip "this system makes no pairs of links"
for n in 1 2; do
    ip -n "cero$id-$n" addr add "10.77.0.$n/24" dev "veth$n"
    ip -n "cero$id-$n" link set lo up
    ip -n "cero$id-$n" link set "veth$n" up
done
printf '10.77.0.1 slots=2\n10.77.0.2 slots=2\n' >"$dir/hosts"

# Called as ssh is: options, the host, a command for its shell.
cat >"$dir/agent" <<AGENT
#!/usr/bin/env bash
while [ "\${1#-}" != "\$1" ]; do shift; done
host=\$1
shift
exec ip netns exec "cero$id-\${host##*.}" unshare --uts bash -c "hostname node\${host##*.}; \$*"
AGENT
chmod +x "$dir/agent"

cat >"$dir/config.json" <<'JSON'
{"train_batch_size": 8, "train_micro_batch_size_per_gpu": 2, "gradient_clipping": 1.0,
 "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "weight_decay": 0.1}},
 "zero_optimization": {"stage3_param_persistence_threshold": 0},
 "cero": {"gradient_order": "node"}}
JSON
python3 - "$dir/tokens.u16" <<'PY'
import sys
with open(sys.argv[1], "wb") as f:
    f.write(b"".join((k * k % 251).to_bytes(2, "little") for k in range(4000)))
PY

sent() {
    ip netns exec "cero$id-1" cat /sys/class/net/veth1/statistics/tx_bytes
}

run() { # <stage> <steps>
    rm -rf "$dir/out"
    ip netns exec "cero$id-1" unshare --uts bash -c 'hostname node1; exec "$@"' run \
        "$cero" launch --quiet --allow-run-as-root --launcher openmpi --oversubscribe --bind none \
        --cores 2 --hostfile "$dir/hosts" --remote-agent "$dir/agent" \
        --launcher-args='--mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24' -- \
        train --quiet --config "$dir/config.json" --model gpt-mini --data "$dir/tokens.u16" --out "$dir/out" \
        --steps "$2" --seq-len 8 --threads 1 --set "zero_optimization.stage=$1" >&2
}

parameters=$("$cero" plan --config "$dir/config.json" --model gpt-mini --world 4 --json |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["trained"])')
for stage in 1 2 3; do
    # What starting costs is in both runs.
    begin=$(sent)
    run $stage 2
    middle=$(sent)
    run $stage 12
    end=$(sent)
    per_step=$((((end - middle) - (middle - begin)) / 10))
    python3 - "$stage" "$per_step" "$parameters" <<'PY'
import sys
stage, sent, parameters = map(int, sys.argv[1:])
expected = {1: 2, 2: 2, 3: 3}[stage] * parameters * 4 // 2  # (M-1)/M of f32, two nodes
print(f"stage {stage}: {sent} bytes per node and step, formula {expected}, ratio {sent / expected:.4f}")
sys.exit(0 if expected <= sent <= 1.05 * expected else 1)
PY
    python3 -c 'import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
print(*(line["loss"] for line in lines))' "$dir/out/metrics.jsonl" >"$dir/loss-$stage"
    cmp "$dir/loss-1" "$dir/loss-$stage"
done
