/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary positions (Su et al., 2021) in the half-split layout, for one dtype. */

static void FN(rotary)(int64_t heads, int64_t head_dim, const float *cos, const float *sin,
                       float sin_sign, const void *x, void *y)
{
    int64_t half = head_dim / 2;

    for (int64_t h = 0; h < heads; h++) {
        const ELEMENT *from = (const ELEMENT *)x + h * head_dim;
        ELEMENT *to = (ELEMENT *)y + h * head_dim;

        for (int64_t d = 0; d < half; d++) {
            float a = LOAD(from + d);
            float b = LOAD(from + half + d);
            float s = sin_sign * sin[d];

            STORE(to + d, a * cos[d] - b * s);
            STORE(to + half + d, b * cos[d] + a * s);
        }
    }
}

static void FN(fill)(cero_kernels *k)
{
    k->rotary[DTYPE_INDEX] = FN(rotary);
}
