/* SPDX-License-Identifier: Apache-2.0 */
/* The table's entries for one dtype, on top of forward and backward of any. See twins.h. */
static void FN(attention_forward)(const cero_attention_args *args)
{
    forward(DTYPE_INDEX, args);
}

static void FN(attention_backward)(const cero_attention_args *args)
{
    backward(DTYPE_INDEX, args);
}

static void FN(fill)(cero_kernels *k)
{
    k->attention_forward[DTYPE_INDEX] = FN(attention_forward);
    k->attention_backward[DTYPE_INDEX] = FN(attention_backward);
}
