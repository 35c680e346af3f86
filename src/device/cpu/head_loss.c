/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Language-model head and loss over chunks of rows, so that B*T*V logits never exist at once.
 *
 * A chunk's logits live in scratch; the cross-entropy kernel turns them into their gradients in place,
 * which two more products take while they are at hand. All products go over panels of the vocabulary:
 * that bounds what a product needs beside its operands (accumulators in f32, widened copies). Chunks,
 * panels and their order depend on the shape alone.
 */
#include "device/device_impl.h"

#include <string.h>

enum {
    PANEL = 4096 /* rows of the weight in one product */
};

/* A panel is the first, which writes dx, or one of those that add to it; the last may be narrower. */
typedef enum panel_kind {
    PANEL_FIRST,
    PANEL_MIDDLE,
    PANEL_LAST,
    PANEL_KINDS
} panel_kind;

/* The products of one panel, borrowed from the device. */
typedef struct head_panel {
    const cero_matmul *logits;
    const cero_matmul *dx;           /* NULL for loss alone, as below */
    const cero_matmul *dweight;      /* the first chunk writes, */
    const cero_matmul *dweight_more; /* the others add */
} head_panel;

struct cero_head_loss {
    cero_head_loss *next;
    cero_dtype dtype;
    int64_t rows;
    int64_t cols;
    int64_t vocab;
    bool is_backward;
    int64_t ld;                    /* elements between rows of logits */
    int64_t chunk;                 /* rows of all chunks but the last */
    head_panel whole[PANEL_KINDS]; /* of `chunk` rows */
    head_panel last[PANEL_KINDS];  /* of the rows that remain */
    size_t dx_at;                  /* where in scratch dx is summed in f32, unless it is f32 */
    size_t product_at;             /* where the products' own scratch begins */
    size_t scratch;
};

/* Rows at once: enough for efficient products, few enough to keep scratch below this many bytes. */
static int64_t choose_chunk(int64_t rows, size_t row_bytes)
{
    const size_t budget = (size_t)112 << 20;
    const int64_t most = 512;
    const int64_t least = 16;
    int64_t fitting = (int64_t)(budget / row_bytes) / least * least;
    int64_t limit = fitting < least ? least : fitting > most ? most : fitting;
    int64_t chunks = (rows + limit - 1) / limit;

    // Even chunks in multiples of 16 rows: no short last one.
    int64_t even = chunks > 0 ? ((rows + chunks - 1) / chunks + least - 1) / least * least : least;
    return even < rows ? even : rows;
}

/*
 * Rows of logits start on a cache line, and never a multiple of 4096 bytes apart: transposed reads
 * would then meet in one set of the cache.
 */
static int64_t choose_ld(int64_t vocab, size_t size)
{
    const int64_t line = CERO_MEM_ALIGNMENT / (int64_t)size;
    int64_t ld = (vocab + line - 1) / line * line;

    return ld * (int64_t)size % 4096 == 0 ? ld + line : ld;
}

static size_t larger(size_t x, size_t y)
{
    return x > y ? x : y;
}

static cero_status plan_product(cero_device *d, const cero_matmul_desc *desc, size_t *scratch,
                                const cero_matmul **out)
{
    CERO_TRY(cero_device_matmul_plan(d, desc, out));
    *scratch = larger(*scratch, cero_matmul_scratch(*out));
    return CERO_OK;
}

static int64_t panel_width(int64_t vocab, panel_kind kind)
{
    int64_t rest = vocab % PANEL;

    if (kind == PANEL_FIRST) {
        return vocab < PANEL ? vocab : PANEL;
    }
    return kind == PANEL_MIDDLE || rest == 0 ? PANEL : rest;
}

static cero_status plan_panel(cero_device *d, const cero_head_loss *plan, int64_t rows,
                              panel_kind kind, size_t *scratch, head_panel *panel)
{
    int64_t width = panel_width(plan->vocab, kind);
    cero_matmul_desc logits = {.M = rows,
                               .N = width,
                               .K = plan->cols,
                               .ldc = plan->ld,
                               .is_b_transposed = true,
                               .ab_dtype = plan->dtype,
                               .c_dtype = plan->dtype};
    cero_matmul_desc dx = {.M = rows,
                           .N = plan->cols,
                           .K = width,
                           .lda = plan->ld,
                           .is_adding = kind != PANEL_FIRST,
                           .ab_dtype = plan->dtype,
                           .c_dtype = CERO_DTYPE_F32};
    cero_matmul_desc dweight = {.M = width,
                                .N = plan->cols,
                                .K = rows,
                                .lda = plan->ld,
                                .is_a_transposed = true,
                                .ab_dtype = plan->dtype,
                                .c_dtype = CERO_DTYPE_F32};

    CERO_TRY(plan_product(d, &logits, scratch, &panel->logits));
    if (plan->is_backward) {
        CERO_TRY(plan_product(d, &dx, scratch, &panel->dx));
        CERO_TRY(plan_product(d, &dweight, scratch, &panel->dweight));
        dweight.is_adding = true;
        CERO_TRY(plan_product(d, &dweight, scratch, &panel->dweight_more));
    }
    return CERO_OK;
}

static cero_status plan_chunk(cero_device *d, const cero_head_loss *plan, int64_t rows,
                              size_t *scratch, head_panel panels[PANEL_KINDS])
{
    if (rows == 0) {
        return CERO_OK;
    }
    CERO_TRY(plan_panel(d, plan, rows, PANEL_FIRST, scratch, &panels[PANEL_FIRST]));
    if (plan->vocab > PANEL) {
        CERO_TRY(plan_panel(d, plan, rows, PANEL_LAST, scratch, &panels[PANEL_LAST]));
    }
    if (plan->vocab > 2 * (int64_t)PANEL) {
        CERO_TRY(plan_panel(d, plan, rows, PANEL_MIDDLE, scratch, &panels[PANEL_MIDDLE]));
    }
    return CERO_OK;
}

static cero_status plan_chunks(cero_device *d, cero_head_loss *plan)
{
    size_t size = cero_dtype_size(plan->dtype);
    bool is_dx_summed = plan->is_backward && plan->dtype != CERO_DTYPE_F32;
    size_t products = 0;

    plan->ld = choose_ld(plan->vocab, size);
    plan->chunk = choose_chunk(plan->rows, (size_t)plan->ld * size);
    CERO_TRY(plan_chunk(d, plan, plan->chunk, &products, plan->whole));
    CERO_TRY(
        plan_chunk(d, plan, plan->chunk > 0 ? plan->rows % plan->chunk : 0, &products, plan->last));
    plan->dx_at = cero_round_to_line((size_t)(plan->chunk * plan->ld) * size);
    plan->product_at =
        plan->dx_at +
        (is_dx_summed ? cero_round_to_line((size_t)(plan->chunk * plan->cols) * sizeof(float)) : 0);
    plan->scratch = plan->product_at + products;
    return CERO_OK;
}

cero_status cero_device_head_loss_plan(cero_device *d, cero_dtype dtype, int64_t rows, int64_t cols,
                                       int64_t vocab, bool is_backward, const cero_head_loss **out)
{
    cero_status st = CERO_OK;

    CERO_CHECK(rows >= 0 && cols > 0 && vocab > 0, CERO_ERR_SHAPE,
               "head of %lld rows, %lld columns, vocabulary %lld: sizes must be positive",
               (long long)rows, (long long)cols, (long long)vocab);
    for (const cero_head_loss *p = d->head_losses; p != NULL; p = p->next) {
        if (p->dtype == dtype && p->rows == rows && p->cols == cols && p->vocab == vocab &&
            p->is_backward == is_backward) {
            *out = p;
            return CERO_OK;
        }
    }
    cero_head_loss *plan = cero_new(1, sizeof(*plan));
    CERO_CHECK(plan != NULL, CERO_ERR_NOMEM, "no memory for the plan of a head");
    *plan = (cero_head_loss){
        .dtype = dtype, .rows = rows, .cols = cols, .vocab = vocab, .is_backward = is_backward};
    CERO_TRY_GOTO(plan_chunks(d, plan), fail);
    plan->next = d->head_losses;
    d->head_losses = plan;
    *out = plan;
    return CERO_OK;

fail:
    cero_head_loss_destroy(plan);
    return st;
}

void cero_head_loss_destroy(cero_head_loss *plan)
{
    while (plan != NULL) {
        cero_head_loss *next = plan->next;

        cero_delete(plan);
        plan = next;
    }
}

size_t cero_head_loss_scratch(const cero_head_loss *plan)
{
    return plan->scratch;
}

typedef struct loss_job {
    const cero_kernels *kernels;
    const cero_head_loss *plan;
    const int32_t *targets; /* of the chunk's rows, as all below */
    const float *row_grad;  /* NULL for loss alone */
    float *row_loss;
    void *logits;
} loss_job;

static void loss_task(void *context, int64_t begin, int64_t end, int thread)
{
    const loss_job *job = context;
    const cero_head_loss *plan = job->plan;

    CERO_UNUSED(thread);
    for (int64_t r = begin; r < end; r++) {
        void *row = cero_at_mut(job->logits, r * plan->ld, cero_dtype_size(plan->dtype));
        job->row_loss[r] = job->kernels->cross_entropy[plan->dtype](
            plan->vocab, row, job->targets[r], job->row_grad != NULL ? job->row_grad[r] : 0.0f,
            job->row_grad != NULL ? row : NULL);
    }
}

/* One chunk of rows at work: addresses of its first row. */
typedef struct chunk_job {
    const cero_head_loss *plan;
    const head_panel *panels; /* [PANEL_KINDS] */
    bool is_first;
    int64_t rows;
    const void *x;
    const void *weight;
    void *logits;
    float *dx; /* f32 */
    float *dweight;
    void *scratch; /* of the products */
} chunk_job;

/* The panel that begins at row `at` of the weight. */
static const head_panel *chunk_panel(const chunk_job *job, int64_t at)
{
    panel_kind kind = at == 0                          ? PANEL_FIRST
                      : at + PANEL >= job->plan->vocab ? PANEL_LAST
                                                       : PANEL_MIDDLE;
    return &job->panels[kind];
}

static cero_status chunk_logits(cero_device *d, const chunk_job *job)
{
    const cero_head_loss *plan = job->plan;
    size_t size = cero_dtype_size(plan->dtype);

    for (int64_t at = 0; at < plan->vocab; at += PANEL) {
        CERO_TRY(cero_device_matmul_run(d, chunk_panel(job, at)->logits, job->x,
                                        cero_at(job->weight, at * plan->cols, size), NULL,
                                        cero_at_mut(job->logits, at, size), job->scratch));
    }
    return CERO_OK;
}

static cero_status chunk_gradients(cero_device *d, const chunk_job *job)
{
    const cero_head_loss *plan = job->plan;
    size_t size = cero_dtype_size(plan->dtype);

    for (int64_t at = 0; at < plan->vocab; at += PANEL) {
        const head_panel *panel = chunk_panel(job, at);
        const void *dlogits = cero_at(job->logits, at, size);

        if (job->dx != NULL) {
            CERO_TRY(cero_device_matmul_run(d, panel->dx, dlogits,
                                            cero_at(job->weight, at * plan->cols, size), NULL,
                                            job->dx, job->scratch));
        }
        if (job->dweight != NULL) {
            CERO_TRY(cero_device_matmul_run(d, job->is_first ? panel->dweight : panel->dweight_more,
                                            dlogits, job->x, NULL, job->dweight + at * plan->cols,
                                            job->scratch));
        }
    }
    return CERO_OK;
}

static cero_status run_chunk(cero_device *d, const cero_head_loss *plan,
                             const cero_head_loss_args *args, int64_t row)
{
    size_t size = cero_dtype_size(plan->dtype);
    bool is_whole = plan->rows - row >= plan->chunk;
    void *dx = cero_at_mut(args->dx, row * plan->cols, size);
    unsigned char *scratch = args->scratch;
    bool is_dx_summed = dx != NULL && plan->dtype != CERO_DTYPE_F32;
    chunk_job job = {
        .plan = plan,
        .panels = is_whole ? plan->whole : plan->last,
        .is_first = row == 0,
        .rows = is_whole ? plan->chunk : plan->rows - row,
        .x = cero_at(args->x, row * plan->cols, size),
        .weight = args->weight,
        .logits = scratch,
        .dx = is_dx_summed ? (float *)(void *)(scratch + plan->dx_at) : dx,
        .dweight = args->dweight,
        .scratch = scratch + plan->product_at,
    };
    loss_job loss = {.kernels = d->kernels,
                     .plan = plan,
                     .targets = args->targets + row,
                     .row_grad = args->row_grad != NULL ? args->row_grad + row : NULL,
                     .row_loss = args->row_loss + row,
                     .logits = job.logits};

    CERO_TRY(chunk_logits(d, &job));
    cero_device_parallel_for(d, job.rows, loss_task, &loss);
    CERO_TRY(chunk_gradients(d, &job));
    if (is_dx_summed) {
        cero_device_from_f32(d, plan->dtype, job.rows * plan->cols, job.dx, dx);
    }
    return CERO_OK;
}

cero_status cero_device_head_loss_run(cero_device *d, const cero_head_loss *plan,
                                      const cero_head_loss_args *args)
{
    CERO_ASSERT(!d->backend->is_meta);
    CERO_ASSERT(args->dtype == plan->dtype && args->rows == plan->rows &&
                args->cols == plan->cols && args->vocab == plan->vocab);
    CERO_ASSERT(args->row_grad != NULL || (args->dx == NULL && args->dweight == NULL));
    CERO_ASSERT(args->row_grad == NULL || plan->is_backward);
    if (plan->rows == 0 && args->dweight != NULL) {
        memset(args->dweight, 0, (size_t)(plan->vocab * plan->cols) * sizeof(float));
    }
    for (int64_t row = 0; row < plan->rows; row += plan->chunk) {
        CERO_TRY(run_chunk(d, plan, args, row));
    }
    return CERO_OK;
}
