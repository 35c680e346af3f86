/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a model is: the fields of a Hugging Face config.json that change arithmetic, under our names.
 *
 * Reading and writing config.json, and the built-in descriptions (gpt2, gpt2-xl, llama-…, the ZeRO
 * paper's), are functions here; building the graph is models/. Every field of a config.json is read,
 * known to be ignorable, or refused by name with its place.
 */
#ifndef CERO_SPEC_MODEL_H
#define CERO_SPEC_MODEL_H

#include "base/json.h"
#include "base/status.h"
#include "base/text.h"

typedef enum cero_arch {
    CERO_ARCH_GPT2 =
        1, /* learned positions, layernorm, packed qkv, biases; Conv1D weights [in, out] */
    CERO_ARCH_LLAMA = 2 /* rotary positions, rmsnorm, grouped-query attention, gated feed-forward */
} cero_arch;

typedef enum cero_activation {
    CERO_ACTIVATION_GELU_TANH = 0, /* HF gelu_new, gelu_pytorch_tanh, gelu_fast */
    CERO_ACTIVATION_GELU_ERF = 1,  /* HF gelu */
    CERO_ACTIVATION_RELU = 2,
    CERO_ACTIVATION_SILU = 3, /* HF silu, swish */
    CERO_ACTIVATION_TANH = 4,
    CERO_ACTIVATION_COUNT
} cero_activation;

typedef enum cero_rope_type {
    CERO_ROPE_DEFAULT = 0,
    CERO_ROPE_LINEAR = 1, /* positions divided by factor */
    CERO_ROPE_LLAMA3 = 2  /* frequencies smoothed between low_freq_factor and high_freq_factor */
} cero_rope_type;

enum {
    CERO_MAX_EOS = 8,
    CERO_MAX_MODEL_NAME = 64
};

/* Open: only data. Zero is a valid "absent" only where said. */
typedef struct cero_model_spec {
    char name[CERO_MAX_MODEL_NAME]; /* built-in name, or the directory's last component */
    cero_arch arch;
    int64_t vocab_size;
    int64_t context;  /* most positions: n_positions, max_position_embeddings */
    int64_t hidden;   /* n_embd, hidden_size */
    int64_t layers;   /* n_layer, num_hidden_layers */
    int64_t heads;    /* n_head, num_attention_heads */
    int64_t kv_heads; /* = heads for gpt2 */
    int64_t head_dim; /* hidden / heads unless config says otherwise */
    int64_t inner;    /* n_inner (null: 4 hidden), intermediate_size */
    cero_activation activation;
    double norm_eps;
    double initializer_range;
    double embd_dropout;
    double attn_dropout;
    double resid_dropout;
    bool tie_word_embeddings;
    bool attention_bias;
    bool mlp_bias;
    bool scale_attn_weights;              /* gpt2: divide scores by sqrt(head_dim) */
    bool scale_attn_by_inverse_layer_idx; /* gpt2: and by layer + 1 */
    cero_rope_type rope_type;
    double rope_theta;
    double rope_factor;
    double rope_low_freq_factor;
    double rope_high_freq_factor;
    int64_t rope_original_context;
    int64_t bos_token_id; /* -1: none */
    int64_t eos_token_id[CERO_MAX_EOS];
    int eos_count;
    cero_dtype stored_dtype; /* torch_dtype / dtype; f32 when absent */
} cero_model_spec;

/* Reads a config.json. Errors: IO, CORRUPT, INVALID, UNSUPPORTED, each with file:line:column. */
CERO_NODISCARD cero_status cero_model_spec_read(const char *path, cero_model_spec *out);

/* The same of `length` bytes; `path` is for messages and gives the model its name. Errors: as above, but IO. */
CERO_NODISCARD cero_status cero_model_spec_parse(const char *path, const char *bytes, size_t length,
                                                 cero_model_spec *out);
/* The same of an object that was parsed. Errors: INVALID, UNSUPPORTED. */
CERO_NODISCARD cero_status cero_model_spec_read_json(const char *path, const cero_json *root,
                                                     cero_model_spec *out);

/* A directory (its config.json), a .json file, or a built-in name (nearest named on error). */
CERO_NODISCARD cero_status cero_model_spec_resolve(const char *dir_or_name, cero_model_spec *out);

/* Name of built-in model i; NULL at the end. */
const char *cero_model_spec_builtin_name(int i);

/* Checks that the fields fit together. Errors: INVALID naming field and value. */
CERO_NODISCARD cero_status cero_model_spec_check(const cero_model_spec *spec);

/* Appends the config.json that Hugging Face writes for this model, weights stored as `dtype`. */
CERO_NODISCARD cero_status cero_model_spec_write_json(const cero_model_spec *spec, cero_dtype dtype,
                                                      cero_text *out);

/* Exact number of parameters (tied ones once). */
int64_t cero_model_spec_param_count(const cero_model_spec *spec);

#endif
