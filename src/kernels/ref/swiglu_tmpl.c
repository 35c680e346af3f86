/* SPDX-License-Identifier: Apache-2.0 */
/* SwiGLU's gate (Shazeer, 2020), for one dtype: y = silu(gate) * up. */

static void FN(swiglu_forward)(int64_t n, const void *gate, const void *up, void *y)
{
    const ELEMENT *g = gate;
    const ELEMENT *u = up;
    ELEMENT *to = y;

    for (int64_t i = 0; i < n; i++) {
        STORE(to + i, silu(LOAD(g + i)) * LOAD(u + i));
    }
}

static void FN(swiglu_backward)(int64_t n, const void *gate, const void *up, const void *dy,
                                void *dgate, void *dup)
{
    const ELEMENT *g = gate;
    const ELEMENT *u = up;
    const ELEMENT *d = dy;
    ELEMENT *dg = dgate;
    ELEMENT *du = dup;

    for (int64_t i = 0; i < n; i++) {
        STORE(dg + i, LOAD(d + i) * LOAD(u + i) * silu_slope(LOAD(g + i)));
        STORE(du + i, LOAD(d + i) * silu(LOAD(g + i)));
    }
}

static void FN(fill)(cero_kernels *k)
{
    k->swiglu_forward[DTYPE_INDEX] = FN(swiglu_forward);
    k->swiglu_backward[DTYPE_INDEX] = FN(swiglu_backward);
}
