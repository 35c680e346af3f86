/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layer and root-mean-square normalisation, for one dtype. The formulas stand in ref/norm_tmpl.c; a row is
 * summed in four vectors, and the order of every sum depends on cols alone.
 */

/* Sum of (x - shift), or of its square. */
KERNEL_INLINE float FN(row_sum)(int64_t cols, const ELEMENT *x, float shift, bool is_square)
{
    vec offset = vec_set(shift);
    vec sum[4] = {vec_set(0.0f), vec_set(0.0f), vec_set(0.0f), vec_set(0.0f)};
    int64_t c = 0;

    for (; c + 4 * VEC_WIDTH <= cols; c += 4 * VEC_WIDTH) {
        for (int j = 0; j < 4; j++) {
            vec d = LOAD(x + c + j * VEC_WIDTH) - offset;
            sum[j] = is_square ? vec_fma(d, d, sum[j]) : vec_add(sum[j], d);
        }
    }
    for (; c < cols; c += VEC_WIDTH) {
        int64_t m = cols - c < VEC_WIDTH ? cols - c : VEC_WIDTH;
        vec d = LOAD_PART(x + c, m) - offset;
        d = m < VEC_WIDTH ? vec_part(d, m) : d;
        sum[0] = is_square ? vec_fma(d, d, sum[0]) : vec_add(sum[0], d);
    }
    return vec_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

/* y = gamma * ((x - mean) * rstd) + beta for m <= VEC_WIDTH columns */
KERNEL_INLINE void FN(norm_step)(int64_t m, const ELEMENT *x, const ELEMENT *gamma,
                                 const ELEMENT *beta, ELEMENT *y, float mean, float rstd)
{
    vec xhat = (LOAD_PART(x, m) - vec_set(mean)) * vec_set(rstd);
    vec bias = beta != NULL ? LOAD_PART(beta, m) : vec_set(0.0f);

    STORE_PART(y, m, vec_fma(LOAD_PART(gamma, m), xhat, bias));
}

KERNEL_INLINE void FN(norm_row)(int64_t cols, const ELEMENT *x, const ELEMENT *gamma,
                                const ELEMENT *beta, ELEMENT *y, float mean, float rstd)
{
    int64_t c = 0;

    for (; c + VEC_WIDTH <= cols; c += VEC_WIDTH) {
        FN(norm_step)
        (VEC_WIDTH, x + c, gamma + c, beta != NULL ? beta + c : NULL, y + c, mean, rstd);
    }
    if (c < cols) {
        FN(norm_step)
        (cols - c, x + c, gamma + c, beta != NULL ? beta + c : NULL, y + c, mean, rstd);
    }
}

static void FN(layernorm_forward)(int64_t rows, int64_t cols, float eps, const void *x,
                                  const void *gamma, const void *beta, void *y, float *mean,
                                  float *rstd)
{
    for (int64_t r = 0; r < rows; r++) {
        const ELEMENT *from = (const ELEMENT *)x + r * cols;
        ELEMENT *to = (ELEMENT *)y + r * cols;

        mean[r] = FN(row_sum)(cols, from, 0.0f, false) / (float)cols;
        float variance = FN(row_sum)(cols, from, mean[r], true) / (float)cols;
        rstd[r] = 1.0f / sqrtf(variance + eps);
        if (beta != NULL) {
            FN(norm_row)(cols, from, gamma, beta, to, mean[r], rstd[r]);
        } else {
            FN(norm_row)(cols, from, gamma, NULL, to, mean[r], rstd[r]);
        }
    }
}

static void FN(rmsnorm_forward)(int64_t rows, int64_t cols, float eps, const void *x,
                                const void *gamma, void *y, float *rstd)
{
    for (int64_t r = 0; r < rows; r++) {
        const ELEMENT *from = (const ELEMENT *)x + r * cols;
        float square = FN(row_sum)(cols, from, 0.0f, true) / (float)cols;

        rstd[r] = 1.0f / sqrtf(square + eps);
        FN(norm_row)(cols, from, gamma, NULL, (ELEMENT *)y + r * cols, 0.0f, rstd[r]);
    }
}

/* Adds the terms of g = gamma * dy and g * (x - mean) of m columns. */
KERNEL_INLINE void FN(backward_sum_step)(int64_t m, const ELEMENT *dy, const ELEMENT *x,
                                         const ELEMENT *gamma, float mean, vec *sum_g, vec *sum_gx)
{
    vec g = LOAD_PART(gamma, m) * LOAD_PART(dy, m);

    *sum_g = *sum_g + g;
    *sum_gx = vec_fma(g, LOAD_PART(x, m) - vec_set(mean), *sum_gx);
}

/* Both means of a row's backward: of g, and of g * xhat. */
KERNEL_INLINE void FN(backward_sums)(int64_t cols, const ELEMENT *dy, const ELEMENT *x,
                                     const ELEMENT *gamma, float mean, float rstd, float *mean_g,
                                     float *mean_gx)
{
    vec g[2] = {vec_set(0.0f), vec_set(0.0f)};
    vec gx[2] = {vec_set(0.0f), vec_set(0.0f)};
    int64_t c = 0;

    for (; c + 2 * VEC_WIDTH <= cols; c += 2 * VEC_WIDTH) {
        for (int j = 0; j < 2; j++) {
            int64_t at = c + j * VEC_WIDTH;
            FN(backward_sum_step)(VEC_WIDTH, dy + at, x + at, gamma + at, mean, &g[j], &gx[j]);
        }
    }
    for (; c < cols; c += VEC_WIDTH) {
        int64_t m = cols - c < VEC_WIDTH ? cols - c : VEC_WIDTH;
        FN(backward_sum_step)(m, dy + c, x + c, gamma + c, mean, &g[0], &gx[0]);
    }
    *mean_g = vec_sum(g[0] + g[1]) / (float)cols;
    *mean_gx = vec_sum(gx[0] + gx[1]) * rstd / (float)cols;
}

/* What FN(backward_step) needs of `count` rows that share one load and store of dgamma and dbeta. */
typedef struct FN(backward_rows) {
    const ELEMENT *dy;
    const ELEMENT *x;
    const ELEMENT *gamma;
    ELEMENT *dx;
    float *dgamma;
    float *dbeta; /* or NULL */
    int64_t cols;
    float mean[4];
    float rstd[4];
    float mean_g[4];
    float mean_gx[4];
} FN(backward_rows);

KERNEL_INLINE void FN(backward_step)(const FN(backward_rows) * rows, int count, int64_t c,
                                     int64_t m)
{
    vec gamma = LOAD_PART(rows->gamma + c, m);
    vec dgamma = load_part_f32(rows->dgamma + c, m);
    vec dbeta = rows->dbeta != NULL ? load_part_f32(rows->dbeta + c, m) : vec_set(0.0f);

    for (int r = 0; r < count; r++) {
        int64_t at = r * rows->cols + c;
        vec xhat = (LOAD_PART(rows->x + at, m) - vec_set(rows->mean[r])) * vec_set(rows->rstd[r]);
        vec dy = LOAD_PART(rows->dy + at, m);
        vec d = vec_fma(gamma, dy, vec_set(-rows->mean_g[r]));

        dgamma = vec_fma(dy, xhat, dgamma);
        dbeta = dbeta + dy;
        d = vec_fnma(xhat, vec_set(rows->mean_gx[r]), d) * vec_set(rows->rstd[r]);
        STORE_PART(rows->dx + at, m, d);
    }
    store_part_f32(rows->dgamma + c, m, dgamma);
    if (rows->dbeta != NULL) {
        store_part_f32(rows->dbeta + c, m, dbeta);
    }
}

KERNEL_INLINE void FN(backward_group)(FN(backward_rows) * rows, int count, bool is_centred)
{
    int64_t cols = rows->cols;
    int64_t c = 0;

    for (int r = 0; r < count; r++) {
        FN(backward_sums)
        (cols, rows->dy + r * cols, rows->x + r * cols, rows->gamma, rows->mean[r], rows->rstd[r],
         &rows->mean_g[r], &rows->mean_gx[r]);
        rows->mean_g[r] = is_centred ? rows->mean_g[r] : 0.0f;
    }
    for (; c + VEC_WIDTH <= cols; c += VEC_WIDTH) {
        FN(backward_step)(rows, count, c, VEC_WIDTH);
    }
    if (c < cols) {
        FN(backward_step)(rows, count, c, cols - c);
    }
}

/* mean is NULL in the root-mean-square form. */
static void FN(norm_backward)(int64_t rows, const FN(backward_rows) * all, const float *mean,
                              const float *rstd, bool is_adding)
{
    FN(backward_rows) group = *all;
    int64_t cols = all->cols;
    int64_t r = 0;

    if (!is_adding && cols > 0) {
        memset(all->dgamma, 0, (size_t)cols * sizeof(float));
        if (all->dbeta != NULL) {
            memset(all->dbeta, 0, (size_t)cols * sizeof(float));
        }
    }
    while (r < rows) {
        int count = rows - r >= 4 ? 4 : 1;

        group.dy = all->dy + r * cols;
        group.x = all->x + r * cols;
        group.dx = all->dx + r * cols;
        for (int j = 0; j < count; j++) {
            group.mean[j] = mean != NULL ? mean[r + j] : 0.0f;
            group.rstd[j] = rstd[r + j];
        }
        if (count == 4) {
            FN(backward_group)(&group, 4, mean != NULL);
        } else {
            FN(backward_group)(&group, 1, mean != NULL);
        }
        r += count;
    }
}

static void FN(layernorm_backward)(int64_t rows, int64_t cols, const void *dy, const void *x,
                                   const void *gamma, const float *mean, const float *rstd,
                                   bool is_adding, void *dx, float *dgamma, float *dbeta)
{
    FN(backward_rows)
    all = {
        .dy = dy, .x = x, .gamma = gamma, .dx = dx, .dgamma = dgamma, .dbeta = dbeta, .cols = cols};
    FN(norm_backward)(rows, &all, mean, rstd, is_adding);
}

static void FN(rmsnorm_backward)(int64_t rows, int64_t cols, const void *dy, const void *x,
                                 const void *gamma, const float *rstd, bool is_adding, void *dx,
                                 float *dgamma)
{
    FN(layernorm_backward)(rows, cols, dy, x, gamma, NULL, rstd, is_adding, dx, dgamma, NULL);
}

static void FN(fill)(cero_kernels *k)
{
    k->layernorm_forward[DTYPE_INDEX] = FN(layernorm_forward);
    k->layernorm_backward[DTYPE_INDEX] = FN(layernorm_backward);
    k->rmsnorm_forward[DTYPE_INDEX] = FN(rmsnorm_forward);
    k->rmsnorm_backward[DTYPE_INDEX] = FN(rmsnorm_backward);
}
