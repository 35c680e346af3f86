/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocked causal attention of any dtype, forward and backward. Included by a file that has said, as
 * attention_f32_tmpl.c does, what a step of a product is.
 */
#include "kernels/vector/philox.h"

#include <math.h>
#include <string.h>

#include "kernels/vector/attention_blocks_tmpl.c"

#include "kernels/vector/attention_softmax_tmpl.c"

#include "kernels/vector/attention_row_tmpl.c"

#include "kernels/vector/attention_forward_tmpl.c"

#include "kernels/vector/attention_backward_tmpl.c"
