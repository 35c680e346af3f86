/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layer normalisation (Ba et al., 2016) and its root-mean-square form (Zhang and Sennrich, 2019), for
 * one dtype. With xhat = (x - mean) * rstd and g = gamma * dy:
 *   dx = rstd * (g - mean(g) - xhat * mean(g * xhat)), dgamma += dy * xhat, dbeta += dy;
 * the root-mean-square form has mean = 0 and no mean(g).
 */

static void FN(layernorm_forward)(int64_t rows, int64_t cols, float eps, const void *x,
                                  const void *gamma, const void *beta, void *y, float *mean,
                                  float *rstd)
{
    const ELEMENT *weight = gamma; /* [cols] */
    const ELEMENT *bias = beta;    /* [cols] or NULL */

    for (int64_t r = 0; r < rows; r++) {
        const ELEMENT *from = (const ELEMENT *)x + r * cols;
        ELEMENT *to = (ELEMENT *)y + r * cols;
        float sum = 0.0f;
        float square = 0.0f;

        for (int64_t c = 0; c < cols; c++) {
            sum += LOAD(from + c);
        }
        mean[r] = sum / (float)cols;
        for (int64_t c = 0; c < cols; c++) {
            float d = LOAD(from + c) - mean[r];
            square += d * d;
        }
        rstd[r] = 1.0f / sqrtf(square / (float)cols + eps);
        for (int64_t c = 0; c < cols; c++) {
            float xhat = (LOAD(from + c) - mean[r]) * rstd[r];
            STORE(to + c, LOAD(weight + c) * xhat + (bias != NULL ? LOAD(bias + c) : 0.0f));
        }
    }
}

static void FN(rmsnorm_forward)(int64_t rows, int64_t cols, float eps, const void *x,
                                const void *gamma, void *y, float *rstd)
{
    const ELEMENT *weight = gamma; /* [cols] */

    for (int64_t r = 0; r < rows; r++) {
        const ELEMENT *from = (const ELEMENT *)x + r * cols;
        ELEMENT *to = (ELEMENT *)y + r * cols;
        float square = 0.0f;

        for (int64_t c = 0; c < cols; c++) {
            square += LOAD(from + c) * LOAD(from + c);
        }
        rstd[r] = 1.0f / sqrtf(square / (float)cols + eps);
        for (int64_t c = 0; c < cols; c++) {
            STORE(to + c, LOAD(weight + c) * (LOAD(from + c) * rstd[r]));
        }
    }
}

/* One row of either form: `is_centred` is false for the root-mean-square form, and mean is 0 then. */
static void FN(norm_backward_row)(int64_t cols, bool is_centred, const ELEMENT *dy,
                                  const ELEMENT *x, const ELEMENT *gamma, float mean, float rstd,
                                  ELEMENT *dx, float *dgamma, float *dbeta)
{
    float sum_g = 0.0f;
    float sum_gx = 0.0f;

    for (int64_t c = 0; c < cols; c++) {
        float g = LOAD(gamma + c) * LOAD(dy + c);
        sum_g += g;
        sum_gx += g * ((LOAD(x + c) - mean) * rstd);
    }
    float mean_g = is_centred ? sum_g / (float)cols : 0.0f;
    float mean_gx = sum_gx / (float)cols;
    for (int64_t c = 0; c < cols; c++) {
        float xhat = (LOAD(x + c) - mean) * rstd;
        float d = LOAD(dy + c);

        dgamma[c] += d * xhat;
        if (dbeta != NULL) {
            dbeta[c] += d;
        }
        STORE(dx + c, rstd * (LOAD(gamma + c) * d - mean_g - xhat * mean_gx));
    }
}

static void FN(norm_backward)(int64_t rows, int64_t cols, const ELEMENT *dy, const ELEMENT *x,
                              const ELEMENT *gamma, const float *mean, const float *rstd,
                              bool is_adding, ELEMENT *dx, float *dgamma, float *dbeta)
{
    for (int64_t c = 0; c < cols && !is_adding; c++) {
        dgamma[c] = 0.0f;
        if (dbeta != NULL) {
            dbeta[c] = 0.0f;
        }
    }
    for (int64_t r = 0; r < rows; r++) {
        FN(norm_backward_row)
        (cols, mean != NULL, dy + r * cols, x + r * cols, gamma, mean != NULL ? mean[r] : 0.0f,
         rstd[r], dx + r * cols, dgamma, dbeta);
    }
}

static void FN(layernorm_backward)(int64_t rows, int64_t cols, const void *dy, const void *x,
                                   const void *gamma, const float *mean, const float *rstd,
                                   bool is_adding, void *dx, float *dgamma, float *dbeta)
{
    FN(norm_backward)(rows, cols, dy, x, gamma, mean, rstd, is_adding, dx, dgamma, dbeta);
}

static void FN(rmsnorm_backward)(int64_t rows, int64_t cols, const void *dy, const void *x,
                                 const void *gamma, const float *rstd, bool is_adding, void *dx,
                                 float *dgamma)
{
    FN(norm_backward)(rows, cols, dy, x, gamma, NULL, rstd, is_adding, dx, dgamma, NULL);
}

static void FN(fill)(cero_kernels *k)
{
    k->layernorm_forward[DTYPE_INDEX] = FN(layernorm_forward);
    k->layernorm_backward[DTYPE_INDEX] = FN(layernorm_backward);
    k->rmsnorm_forward[DTYPE_INDEX] = FN(rmsnorm_forward);
    k->rmsnorm_backward[DTYPE_INDEX] = FN(rmsnorm_backward);
}
