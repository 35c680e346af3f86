/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Model families: functions that append one model to a graph, from nothing but a spec and layers.
 *
 * Parameters carry exactly Hugging Face's names and shapes. Training and evaluation graphs have inputs
 * "tokens" and "targets" [B*T] i32 and the output "loss" [B*T] f32; decoding graphs have the input
 * "tokens" [T], a key/value cache, and the output "logits" [1, vocab] f32 of the last position.
 */
#ifndef CERO_MODELS_MODELS_H
#define CERO_MODELS_MODELS_H

#include "cero/graph.h"
#include "cero/model.h"
#include "spec/model.h"

/* A cero_build function; context is a const cero_model_spec *. */
CERO_NODISCARD cero_status cero_model_build(cero_graph *graph, const cero_model_shape *shape,
                                            const void *context);

void cero_model_gpt2_build(cero_graph *graph, const cero_model_spec *spec,
                           const cero_model_shape *shape);
void cero_model_llama_build(cero_graph *graph, const cero_model_spec *spec,
                            const cero_model_shape *shape);

/*
 * What every language model starts and ends with. `cero_model_tokens` gives the ids; `cero_model_finish`
 * appends loss or logits for the last activations x [B*T, C] and the head [vocab, C].
 */
cero_value *cero_model_tokens(cero_graph *graph, const cero_model_shape *shape);
void cero_model_finish(cero_graph *graph, const cero_model_shape *shape, cero_value *x,
                       cero_value *head);

/* Key/value caches of a layer, NULL unless decoding. */
void cero_model_caches(cero_graph *graph, const cero_model_shape *shape, int64_t layer,
                       int64_t cols, cero_attention_params *attention);

#endif
