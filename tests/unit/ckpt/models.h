/* SPDX-License-Identifier: Apache-2.0 */
/* Tiny models as files of Hugging Face, right or wrong in one chosen way. */
#ifndef CERO_TESTS_UNIT_CKPT_MODELS_H
#define CERO_TESTS_UNIT_CKPT_MODELS_H

#include "unit/ckpt/files.h"

#include "base/rng.h"
#include "ckpt/hf.h"
#include "ckpt/safetensors.h"

#include <math.h>

/* G1 of the case list, narrower: 2 layers, width 12, 3 heads, context 9, vocabulary 17. */
static inline cero_model_spec models_gpt2(void)
{
    return (cero_model_spec){
        .arch = CERO_ARCH_GPT2,
        .vocab_size = 17,
        .context = 9,
        .hidden = 12,
        .layers = 2,
        .heads = 3,
        .kv_heads = 3,
        .head_dim = 4,
        .inner = 48,
        .norm_eps = 1e-5,
        .initializer_range = 0.02,
        .tie_word_embeddings = true,
        .attention_bias = true,
        .mlp_bias = true,
        .scale_attn_weights = true,
        .bos_token_id = 16,
        .eos_token_id = {16},
        .eos_count = 1,
    };
}

static inline cero_model_spec models_llama(void)
{
    return (cero_model_spec){
        .arch = CERO_ARCH_LLAMA,
        .vocab_size = 19,
        .context = 16,
        .hidden = 12,
        .layers = 2,
        .heads = 4,
        .kv_heads = 2,
        .head_dim = 6, /* not hidden / heads */
        .inner = 20,
        .activation = CERO_ACTIVATION_SILU,
        .norm_eps = 1e-6,
        .initializer_range = 0.02,
        .scale_attn_weights = true,
        .rope_theta = 10000,
        .bos_token_id = 1,
        .eos_token_id = {2, 3},
        .eos_count = 2,
    };
}

/* Values of a parameter: a function of name and element, as large as 3. */
static inline cero_status models_values(void *context, const char *name, int64_t begin,
                                        int64_t numel, float *out)
{
    (void)context;
    cero_rng_key key = cero_rng_make_key(11, CERO_RNG_TEST, cero_rng_hash(name), 0);
    for (int64_t i = 0; i < numel; i++) {
        uint32_t word = cero_rng_word(key, 0, (uint64_t)(begin + i));
        out[i] = (cero_rng_uniform_f32(word) - 0.5F) * 6;
    }
    return CERO_OK;
}

/* What to do otherwise than save_pretrained. Names are ours; zero is a good file. */
typedef struct models_twist {
    bool no_prefix;
    bool buffers;         /* write all ignorable tensors */
    int head;             /* tied head: 0 absent, 1 equal, 2 one element differs */
    const char *skip;     /* leave this out */
    const char *rename;   /* write this ... */
    const char *name;     /* ... under this name */
    const char *reshape;  /* write this as [numel] */
    const char *not_real; /* write this as I32 */
    const char *bad;      /* elements 2 and 5 are NaN, 7 infinite */
    bool both_names;      /* write the embedding with and without prefix */
} models_twist;

typedef struct models_source {
    const models_twist *twist;
    const char *names[256]; /* ours, by index of declaration */
} models_source;

static inline cero_status models_give(void *context, int64_t index, int64_t begin, int64_t numel,
                                      void *out)
{
    const models_source *s = context;
    float *x = out;

    CERO_TRY(models_values(NULL, s->names[index], begin, numel, x));
    if (s->twist->bad != NULL && strcmp(s->twist->bad, s->names[index]) == 0) {
        x[2] = NAN;
        x[5] = NAN;
        x[7] = -INFINITY;
    }
    return CERO_OK;
}

static inline cero_status models_give_head(void *context, int64_t index, int64_t begin,
                                           int64_t numel, void *out)
{
    const models_source *s = context;

    CERO_TRY(models_give(context, index, begin, numel, out));
    if (s->twist->head == 2 && index == 0) {
        ((float *)out)[20] += 1;
    }
    return CERO_OK;
}

/* Declares what the twist leaves of the table; index 0 is the tied head, when there is one. */
static inline int64_t models_declare(const cero_hf_table *table, const models_twist *twist,
                                     cero_safetensors_decl *decl, models_source *source)
{
    int64_t n = 0;
    size_t prefix = strlen(table->prefix);

    source->twist = twist;
    if (twist->head != 0) {
        source->names[n] = table->entry[0].name;
        decl[n++] =
            (cero_safetensors_decl){"lm_head.weight", CERO_SAFETENSORS_F32, table->entry[0].shape};
    }
    for (int64_t i = 0; i < table->count; i++) {
        const cero_hf_entry *e = &table->entry[i];
        const char *name = e->name;
        if (e->role == CERO_HF_TIED || (e->role == CERO_HF_IGNORED && !twist->buffers) ||
            (twist->skip != NULL && strcmp(twist->skip, name) == 0)) {
            continue;
        }
        cero_safetensors_decl d = {name, CERO_SAFETENSORS_F32, e->shape};
        if (twist->no_prefix && strncmp(name, table->prefix, prefix) == 0) {
            d.name += prefix;
        }
        if (twist->rename != NULL && strcmp(twist->rename, name) == 0) {
            d.name = twist->name;
        }
        if (twist->reshape != NULL && strcmp(twist->reshape, name) == 0) {
            d.shape = (cero_shape){.ndim = 1, .dim = {cero_shape_numel(&e->shape)}};
        }
        source->names[n] = name;
        decl[n++] = d;
    }
    if (twist->both_names) {
        source->names[n] = table->entry[0].name;
        decl[n++] = (cero_safetensors_decl){table->entry[0].name + prefix, CERO_SAFETENSORS_F32,
                                            table->entry[0].shape};
    }
    assert_true(n < 256);
    return n;
}

/* Writes dir/model.safetensors for a model. */
static inline void models_write(const char *dir, const cero_model_spec *spec,
                                const models_twist *twist)
{
    cero_hf_table table;
    cero_safetensors_decl decl[256];
    models_source source;

    assert_ok(cero_hf_table_init(spec, &table));
    cero_safetensors_write_params params = {
        .tensors = decl,
        .count = models_declare(&table, twist, decl, &source),
        .source = models_give_head,
        .context = &source,
    };
    for (int64_t i = 0; i < params.count; i++) {
        if (twist->not_real != NULL && strcmp(twist->not_real, source.names[i]) == 0) {
            decl[i].dtype = CERO_SAFETENSORS_I32;
            params.is_raw = true;
        }
    }
    assert_ok(cero_safetensors_write(files_in(dir, "model.safetensors"), &params));
    cero_hf_table_cleanup(&table);
}

#endif
