/* SPDX-License-Identifier: Apache-2.0 */
/* Initial weights, and the one setter and getter: each rank touches what it holds, no rank holds more. */
#include "zero/zero_impl.h"

#include <string.h>

cero_status cero_zero_check_range(const cero_zero *zero, int64_t param, int64_t begin, int64_t n)
{
    CERO_CHECK(param >= 0 && param < zero->layout.param_count, CERO_ERR_INVALID,
               "parameter %lld of %lld", (long long)param, (long long)zero->layout.param_count);
    const cero_zero_param *p = &zero->layout.params[param];
    CERO_CHECK(begin >= 0 && n >= 0 && begin <= p->numel - n, CERO_ERR_INVALID,
               "%lld elements from %lld on of parameter %s, which has %lld", (long long)n,
               (long long)begin, p->name, (long long)p->numel);
    return CERO_OK;
}

/*
 * Copies that a rank writes. The ranks of a node write its one copy together: each from where its own shard
 * begins to where that of the next one does, so that what other nodes own is written here too.
 */
static cero_zero_held written_copy(const cero_zero *zero, const cero_zero_param *p)
{
    const cero_comm *comm = zero->comm;
    cero_zero_part part = cero_zero_param_part(p);
    cero_zero_held copy = cero_zero_held_copy(zero, p->unit, part);

    if (zero->is_shared) {
        int64_t numel = zero->layout.units[p->unit].range[part].numel;
        int node = cero_comm_node_of(comm, zero->rank);
        int local = cero_comm_local_rank(comm, zero->rank);
        if (local > 0) {
            copy.begin = cero_zero_border(numel, zero->size, zero->rank);
            copy.at += copy.begin;
        }
        if (local + 1 < cero_comm_node_size(comm, node)) {
            int next = cero_comm_rank_at(comm, node, local + 1);
            copy.end = cero_zero_border(numel, zero->size, next);
        }
    }
    return copy;
}

void cero_zero_held_param(const cero_zero *zero, int64_t param, int64_t *begin, int64_t *n)
{
    const cero_zero_param *p = &zero->layout.params[param];
    int64_t first = cero_zero_param_begin(&zero->layout, p);
    cero_zero_cut copy = cero_zero_intersect(written_copy(zero, p), first, p->numel);
    int64_t end = copy.begin + copy.n;

    if (zero->has_master && !p->is_frozen) {
        // Where both are held, one contains the other.
        cero_zero_cut state =
            cero_zero_intersect(cero_zero_held_state(zero, p->unit), first, p->numel);
        if (state.n > copy.n) {
            copy = state;
            end = state.begin + state.n;
        }
    }
    *begin = copy.begin - first;
    *n = end - copy.begin;
}

/* Writes elements begin .. begin + n (of the parameter) where this rank holds them. */
static void write_values(cero_zero *zero, const cero_zero_param *p, int64_t begin, int64_t n,
                         const float *values)
{
    int64_t first = cero_zero_param_begin(&zero->layout, p) + begin;
    cero_zero_cut copy = cero_zero_intersect(written_copy(zero, p), first, n);

    if (zero->has_master && !p->is_frozen) {
        cero_zero_cut state = cero_zero_intersect(cero_zero_held_state(zero, p->unit), first, n);
        memcpy(zero->master + state.at, values + (state.begin - first),
               (size_t)state.n * sizeof(float));
    }
    cero_device_kernels(zero->device)
        ->from_f32[zero->dtype](copy.n, values + (copy.begin - first),
                                cero_zero_copy_at(zero, copy.at));
}

/* A span of one parameter's values, small enough for the stack. */
enum {
    SPAN = 4096
};

typedef struct value_task {
    cero_zero *zero;
    const cero_zero_param *param;
    int64_t begin;
    int64_t n;
    uint64_t seed;       /* of initial values */
    const float *values; /* of elements begin …; NULL: initial ones */
} value_task;

static void initial_values(const value_task *task, int64_t at, int64_t n, float *values)
{
    const cero_zero_param *p = task->param;

    for (int64_t k = 0; k < n; k++) {
        values[k] = p->init == CERO_INIT_ONES ? 1.0f : 0.0f;
    }
    if (p->init == CERO_INIT_NORMAL) {
        cero_rng_key key = cero_rng_make_key(task->seed, CERO_RNG_INIT, cero_rng_hash(p->name), 0);
        cero_rng_fill_normal(key, at, n, 0, p->std, values);
    }
}

static void write_spans(void *context, int64_t begin, int64_t end, int thread)
{
    const value_task *task = context;
    float values[SPAN];

    CERO_UNUSED(thread);
    for (int64_t i = begin; i < end; i++) {
        int64_t at = i * SPAN;
        int64_t n = task->n - at < SPAN ? task->n - at : SPAN;
        if (task->values == NULL) {
            initial_values(task, task->begin + at, n, values);
        }
        write_values(task->zero, task->param, task->begin + at, n,
                     task->values != NULL ? task->values + at : values);
    }
}

static void run_task(value_task *task)
{
    cero_device_parallel_for(task->zero->device, (task->n + SPAN - 1) / SPAN, write_spans, task);
}

cero_status cero_zero_init_weights(cero_zero *zero, uint64_t seed)
{
    for (int64_t i = 0; i < zero->layout.param_count; i++) {
        value_task task = {.zero = zero, .param = &zero->layout.params[i], .seed = seed};
        cero_zero_held_param(zero, i, &task.begin, &task.n);
        run_task(&task);
    }
    cero_zero_clear_moments(zero);
    return cero_zero_weights_set(zero);
}

cero_status cero_zero_set_param(cero_zero *zero, int64_t param, int64_t begin, int64_t n,
                                const float *values)
{
    CERO_TRY(cero_zero_check_range(zero, param, begin, n));
    value_task task = {.zero = zero,
                       .param = &zero->layout.params[param],
                       .begin = begin,
                       .n = n,
                       .values = values};
    run_task(&task);
    return CERO_OK;
}

cero_status cero_zero_weights_set(cero_zero *zero)
{
    // A rank's own memory is complete; what ranks share needs all of them, and so does the next gather.
    return cero_comm_barrier(zero->comm);
}

/* The f32 values of a range where this rank holds them: master, or the compute copy itself. */
static void read_values(const cero_zero *zero, const cero_zero_param *p, int64_t first, int64_t n,
                        float *values)
{
    if (zero->has_master && !p->is_frozen) {
        cero_zero_cut cut = cero_zero_intersect(cero_zero_held_state(zero, p->unit), first, n);
        memcpy(values, zero->master + cut.at, (size_t)cut.n * sizeof(float));
        return;
    }
    cero_zero_cut cut =
        cero_zero_intersect(cero_zero_held_copy(zero, p->unit, cero_zero_param_part(p)), first, n);
    cero_device_to_f32(zero->device, zero->dtype, cut.n, cero_zero_copy_at(zero, cut.at), values);
}

cero_status cero_zero_get_param(cero_zero *zero, int64_t param, int64_t begin, int64_t n,
                                float *values)
{
    CERO_TRY(cero_zero_check_range(zero, param, begin, n));
    CERO_TRY(cero_zero_settle(zero));
    const cero_zero_param *p = &zero->layout.params[param];
    cero_zero_part part = cero_zero_param_part(p);
    int64_t first = cero_zero_param_begin(&zero->layout, p) + begin;
    bool is_whole =
        zero->has_master && !p->is_frozen ? zero->stage == 0 : zero->place[p->unit].is_whole;

    if (is_whole) {
        read_values(zero, p, first, n, values);
        return CERO_OK;
    }
    cero_zero_cut own = cero_zero_intersect(cero_zero_own(zero, p->unit, part), first, n);
    read_values(zero, p, own.begin, own.n, values + (own.begin - first));
    return cero_zero_share_values(zero, p->unit, part, first, n, values);
}

cero_status cero_zero_share_values(cero_zero *zero, int64_t unit, cero_zero_part part,
                                   int64_t first, int64_t n, float *values)
{
    int64_t numel = zero->layout.units[unit].range[part].numel;

    for (int r = 0; r < zero->size; r++) {
        cero_zero_held shard = {.begin = cero_zero_border(numel, zero->size, r),
                                .end = cero_zero_border(numel, zero->size, r + 1)};
        cero_zero_cut cut = cero_zero_intersect(shard, first, n);
        if (cut.n > 0) {
            CERO_TRY(cero_comm_broadcast(zero->comm, values + (cut.begin - first),
                                         (size_t)cut.n * sizeof(float), r));
        }
    }
    return CERO_OK;
}
