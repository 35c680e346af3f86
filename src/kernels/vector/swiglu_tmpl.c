/* SPDX-License-Identifier: Apache-2.0 */
/* SwiGLU's gate, for one dtype: y = silu(gate) * up. */

KERNEL_INLINE void FN(swiglu_step)(int64_t m, const ELEMENT *gate, const ELEMENT *up, ELEMENT *y)
{
    STORE_PART(y, m, silu(LOAD_PART(gate, m)) * LOAD_PART(up, m));
}

static void FN(swiglu_forward)(int64_t n, const void *gate, const void *up, void *y)
{
    const ELEMENT *g = gate;
    const ELEMENT *u = up;
    ELEMENT *to = y;
    int64_t i = 0;

    for (; i + VEC_WIDTH <= n; i += VEC_WIDTH) {
        FN(swiglu_step)(VEC_WIDTH, g + i, u + i, to + i);
    }
    if (i < n) {
        FN(swiglu_step)(n - i, g + i, u + i, to + i);
    }
}

KERNEL_INLINE void FN(swiglu_backward_step)(int64_t m, const ELEMENT *gate, const ELEMENT *up,
                                            const ELEMENT *dy, ELEMENT *dgate, ELEMENT *dup)
{
    vec g = LOAD_PART(gate, m);
    vec d = LOAD_PART(dy, m);

    STORE_PART(dgate, m, d * LOAD_PART(up, m) * silu_slope(g));
    STORE_PART(dup, m, d * silu(g));
}

static void FN(swiglu_backward)(int64_t n, const void *gate, const void *up, const void *dy,
                                void *dgate, void *dup)
{
    const ELEMENT *g = gate;
    const ELEMENT *u = up;
    const ELEMENT *d = dy;
    ELEMENT *dg = dgate;
    ELEMENT *du = dup;
    int64_t i = 0;

    for (; i + VEC_WIDTH <= n; i += VEC_WIDTH) {
        FN(swiglu_backward_step)(VEC_WIDTH, g + i, u + i, d + i, dg + i, du + i);
    }
    if (i < n) {
        FN(swiglu_backward_step)(n - i, g + i, u + i, d + i, dg + i, du + i);
    }
}

static void FN(fill)(cero_kernels *k)
{
    k->swiglu_forward[DTYPE_INDEX] = FN(swiglu_forward);
    k->swiglu_backward[DTYPE_INDEX] = FN(swiglu_backward);
}
