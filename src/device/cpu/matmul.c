/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products: a cache of plans by descriptor, and the few ways a product can run.
 *
 * Most go to oneDNN as they are. One row (decoding) goes to the gemv kernels, which read the weights
 * once at memory speed. Types for which the library has no code on this CPU (f16 on all, bf16 without
 * AVX-512) are widened to f32 in scratch.
 *
 * A product has the same bits each time for a given number of threads. Between numbers of threads the
 * library may split the sum over K when C is too small to share; it then adds in another order.
 */
#include "device/cpu/dnnl_shim.h"
#include "device/device_impl.h"

#include <string.h>

typedef enum matmul_kind {
    KIND_EMPTY,  /* K == 0, or no element of C */
    KIND_GEMV_N, /* one row, weights stored [K, N]: our kernels over parts of K, sums in scratch */
    KIND_GEMV_T, /* one row, weights stored [N, K]: our kernels over ranges of N */
    KIND_DIRECT, /* the library on the caller's operands */
    KIND_WIDENED /* the library on f32 copies in scratch */
} matmul_kind;

struct cero_matmul {
    cero_matmul *next;     /* in its bucket */
    cero_matmul_desc desc; /* leading dimensions filled in */
    matmul_kind kind;
    cero_dnnl_matmul *product; /* owned; NULL for EMPTY and GEMV */
    size_t a_at;               /* WIDENED: where in scratch the f32 copies are */
    size_t b_at;
    size_t bias_at;
    size_t c_at;
    size_t inner_at; /* the library's own scratch */
    size_t scratch;
};

static int64_t a_rows(const cero_matmul_desc *d)
{
    return d->is_a_transposed ? d->K : d->M;
}

static int64_t a_cols(const cero_matmul_desc *d)
{
    return d->is_a_transposed ? d->M : d->K;
}

static int64_t b_rows(const cero_matmul_desc *d)
{
    return d->is_b_transposed ? d->N : d->K;
}

static int64_t b_cols(const cero_matmul_desc *d)
{
    return d->is_b_transposed ? d->K : d->N;
}

static int64_t at_least_one(int64_t x)
{
    return x > 0 ? x : 1;
}

static cero_matmul_desc desc_normalise(const cero_matmul_desc *desc)
{
    cero_matmul_desc d = *desc;

    d.lda = d.lda != 0 ? d.lda : at_least_one(a_cols(&d));
    d.ldb = d.ldb != 0 ? d.ldb : at_least_one(b_cols(&d));
    d.ldc = d.ldc != 0 ? d.ldc : at_least_one(d.N);
    return d;
}

static bool desc_equal(const cero_matmul_desc *x, const cero_matmul_desc *y)
{
    return x->M == y->M && x->N == y->N && x->K == y->K && x->lda == y->lda && x->ldb == y->ldb &&
           x->ldc == y->ldc && x->is_a_transposed == y->is_a_transposed &&
           x->is_b_transposed == y->is_b_transposed && x->has_bias == y->has_bias &&
           x->is_adding == y->is_adding && x->ab_dtype == y->ab_dtype && x->c_dtype == y->c_dtype;
}

static size_t desc_bucket(const cero_matmul_desc *d)
{
    uint64_t flags = (uint64_t)d->is_a_transposed | (uint64_t)d->is_b_transposed << 1 |
                     (uint64_t)d->has_bias << 2 | (uint64_t)d->is_adding << 3 |
                     (uint64_t)d->ab_dtype << 4 | (uint64_t)d->c_dtype << 8;
    uint64_t words[] = {(uint64_t)d->M,   (uint64_t)d->N,   (uint64_t)d->K, (uint64_t)d->lda,
                        (uint64_t)d->ldb, (uint64_t)d->ldc, flags};
    uint64_t h = 0xCBF29CE484222325u; // FNV-1a over words, then the high half folded in.

    for (size_t i = 0; i < CERO_COUNT_OF(words); i++) {
        h = (h ^ words[i]) * 0x100000001B3u;
    }
    return (size_t)((h ^ h >> 32) % CERO_MATMUL_BUCKETS);
}

static cero_status desc_check(const cero_matmul_desc *d)
{
    CERO_CHECK(d->M >= 0 && d->N >= 0 && d->K >= 0, CERO_ERR_SHAPE,
               "product of M %lld, N %lld, K %lld: a dimension is negative", (long long)d->M,
               (long long)d->N, (long long)d->K);
    CERO_CHECK((int)d->ab_dtype < CERO_FLOAT_DTYPES &&
                   (d->c_dtype == d->ab_dtype || d->c_dtype == CERO_DTYPE_F32),
               CERO_ERR_UNSUPPORTED,
               "product of %s giving %s: offered are f32, bf16 and f16, each giving itself or f32",
               cero_dtype_name(d->ab_dtype), cero_dtype_name(d->c_dtype));
    CERO_CHECK(!d->is_adding || d->c_dtype == CERO_DTYPE_F32, CERO_ERR_UNSUPPORTED,
               "product added to a %s matrix: sums are kept in f32 only",
               cero_dtype_name(d->c_dtype));
    CERO_CHECK(
        d->lda >= a_cols(d) && d->ldb >= b_cols(d) && d->ldc >= d->N, CERO_ERR_SHAPE,
        "product with rows of A %lld, B %lld, C %lld elements: leading dimensions %lld, %lld, "
        "%lld are shorter",
        (long long)a_cols(d), (long long)b_cols(d), (long long)d->N, (long long)d->lda,
        (long long)d->ldb, (long long)d->ldc);
    return CERO_OK;
}

static matmul_kind choose_kind(const cero_matmul_desc *d)
{
    bool is_row = !d->is_a_transposed || d->lda == 1; // Elements of the one row are neighbours.

    if (d->M == 0 || d->N == 0 || d->K == 0) {
        return KIND_EMPTY;
    }
    if (d->M == 1 && is_row && !d->is_adding && d->c_dtype == d->ab_dtype) {
        return d->is_b_transposed ? KIND_GEMV_T : KIND_GEMV_N;
    }
    return d->ab_dtype == CERO_DTYPE_F16 ? KIND_WIDENED : KIND_DIRECT;
}

static size_t take(size_t *total, int64_t count, size_t size)
{
    size_t at = *total;

    *total += cero_round_to_line((size_t)count * size);
    return at;
}

/* Contiguous f32 copies of all that is not f32, then the product of those. */
static cero_status plan_widened(cero_device *device, cero_matmul *m)
{
    cero_matmul_desc wide = m->desc;
    bool is_c_wide = wide.c_dtype != CERO_DTYPE_F32;

    wide.ab_dtype = CERO_DTYPE_F32;
    wide.c_dtype = CERO_DTYPE_F32;
    wide.lda = a_cols(&wide);
    wide.ldb = b_cols(&wide);
    wide.ldc = is_c_wide ? wide.N : wide.ldc;
    m->kind = KIND_WIDENED;
    m->scratch = 0;
    m->a_at = take(&m->scratch, wide.M * wide.K, sizeof(float));
    m->b_at = take(&m->scratch, wide.K * wide.N, sizeof(float));
    m->bias_at = take(&m->scratch, wide.has_bias ? wide.N : 0, sizeof(float));
    m->c_at = take(&m->scratch, is_c_wide ? wide.M * wide.N : 0, sizeof(float));
    CERO_TRY(cero_dnnl_matmul_create(device->dnnl, &wide, !device->backend->is_meta, &m->product));
    m->inner_at = m->scratch;
    m->scratch += cero_dnnl_matmul_scratch(m->product);
    return CERO_OK;
}

static cero_status plan_direct(cero_device *device, cero_matmul *m)
{
    CERO_TRY(
        cero_dnnl_matmul_create(device->dnnl, &m->desc, !device->backend->is_meta, &m->product));
    m->scratch = cero_dnnl_matmul_scratch(m->product);
    return CERO_OK;
}

/* Parts of K that are summed apart: whole rows of the weights each, as many for any number of threads. */
static int64_t gemv_parts(int64_t K)
{
    const int64_t least = 32; // rows worth a part
    const int64_t most = 8;
    int64_t parts = K / least;

    return parts < 1 ? 1 : parts > most ? most : parts;
}

static cero_status plan(cero_device *device, cero_matmul *m)
{
    cero_status st = CERO_OK;
    int saved = cero_device_threads_begin(device);

    m->kind = choose_kind(&m->desc);
    if (m->kind == KIND_DIRECT) {
        st = plan_direct(device, m);
        if (st == CERO_ERR_UNSUPPORTED && m->desc.ab_dtype != CERO_DTYPE_F32) {
            st = plan_widened(device, m);
        }
    } else if (m->kind == KIND_WIDENED) {
        st = plan_widened(device, m);
    } else if (m->kind == KIND_GEMV_N) {
        m->scratch = (size_t)(gemv_parts(m->desc.K) * m->desc.N) * sizeof(float);
    }
    cero_device_threads_end(saved);
    return st;
}

cero_status cero_device_matmul_plan(cero_device *device, const cero_matmul_desc *desc,
                                    const cero_matmul **out)
{
    cero_matmul_desc d = desc_normalise(desc);
    cero_status st = CERO_OK;

    CERO_TRY(desc_check(&d));
    size_t bucket = desc_bucket(&d);
    for (const cero_matmul *m = device->matmuls[bucket]; m != NULL; m = m->next) {
        if (desc_equal(&m->desc, &d)) {
            *out = m;
            return CERO_OK;
        }
    }
    cero_matmul *m = cero_new(1, sizeof(*m));
    CERO_CHECK(m != NULL, CERO_ERR_NOMEM, "no memory for the plan of a product");
    m->desc = d;
    CERO_TRY_GOTO(plan(device, m), fail);
    m->next = device->matmuls[bucket];
    device->matmuls[bucket] = m;
    *out = m;
    return CERO_OK;

fail:
    cero_matmul_destroy(m);
    return cero_error_prefix(st, "product of M %lld, N %lld, K %lld in %s: ", (long long)d.M,
                             (long long)d.N, (long long)d.K, cero_dtype_name(d.ab_dtype));
}

void cero_matmul_destroy(cero_matmul *matmul)
{
    while (matmul != NULL) {
        cero_matmul *next = matmul->next;

        cero_dnnl_matmul_destroy(&matmul->product);
        cero_delete(matmul);
        matmul = next;
    }
}

size_t cero_matmul_scratch(const cero_matmul *matmul)
{
    return matmul->scratch;
}

/* A product at work: what its tasks need. */
typedef struct matmul_job {
    const cero_kernels *kernels;
    const cero_matmul_desc *desc;
    const void *a;
    const void *b;
    const void *bias;
    void *c;
    float *sums; /* GEMV_N: [parts, N] */
} matmul_job;

enum {
    GEMV_BLOCK = 64 /* columns in one task: whole vectors, whatever the split */
};

static void gemv_t_task(void *context, int64_t begin, int64_t end, int thread)
{
    const matmul_job *job = context;
    const cero_matmul_desc *d = job->desc;
    size_t size = cero_dtype_size(d->ab_dtype);
    int64_t first = begin * GEMV_BLOCK;
    int64_t last = end * GEMV_BLOCK < d->N ? end * GEMV_BLOCK : d->N;

    CERO_UNUSED(thread);
    job->kernels->gemv_t[d->ab_dtype](
        d->K, last - first, job->a, cero_at(job->b, first * d->ldb, size), d->ldb,
        cero_at(job->bias, first, size), cero_at_mut(job->c, first, size));
}

/* Parts of K: each thread reads rows that follow each other, one stream of memory. */
static void gemv_n_task(void *context, int64_t begin, int64_t end, int thread)
{
    const matmul_job *job = context;
    const cero_matmul_desc *d = job->desc;
    size_t size = cero_dtype_size(d->ab_dtype);
    int64_t parts = gemv_parts(d->K);

    CERO_UNUSED(thread);
    for (int64_t p = begin; p < end; p++) {
        int64_t first = d->K * p / parts;
        int64_t last = d->K * (p + 1) / parts;
        job->kernels->gemv_n[d->ab_dtype](last - first, d->N, cero_at(job->a, first, size),
                                          cero_at(job->b, first * d->ldb, size), d->ldb,
                                          job->sums + p * d->N);
    }
}

/* Adds the parts in order, then the bias, and stores C. */
static void gemv_n_finish(const matmul_job *job)
{
    const cero_matmul_desc *d = job->desc;
    const cero_kernels *k = job->kernels;

    for (int64_t p = 1; p < gemv_parts(d->K); p++) {
        k->accumulate[CERO_DTYPE_F32](d->N, job->sums + p * d->N, job->sums);
    }
    if (job->bias != NULL) {
        k->accumulate[d->ab_dtype](d->N, job->bias, job->sums);
    }
    k->from_f32[d->ab_dtype](d->N, job->sums, job->c);
}

/* Rows of C that no product reaches: the bias, or zeros, or what was there when adding. */
static void empty_task(void *context, int64_t begin, int64_t end, int thread)
{
    const matmul_job *job = context;
    const cero_matmul_desc *d = job->desc;
    const cero_kernels *k = job->kernels;
    size_t size = cero_dtype_size(d->c_dtype);

    CERO_UNUSED(thread);
    for (int64_t r = begin; r < end; r++) {
        void *row = cero_at_mut(job->c, r * d->ldc, size);
        if (!d->is_adding) {
            memset(row, 0, (size_t)d->N * size);
        }
        if (job->bias == NULL) {
            continue;
        }
        if (d->c_dtype == CERO_DTYPE_F32) {
            k->accumulate[d->ab_dtype](d->N, job->bias, row);
        } else {
            memcpy(row, job->bias, (size_t)d->N * size);
        }
    }
}

/* A matrix on its way between its own type, with leading dimension, and contiguous f32. */
typedef struct copy_job {
    const cero_kernels *kernels;
    cero_dtype dtype;
    int64_t cols;
    int64_t ld;
    const void *x;
    void *y;
} copy_job;

static void widen_task(void *context, int64_t begin, int64_t end, int thread)
{
    const copy_job *job = context;

    CERO_UNUSED(thread);
    for (int64_t r = begin; r < end; r++) {
        job->kernels->to_f32[job->dtype](job->cols,
                                         cero_at(job->x, r * job->ld, cero_dtype_size(job->dtype)),
                                         cero_at_mut(job->y, r * job->cols, sizeof(float)));
    }
}

static void narrow_task(void *context, int64_t begin, int64_t end, int thread)
{
    const copy_job *job = context;

    CERO_UNUSED(thread);
    for (int64_t r = begin; r < end; r++) {
        job->kernels->from_f32[job->dtype](
            job->cols, cero_at(job->x, r * job->cols, sizeof(float)),
            cero_at_mut(job->y, r * job->ld, cero_dtype_size(job->dtype)));
    }
}

static cero_status run_product(cero_device *device, const cero_matmul *m, const matmul_job *job,
                               void *scratch)
{
    int saved = cero_device_threads_begin(device);
    cero_status st =
        cero_dnnl_matmul_run(device->dnnl, m->product, job->a, job->b, job->bias, job->c, scratch);

    cero_device_threads_end(saved);
    return st;
}

static cero_status run_widened(cero_device *device, const cero_matmul *m, const matmul_job *job,
                               unsigned char *scratch)
{
    const cero_matmul_desc *d = &m->desc;
    const cero_kernels *k = job->kernels;
    bool is_c_wide = d->c_dtype != CERO_DTYPE_F32;
    copy_job a = {k, d->ab_dtype, a_cols(d), d->lda, job->a, scratch + m->a_at};
    copy_job b = {k, d->ab_dtype, b_cols(d), d->ldb, job->b, scratch + m->b_at};
    copy_job bias = {k, d->ab_dtype, d->N, d->N, job->bias, scratch + m->bias_at};
    matmul_job wide = {k, d, a.y, b.y, bias.y, is_c_wide ? scratch + m->c_at : job->c, NULL};
    copy_job c = {k, d->c_dtype, d->N, d->ldc, wide.c, job->c};

    cero_device_parallel_for(device, a_rows(d), widen_task, &a);
    cero_device_parallel_for(device, b_rows(d), widen_task, &b);
    if (d->has_bias) {
        widen_task(&bias, 0, 1, 0);
    }
    CERO_TRY(run_product(device, m, &wide, scratch + m->inner_at));
    if (is_c_wide) {
        cero_device_parallel_for(device, d->M, narrow_task, &c);
    }
    return CERO_OK;
}

cero_status cero_device_matmul_run(cero_device *device, const cero_matmul *matmul, const void *a,
                                   const void *b, const void *bias, void *c, void *scratch)
{
    const cero_matmul_desc *d = &matmul->desc;
    matmul_job job = {device->kernels, d, a, b, d->has_bias ? bias : NULL, c, scratch};

    CERO_ASSERT(!device->backend->is_meta);
    switch (matmul->kind) {
    case KIND_EMPTY:
        cero_device_parallel_for(device, d->N > 0 ? d->M : 0, empty_task, &job);
        return CERO_OK;
    case KIND_GEMV_T:
        cero_device_parallel_for(device, (d->N + GEMV_BLOCK - 1) / GEMV_BLOCK, gemv_t_task, &job);
        return CERO_OK;
    case KIND_GEMV_N:
        cero_device_parallel_for(device, gemv_parts(d->K), gemv_n_task, &job);
        gemv_n_finish(&job);
        return CERO_OK;
    case KIND_DIRECT:
        return run_product(device, matmul, &job, scratch);
    case KIND_WIDENED:
        return run_widened(device, matmul, &job, scratch);
    }
    return CERO_FAIL(CERO_ERR_INTERNAL, "product of unknown kind %d", (int)matmul->kind);
}
