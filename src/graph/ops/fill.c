/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of one value: zeros for parameters without a gradient, and the seed that backward starts from. */
#include "graph/ops/ops.h"

static cero_status fill_infer(cero_op_infer *infer)
{
    const cero_tensor_desc *desc = infer->attr;

    cero_op_set_output(infer, 0, desc->dtype, desc->shape);
    return CERO_OK;
}

static void fill(const cero_op_run *run, float value)
{
    const cero_tensor_desc *d = &run->output_desc[0];
    cero_device_fill(run->device, d->dtype, cero_shape_numel(&d->shape), value, run->output[0]);
}

static cero_status zeros_run(const cero_op_run *run)
{
    fill(run, 0);
    return CERO_OK;
}

static cero_status seed_run(const cero_op_run *run)
{
    fill(run, run->env->loss_grad);
    return CERO_OK;
}

static const cero_op zeros_op = {.name = "zeros",
                                 .attr_size = sizeof(cero_tensor_desc),
                                 .infer = fill_infer,
                                 .run = zeros_run};
static const cero_op seed_op = {.name = "loss_seed",
                                .attr_size = sizeof(cero_tensor_desc),
                                .infer = fill_infer,
                                .run = seed_run};

cero_value *cero_op_zeros_append(cero_graph *graph, cero_tensor_desc desc)
{
    return cero_graph_append(graph, &zeros_op, &desc, NULL, 0, NULL);
}

cero_value *cero_op_seed_append(cero_graph *graph, cero_tensor_desc desc)
{
    return cero_graph_append(graph, &seed_op, &desc, NULL, 0, NULL);
}
