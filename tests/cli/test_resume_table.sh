#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The whole table of runs that go on: every dtype and stage, at equal layouts with all metrics, and with ranks and
# stages that change from leg to leg.
# RUN: long
. "$(dirname "$0")/world.sh"
. "$(dirname "$0")/resume.sh"

leg() { # <run> <ranks> <option…>
    set_run "$1" "${@:3}"
    world "$2" "${run[@]}"
    expect_code 0
}

for dtype in fp32 bf16 fp16; do
    set=(--save-every 5 --set zero_optimization.stage3_param_persistence_threshold=0)
    [ "$dtype" = fp32 ] || set+=(--set "$dtype.enabled=true")
    # A scaler that grows and falls while the run is interrupted.
    [ "$dtype" != fp16 ] || set+=(--set fp16.loss_scale_window=3 --set fp16.initial_scale_power=20)
    train_well straight-$dtype --steps 20 "${set[@]}"
    for stage in 0 1 2 3; do
        at=("${set[@]}" --set zero_optimization.stage=$stage)
        # RS-01: two ranks, 20 against 10 + 10.
        leg one 2 --steps 20 "${at[@]}"
        leg two 2 --steps 10 "${at[@]}"
        leg two 2 --steps 20 --resume auto "${at[@]}"
        expect_same one two
        expect_same straight-$dtype two other
        # RS-06: four ranks, then two.
        leg less 4 --steps 10 "${at[@]}"
        leg less 2 --steps 20 --resume auto "${at[@]}"
        expect_same straight-$dtype less other
        # Ranks 1, 2, 3, 4, 1, and the stage moves on at each change.
        ranks=(1 2 3 4 1)
        for i in 0 1 2 3 4; do
            leg legs "${ranks[i]}" --steps $((4 * i + 4)) --resume if-present "${set[@]}" \
                --set zero_optimization.stage=$(((stage + i) % 4))
        done
        expect_same straight-$dtype legs other
        rm -rf "$work/one" "$work/two" "$work/less" "$work/legs"
    done
done
