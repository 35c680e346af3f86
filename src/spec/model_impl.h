/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the model description share: Hugging Face's names and its default values. */
#ifndef CERO_SPEC_MODEL_IMPL_H
#define CERO_SPEC_MODEL_IMPL_H

#include "spec/model.h"

/* "gelu_new", "bfloat16": the names written into a config.json. */
const char *cero_model_activation_name(cero_activation activation);
const char *cero_model_dtype_name(cero_dtype dtype);

/* What transformers assumes for fields that a config.json leaves out. */
cero_model_spec cero_model_gpt2_defaults(void);
cero_model_spec cero_model_llama_defaults(void);

#endif
