/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entry points of the optimizer family: one function for each pair of storage types, and the
 * function that puts them into the table. Included once at the end of optim_<isa>.c, whose bodies
 * (adamw_range, sgd_range, …) take the types as arguments and are inlined here with constants.
 */

static void adamw_f32_f32(int64_t n, const cero_adamw_args *args, const void *grad, float *master,
                          float *exp_avg, float *exp_avg_sq, void *copy)
{
    adamw_range(n, args, CERO_DTYPE_F32, grad, master, exp_avg, exp_avg_sq, CERO_DTYPE_F32, copy);
}

static void adamw_f32_bf16(int64_t n, const cero_adamw_args *args, const void *grad, float *master,
                           float *exp_avg, float *exp_avg_sq, void *copy)
{
    adamw_range(n, args, CERO_DTYPE_F32, grad, master, exp_avg, exp_avg_sq, CERO_DTYPE_BF16, copy);
}

static void adamw_f32_f16(int64_t n, const cero_adamw_args *args, const void *grad, float *master,
                          float *exp_avg, float *exp_avg_sq, void *copy)
{
    adamw_range(n, args, CERO_DTYPE_F32, grad, master, exp_avg, exp_avg_sq, CERO_DTYPE_F16, copy);
}

static void adamw_bf16_f32(int64_t n, const cero_adamw_args *args, const void *grad, float *master,
                           float *exp_avg, float *exp_avg_sq, void *copy)
{
    adamw_range(n, args, CERO_DTYPE_BF16, grad, master, exp_avg, exp_avg_sq, CERO_DTYPE_F32, copy);
}

static void adamw_bf16_bf16(int64_t n, const cero_adamw_args *args, const void *grad, float *master,
                            float *exp_avg, float *exp_avg_sq, void *copy)
{
    adamw_range(n, args, CERO_DTYPE_BF16, grad, master, exp_avg, exp_avg_sq, CERO_DTYPE_BF16, copy);
}

static void adamw_bf16_f16(int64_t n, const cero_adamw_args *args, const void *grad, float *master,
                           float *exp_avg, float *exp_avg_sq, void *copy)
{
    adamw_range(n, args, CERO_DTYPE_BF16, grad, master, exp_avg, exp_avg_sq, CERO_DTYPE_F16, copy);
}

static void adamw_f16_f32(int64_t n, const cero_adamw_args *args, const void *grad, float *master,
                          float *exp_avg, float *exp_avg_sq, void *copy)
{
    adamw_range(n, args, CERO_DTYPE_F16, grad, master, exp_avg, exp_avg_sq, CERO_DTYPE_F32, copy);
}

static void adamw_f16_bf16(int64_t n, const cero_adamw_args *args, const void *grad, float *master,
                           float *exp_avg, float *exp_avg_sq, void *copy)
{
    adamw_range(n, args, CERO_DTYPE_F16, grad, master, exp_avg, exp_avg_sq, CERO_DTYPE_BF16, copy);
}

static void adamw_f16_f16(int64_t n, const cero_adamw_args *args, const void *grad, float *master,
                          float *exp_avg, float *exp_avg_sq, void *copy)
{
    adamw_range(n, args, CERO_DTYPE_F16, grad, master, exp_avg, exp_avg_sq, CERO_DTYPE_F16, copy);
}

static void sgd_f32(int64_t n, const cero_sgd_args *args, const void *grad, float *master,
                    float *momentum)
{
    sgd_range(n, args, CERO_DTYPE_F32, grad, master, momentum);
}

static void sgd_bf16(int64_t n, const cero_sgd_args *args, const void *grad, float *master,
                     float *momentum)
{
    sgd_range(n, args, CERO_DTYPE_BF16, grad, master, momentum);
}

static void sgd_f16(int64_t n, const cero_sgd_args *args, const void *grad, float *master,
                    float *momentum)
{
    sgd_range(n, args, CERO_DTYPE_F16, grad, master, momentum);
}

static void adagrad_f32(int64_t n, const cero_adagrad_args *args, const void *grad, float *master,
                        float *sum)
{
    adagrad_range(n, args, CERO_DTYPE_F32, grad, master, sum);
}

static void adagrad_bf16(int64_t n, const cero_adagrad_args *args, const void *grad, float *master,
                         float *sum)
{
    adagrad_range(n, args, CERO_DTYPE_BF16, grad, master, sum);
}

static void adagrad_f16(int64_t n, const cero_adagrad_args *args, const void *grad, float *master,
                        float *sum)
{
    adagrad_range(n, args, CERO_DTYPE_F16, grad, master, sum);
}

static void lion_f32(int64_t n, const cero_lion_args *args, const void *grad, float *master,
                     float *exp_avg)
{
    lion_range(n, args, CERO_DTYPE_F32, grad, master, exp_avg);
}

static void lion_bf16(int64_t n, const cero_lion_args *args, const void *grad, float *master,
                      float *exp_avg)
{
    lion_range(n, args, CERO_DTYPE_BF16, grad, master, exp_avg);
}

static void lion_f16(int64_t n, const cero_lion_args *args, const void *grad, float *master,
                     float *exp_avg)
{
    lion_range(n, args, CERO_DTYPE_F16, grad, master, exp_avg);
}

static void lamb_direction_f32(int64_t n, const cero_lamb_args *args, const void *grad,
                               const float *master, float *exp_avg, float *exp_avg_sq,
                               float *update)
{
    lamb_range(n, args, CERO_DTYPE_F32, grad, master, exp_avg, exp_avg_sq, update);
}

static void lamb_direction_bf16(int64_t n, const cero_lamb_args *args, const void *grad,
                                const float *master, float *exp_avg, float *exp_avg_sq,
                                float *update)
{
    lamb_range(n, args, CERO_DTYPE_BF16, grad, master, exp_avg, exp_avg_sq, update);
}

static void lamb_direction_f16(int64_t n, const cero_lamb_args *args, const void *grad,
                               const float *master, float *exp_avg, float *exp_avg_sq,
                               float *update)
{
    lamb_range(n, args, CERO_DTYPE_F16, grad, master, exp_avg, exp_avg_sq, update);
}

/* Sets every pointer of the family. */
static void fill_optim_pointers(cero_kernels *k)
{
    k->adamw[CERO_DTYPE_F32][CERO_DTYPE_F32] = adamw_f32_f32;
    k->adamw[CERO_DTYPE_F32][CERO_DTYPE_BF16] = adamw_f32_bf16;
    k->adamw[CERO_DTYPE_F32][CERO_DTYPE_F16] = adamw_f32_f16;
    k->adamw[CERO_DTYPE_BF16][CERO_DTYPE_F32] = adamw_bf16_f32;
    k->adamw[CERO_DTYPE_BF16][CERO_DTYPE_BF16] = adamw_bf16_bf16;
    k->adamw[CERO_DTYPE_BF16][CERO_DTYPE_F16] = adamw_bf16_f16;
    k->adamw[CERO_DTYPE_F16][CERO_DTYPE_F32] = adamw_f16_f32;
    k->adamw[CERO_DTYPE_F16][CERO_DTYPE_BF16] = adamw_f16_bf16;
    k->adamw[CERO_DTYPE_F16][CERO_DTYPE_F16] = adamw_f16_f16;
    k->sgd[CERO_DTYPE_F32] = sgd_f32;
    k->sgd[CERO_DTYPE_BF16] = sgd_bf16;
    k->sgd[CERO_DTYPE_F16] = sgd_f16;
    k->adagrad[CERO_DTYPE_F32] = adagrad_f32;
    k->adagrad[CERO_DTYPE_BF16] = adagrad_bf16;
    k->adagrad[CERO_DTYPE_F16] = adagrad_f16;
    k->lion[CERO_DTYPE_F32] = lion_f32;
    k->lion[CERO_DTYPE_BF16] = lion_bf16;
    k->lion[CERO_DTYPE_F16] = lion_f16;
    k->lamb_direction[CERO_DTYPE_F32] = lamb_direction_f32;
    k->lamb_direction[CERO_DTYPE_BF16] = lamb_direction_bf16;
    k->lamb_direction[CERO_DTYPE_F16] = lamb_direction_f16;
    k->axpy = axpy_range;
}
