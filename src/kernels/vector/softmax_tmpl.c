/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax of f32, with the maximum and the sum of cross_entropy_tmpl.c. */

static void FN(softmax)(int64_t n, const float *x, float *y)
{
    float max;
    float sum;
    int64_t i = 0;

    FN(max_and_sum_f32)(n, x, &max, &sum);
    vec offset = vec_set(max);
    vec total = vec_set(sum);
    for (; i + VEC_WIDTH <= n; i += VEC_WIDTH) {
        store_f32(y + i, vec_exp(load_f32(x + i) - offset) / total);
    }
    if (i < n) {
        store_part_f32(y + i, n - i, vec_exp(load_part_f32(x + i, n - i) - offset) / total);
    }
}

static void FN(fill)(cero_kernels *k)
{
    k->softmax = FN(softmax);
}
