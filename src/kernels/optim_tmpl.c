/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The optimizers' entries in the table, for one dtype of the gradient; AdamW has one for each dtype of
 * the copy. Included at the end of ref/optim_tmpl.c and vector/optim_tmpl.c, which hold the loops.
 */

static void FN(adamw_to_f32)(int64_t n, const cero_adamw_args *args, const void *grad,
                             float *master, float *exp_avg, float *exp_avg_sq, void *copy)
{
    FN(adamw)(n, args, grad, master, exp_avg, exp_avg_sq, CERO_DTYPE_F32, copy);
}

static void FN(adamw_to_bf16)(int64_t n, const cero_adamw_args *args, const void *grad,
                              float *master, float *exp_avg, float *exp_avg_sq, void *copy)
{
    FN(adamw)(n, args, grad, master, exp_avg, exp_avg_sq, CERO_DTYPE_BF16, copy);
}

static void FN(adamw_to_f16)(int64_t n, const cero_adamw_args *args, const void *grad,
                             float *master, float *exp_avg, float *exp_avg_sq, void *copy)
{
    FN(adamw)(n, args, grad, master, exp_avg, exp_avg_sq, CERO_DTYPE_F16, copy);
}

static void FN(fill)(cero_kernels *k)
{
    k->adamw[DTYPE_INDEX][CERO_DTYPE_F32] = FN(adamw_to_f32);
    k->adamw[DTYPE_INDEX][CERO_DTYPE_BF16] = FN(adamw_to_bf16);
    k->adamw[DTYPE_INDEX][CERO_DTYPE_F16] = FN(adamw_to_f16);
    k->sgd[DTYPE_INDEX] = FN(sgd);
    k->adagrad[DTYPE_INDEX] = FN(adagrad);
    k->lion[DTYPE_INDEX] = FN(lion);
    k->lamb_direction[DTYPE_INDEX] = FN(lamb_direction);
}
