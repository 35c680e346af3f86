/* SPDX-License-Identifier: Apache-2.0 */
/* Plans the exchanges of a schedule, when the rooms have their places. */
#include "zero/schedule_impl.h"

/* One part of a unit, from the shards of all ranks into the room. */
static cero_status bind_part(cero_zero_schedule *s, cero_zero_interval *x, cero_zero_part part,
                             const int64_t *border, const size_t *source_at)
{
    cero_zero *zero = s->zero;
    size_t size = cero_dtype_size(zero->dtype);
    int64_t at = part == CERO_ZERO_FROZEN ? cero_zero_room_frozen_at(zero, x->unit) : 0;
    cero_gather_params params = {.name = zero->layout.units[x->unit].name,
                                 .device = zero->device,
                                 .element_size = size,
                                 .border = border,
                                 .source = zero->param_buffer,
                                 .source_at = source_at,
                                 .dest = zero->arena,
                                 .dest_offset = x->room_at + (size_t)at * size};

    return cero_gather_create(zero->comm, &params, &x->exchange[part]);
}

/* All gathers, in the order in which shards lie: of every rank it is known where the next one begins. */
static cero_status bind_intervals(cero_zero_schedule *s, int64_t *border, size_t *source_at)
{
    const cero_zero *zero = s->zero;
    size_t size = cero_dtype_size(zero->dtype);

    for (int r = 0; r < zero->size; r++) {
        source_at[r] = (size_t)zero->whole_numel * size;
    }
    for (int part = 0; part < CERO_ZERO_PARTS; part++) {
        for (int64_t u = 0; u < zero->layout.unit_count; u++) {
            if (zero->place[u].is_whole || zero->layout.units[u].range[part].numel == 0) {
                continue;
            }
            cero_zero_borders(zero, u, (cero_zero_part)part, border);
            for (int64_t k = 0; k < s->interval_count; k++) {
                cero_zero_interval *x = &s->intervals[k];
                if (x->unit == u) {
                    CERO_TRY(bind_part(s, x, (cero_zero_part)part, border, source_at));
                }
            }
            for (int r = 0; r < zero->size; r++) {
                source_at[r] += (size_t)cero_zero_shard_room(border + r) * size;
            }
        }
    }
    return CERO_OK;
}

cero_status cero_zero_reduce_bind(cero_zero *zero, int64_t k, cero_zero_staged *staged,
                                  int64_t *border)
{
    cero_zero_held sum = cero_zero_held_sum(zero, staged->unit);
    cero_zero_held own = cero_zero_own(zero, staged->unit, CERO_ZERO_TRAINED);

    cero_zero_borders(zero, staged->unit, CERO_ZERO_TRAINED, border);
    cero_reduce_params params = {
        .name = zero->layout.units[staged->unit].name,
        .device = zero->device,
        .dtype = zero->is_local ? CERO_DTYPE_F32 : zero->dtype,
        .border = border,
        .source = zero->is_local ? zero->sum_buffer : zero->arena,
        .source_offset = zero->is_local ? (size_t)sum.at * sizeof(float) : staged->source_at,
        .sum = (float *)zero->grad + sum.at + (own.begin - sum.begin),
        .bucket = zero->spec->reduce_bucket_size,
        .order = zero->order,
        .landing = (char *)zero->landing + (zero->overlaps && k % 2 == 1 ? zero->landing_bytes : 0),
    };
    return cero_reduce_create(zero->comm, &params, &staged->exchange);
}

cero_status cero_zero_schedule_bind(cero_zero_schedule *s, const cero_program *program)
{
    cero_status st = CERO_OK;
    size_t size = (size_t)s->zero->size;
    int64_t *border = cero_new(size + 1, sizeof(int64_t));
    size_t *source_at = cero_new(size, sizeof(size_t));

    if (border == NULL || source_at == NULL) {
        CERO_FAIL_GOTO(out, CERO_ERR_NOMEM, "no memory for the shards of %zu ranks", size);
    }
    for (int64_t k = 0; k < s->interval_count; k++) {
        s->intervals[k].room_at = cero_program_room_offset(program, s->intervals[k].room);
    }
    CERO_TRY_GOTO(bind_intervals(s, border, source_at), out);
    for (int64_t k = 0; k < s->staged_count; k++) {
        s->staged[k].source_at = cero_program_room_offset(program, s->staged[k].room);
        CERO_TRY_GOTO(cero_zero_reduce_bind(s->zero, k, &s->staged[k], border), out);
    }
out:
    cero_delete(border);
    cero_delete(source_at);
    return st;
}
