/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocation, addresses and the setter of weights. How gradients become an update is in update.c.
 */
#include "zero/zero_impl.h"

#include <string.h>

void cero_zero_bytes(const cero_zero *zero, size_t bytes[CERO_MEM_COUNT])
{
    const cero_zero_layout *l = &zero->layout;
    size_t trained = (size_t)l->trained_padded;
    size_t size = cero_dtype_size(zero->dtype);

    memset(bytes, 0, CERO_MEM_COUNT * sizeof(size_t));
    bytes[CERO_MEM_PARAM] = (size_t)l->padded * size;
    if (zero->contributions == 0) {
        return;
    }
    bytes[CERO_MEM_GRAD] = trained * (size + (zero->has_sums ? sizeof(float) : 0));
    bytes[CERO_MEM_MASTER] = zero->has_master ? trained * sizeof(float) : 0;
    bytes[CERO_MEM_OPTIM] = trained * sizeof(float) * (size_t)zero->moment_count;
    bytes[CERO_MEM_OTHER] =
        CERO_ZERO_NORM_SPAN / CERO_SQUARE_BLOCK * sizeof(double) + zero->scratch_bytes;
}

static cero_status allocate(cero_zero *zero)
{
    cero_mem *mem = zero->mem;
    size_t trained = (size_t)zero->layout.trained_padded;
    size_t size = cero_dtype_size(zero->dtype);
    size_t f32 = trained * sizeof(float);

    CERO_TRY(cero_mem_alloc(mem, (size_t)zero->layout.padded * size, CERO_MEM_PARAM, "parameters",
                            &zero->param));
    memset(zero->param, 0, (size_t)zero->layout.padded * size);
    if (zero->contributions == 0) {
        return CERO_OK;
    }
    // Padding is zero and stays zero: it never counts in a norm.
    CERO_TRY(
        cero_mem_alloc(mem, trained * size, CERO_MEM_GRAD, "staged gradients", &zero->staging));
    memset(zero->staging, 0, trained * size);
    if (zero->has_sums) {
        CERO_TRY(cero_mem_alloc(mem, f32, CERO_MEM_GRAD, "gradient sums", (void **)&zero->sum));
        memset(zero->sum, 0, f32);
    }
    if (zero->has_master) {
        CERO_TRY(
            cero_mem_alloc(mem, f32, CERO_MEM_MASTER, "master weights", (void **)&zero->master));
        memset(zero->master, 0, f32);
    }
    if (zero->moment_count > 0) {
        CERO_TRY(
            cero_mem_alloc(mem, f32, CERO_MEM_OPTIM, "first moments", (void **)&zero->exp_avg));
        memset(zero->exp_avg, 0, f32);
    }
    if (zero->moment_count > 1) {
        CERO_TRY(
            cero_mem_alloc(mem, f32, CERO_MEM_OPTIM, "second moments", (void **)&zero->exp_avg_sq));
        memset(zero->exp_avg_sq, 0, f32);
    }
    CERO_TRY(cero_mem_alloc(mem, CERO_ZERO_NORM_SPAN / CERO_SQUARE_BLOCK * sizeof(double),
                            CERO_MEM_OTHER, "norm of the gradient", (void **)&zero->block_sums));
    return cero_mem_alloc(mem, zero->scratch_bytes, CERO_MEM_OTHER, "scratch of the optimizer",
                          &zero->scratch);
}

float *cero_zero_master(const cero_zero *zero, const cero_zero_param *param)
{
    return zero->has_master ? zero->master + param->trained : (float *)zero->param + param->offset;
}

static void set_addresses(cero_zero *zero)
{
    size_t size = cero_dtype_size(zero->dtype);

    for (int64_t i = 0; i < zero->layout.param_count; i++) {
        const cero_zero_param *p = &zero->layout.params[i];
        zero->param_address[i] = (char *)zero->param + (size_t)p->offset * size;
        if (!p->is_frozen && zero->staging != NULL) {
            zero->grad_address[i] = (char *)zero->staging + (size_t)p->trained * size;
        }
    }
}

static int count_moments(const cero_zero *zero)
{
    int most = 0;

    for (int64_t i = 0; i < zero->layout.param_count; i++) {
        const cero_zero_param *p = &zero->layout.params[i];
        int n = p->is_frozen ? 0 : cero_optim_moment_count(&zero->spec->optimizer, p->is_matrix);
        most = n > most ? n : most;
    }
    return most;
}

/*
 * One segment for each parameter, or for each run of neighbours that are treated alike when elements are
 * updated alone. Addresses follow when memory exists.
 */
static void make_segments(cero_zero *zero)
{
    const cero_zero_layout *l = &zero->layout;
    const cero_optim_spec *spec = &zero->spec->optimizer;
    bool is_elementwise = !cero_optim_needs_norms(spec) && !cero_optim_needs_matrices(spec);
    int64_t last = -1;

    zero->segment_count = 0;
    for (int64_t i = 0; i < l->param_count; i++) {
        const cero_zero_param *p = &l->params[i];
        if (p->is_frozen) {
            continue;
        }
        cero_optim_segment *before = last >= 0 ? &zero->segments[zero->segment_count - 1] : NULL;
        if (is_elementwise && before != NULL && l->params[last].unit == p->unit &&
            l->params[last].has_decay == p->has_decay &&
            l->params[last].offset + l->params[last].numel == p->offset) {
            before->numel += p->numel;
            before->shape = cero_shape_1d(before->numel);
        } else {
            zero->segments[zero->segment_count++] = (cero_optim_segment){
                .numel = p->numel,
                .flat_offset = p->trained - l->units[p->unit].trained,
                .param = i,
                .shape = p->shape,
                .has_decay = p->has_decay,
                .is_matrix = p->is_matrix,
                .grad_dtype = zero->has_sums ? CERO_DTYPE_F32 : zero->dtype,
                .copy_dtype = zero->dtype,
            };
        }
        last = i;
    }
}

static void set_segment_addresses(cero_zero *zero)
{
    size_t size = cero_dtype_size(zero->dtype);

    for (int64_t i = 0; i < zero->segment_count; i++) {
        cero_optim_segment *s = &zero->segments[i];
        const cero_zero_param *p = &zero->layout.params[s->param];
        s->grad = zero->has_sums ? (const void *)(zero->sum + p->trained)
                                 : (const char *)zero->staging + (size_t)p->trained * size;
        s->master = cero_zero_master(zero, p);
        s->exp_avg = zero->exp_avg != NULL ? zero->exp_avg + p->trained : NULL;
        s->exp_avg_sq = zero->exp_avg_sq != NULL ? zero->exp_avg_sq + p->trained : NULL;
        s->copy = zero->has_master ? (char *)zero->param + (size_t)p->offset * size : NULL;
    }
}

static cero_status create_optimizer(cero_zero *zero)
{
    size_t count = (size_t)zero->layout.param_count;

    zero->has_master = zero->dtype != CERO_DTYPE_F32;
    zero->has_sums = zero->contributions > 1;
    CERO_TRY(cero_optim_create(zero->device, &zero->spec->optimizer, &zero->optim));
    zero->moment_count = count_moments(zero);
    zero->segments = cero_new(count, sizeof(cero_optim_segment));
    if (zero->segments == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for %zu segments", count);
    }
    make_segments(zero);
    if (cero_optim_needs_norms(&zero->spec->optimizer)) {
        zero->norms = cero_new(count, sizeof(cero_optim_norms));
        if (zero->norms == NULL) {
            return CERO_FAIL(CERO_ERR_NOMEM, "no memory for the norms of %zu parameters", count);
        }
    }
    CERO_TRY(
        cero_optim_plan(zero->optim, zero->segments, zero->segment_count, &zero->scratch_bytes));
    cero_loss_scaler_init(&zero->scaler, &zero->spec->loss_scale);
    return CERO_OK;
}

cero_status cero_zero_create(const cero_zero_params *params, cero_zero **out)
{
    cero_status st = CERO_OK;
    cero_zero *zero = cero_new(1, sizeof(*zero));

    if (zero == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for the states of a model");
    }
    zero->device = params->device;
    zero->mem = params->mem;
    zero->comm = params->comm;
    zero->spec = params->spec;
    zero->dtype = params->graph->compute_dtype;
    zero->contributions = params->contributions;
    CERO_TRY_GOTO(cero_zero_layout_create(params->graph,
                                          params->spec != NULL ? &params->spec->no_decay : NULL,
                                          &zero->layout),
                  fail);
    if (zero->contributions > 0) {
        CERO_TRY_GOTO(cero_zero_layout_check_patterns(&zero->layout, &zero->spec->frozen, "frozen"),
                      fail);
        CERO_TRY_GOTO(create_optimizer(zero), fail);
    }
    if (!cero_device_is_meta(zero->device)) {
        size_t count = (size_t)zero->layout.param_count;
        zero->param_address = cero_new(count, sizeof(void *));
        zero->grad_address = cero_new(count, sizeof(void *));
        if (zero->param_address == NULL || zero->grad_address == NULL) {
            CERO_FAIL_GOTO(fail, CERO_ERR_NOMEM, "no memory for %zu addresses", count);
        }
        CERO_TRY_GOTO(allocate(zero), fail);
        set_addresses(zero);
        if (zero->contributions > 0) {
            set_segment_addresses(zero);
        }
    }
    *out = zero;
    return CERO_OK;

fail:
    cero_zero_destroy(&zero);
    return st;
}

void cero_zero_destroy(cero_zero **zero)
{
    if (zero == NULL || *zero == NULL) {
        return;
    }
    cero_zero *z = *zero;
    cero_mem_free(z->mem, z->scratch);
    cero_mem_free(z->mem, z->block_sums);
    cero_mem_free(z->mem, z->exp_avg_sq);
    cero_mem_free(z->mem, z->exp_avg);
    cero_mem_free(z->mem, z->master);
    cero_mem_free(z->mem, z->sum);
    cero_mem_free(z->mem, z->staging);
    cero_mem_free(z->mem, z->param);
    cero_optim_destroy(&z->optim);
    cero_delete(z->norms);
    cero_delete(z->segments);
    cero_delete(z->grad_address);
    cero_delete(z->param_address);
    cero_zero_layout_cleanup(&z->layout);
    cero_delete(z);
    *zero = NULL;
}

const cero_zero_layout *cero_zero_get_layout(const cero_zero *zero)
{
    return &zero->layout;
}

void *const *cero_zero_param_addresses(const cero_zero *zero)
{
    return zero->param_address;
}

void *const *cero_zero_grad_addresses(const cero_zero *zero)
{
    return zero->grad_address;
}

static cero_status check_range(const cero_zero *zero, int64_t param, int64_t begin, int64_t n)
{
    CERO_CHECK(param >= 0 && param < zero->layout.param_count, CERO_ERR_INVALID,
               "parameter %lld of %lld", (long long)param, (long long)zero->layout.param_count);
    const cero_zero_param *p = &zero->layout.params[param];
    CERO_CHECK(begin >= 0 && n >= 0 && begin <= p->numel - n, CERO_ERR_INVALID,
               "elements %lld .. %lld of parameter %s, which has %lld", (long long)begin,
               (long long)(begin + n), p->name, (long long)p->numel);
    return CERO_OK;
}

cero_status cero_zero_set_param(cero_zero *zero, int64_t param, int64_t begin, int64_t n,
                                const float *values)
{
    CERO_TRY(check_range(zero, param, begin, n));
    const cero_zero_param *p = &zero->layout.params[param];
    size_t size = cero_dtype_size(zero->dtype);
    char *copy = (char *)zero->param + (size_t)(p->offset + begin) * size;

    if (zero->has_master && !p->is_frozen) {
        memcpy(zero->master + p->trained + begin, values, (size_t)n * sizeof(float));
    }
    cero_device_from_f32(zero->device, zero->dtype, n, values, copy);
    return CERO_OK;
}

cero_status cero_zero_get_param(const cero_zero *zero, int64_t param, int64_t begin, int64_t n,
                                float *values)
{
    CERO_TRY(check_range(zero, param, begin, n));
    const cero_zero_param *p = &zero->layout.params[param];
    size_t size = cero_dtype_size(zero->dtype);

    if (zero->has_master && !p->is_frozen) {
        memcpy(values, zero->master + p->trained + begin, (size_t)n * sizeof(float));
    } else {
        cero_device_to_f32(zero->device, zero->dtype, n,
                           (const char *)zero->param + (size_t)(p->offset + begin) * size, values);
    }
    return CERO_OK;
}

/* A span of one parameter's initial values, small enough for the stack. */
enum {
    INIT_SPAN = 4096
};

typedef struct init_task {
    cero_zero *zero;
    const cero_zero_param *param;
    uint64_t seed;
} init_task;

static void init_span(void *context, int64_t begin, int64_t end, int thread)
{
    const init_task *task = context;
    const cero_zero_param *p = task->param;
    const cero_zero *zero = task->zero;
    float values[INIT_SPAN];

    CERO_UNUSED(thread);
    for (int64_t i = begin; i < end; i++) {
        int64_t at = i * INIT_SPAN;
        int64_t n = p->numel - at < INIT_SPAN ? p->numel - at : INIT_SPAN;
        cero_rng_key key = cero_rng_make_key(task->seed, CERO_RNG_INIT, cero_rng_hash(p->name), 0);
        for (int64_t k = 0; k < n; k++) {
            values[k] = p->init == CERO_INIT_ONES ? 1.0f : 0.0f;
        }
        if (p->init == CERO_INIT_NORMAL) {
            cero_rng_fill_normal(key, at, n, 0, p->std, values);
        }
        size_t size = cero_dtype_size(zero->dtype);
        if (zero->has_master && !p->is_frozen) {
            memcpy(zero->master + p->trained + at, values, (size_t)n * sizeof(float));
        }
        cero_device_kernels(zero->device)
            ->from_f32[zero->dtype](n, values,
                                    (char *)zero->param + (size_t)(p->offset + at) * size);
    }
}

void cero_zero_init_weights(cero_zero *zero, uint64_t seed)
{
    for (int64_t i = 0; i < zero->layout.param_count; i++) {
        init_task task = {.zero = zero, .param = &zero->layout.params[i], .seed = seed};
        cero_device_parallel_for(zero->device, (task.param->numel + INIT_SPAN - 1) / INIT_SPAN,
                                 init_span, &task);
    }
    size_t f32 = (size_t)zero->layout.trained_padded * sizeof(float);
    if (zero->exp_avg != NULL) {
        memset(zero->exp_avg, 0, f32);
    }
    if (zero->exp_avg_sq != NULL) {
        memset(zero->exp_avg_sq, 0, f32);
    }
}

double cero_zero_loss_scale(const cero_zero *zero)
{
    return zero->dtype == CERO_DTYPE_F16 ? zero->scaler.scale : 1.0;
}

int64_t cero_zero_applied(const cero_zero *zero)
{
    return zero->applied;
}

int64_t cero_zero_skipped(const cero_zero *zero)
{
    return zero->skipped;
}
