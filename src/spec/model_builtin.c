/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Built-in model descriptions, and finding a description by directory, file or name.
 *
 * Sources: GPT-2 and Llama as published; Megatron-LM's 8.3B; Turing-NLG; the configurations of the ZeRO
 * paper (Rajbhandari et al., SC 2020, tables of the appendix), with Megatron's padded vocabulary.
 */
#include "base/file.h"
#include "base/memory.h"
#include "spec/model.h"
#include "spec/model_impl.h"

#include <stdio.h>
#include <string.h>

typedef struct builtin_gpt {
    const char *name;
    int64_t layers;
    int64_t hidden;
    int64_t heads;
    int64_t vocab_size;
    int64_t context;
    double dropout;
} builtin_gpt;

typedef struct builtin_llama {
    const char *name;
    int64_t layers;
    int64_t hidden;
    int64_t inner;
    int64_t heads;
    int64_t kv_heads;
    double rope_factor; /* of the llama3 kind; 0: none */
    bool is_tied;
} builtin_llama;

static const builtin_gpt gpts[] = {
    {"gpt-mini", 4, 192, 6, 2048, 128, 0},
    {"gpt2", 12, 768, 12, 50257, 1024, 0.1},
    {"gpt2-medium", 24, 1024, 16, 50257, 1024, 0.1},
    {"gpt2-large", 36, 1280, 20, 50257, 1024, 0.1},
    {"gpt2-xl", 48, 1600, 25, 50257, 1024, 0.1},
    {"megatron-8b", 72, 3072, 24, 51200, 1024, 0.1},
    {"turing-nlg-17b", 78, 4256, 28, 51200, 1024, 0.1},
    {"zero-1.5b", 48, 1600, 16, 51200, 1024, 0.1},
    {"zero-8b", 72, 3072, 24, 51200, 1024, 0.1},
    {"zero-40b", 88, 6144, 32, 51200, 1024, 0.1},
    {"zero-60b", 132, 6144, 32, 51200, 1024, 0.1},
    {"zero-80b", 100, 8192, 64, 51200, 1024, 0.1},
    {"zero-100b", 125, 8192, 64, 51200, 1024, 0.1},
    {"zero-120b", 150, 8192, 64, 51200, 1024, 0.1},
    {"zero-140b", 175, 8192, 64, 51200, 1024, 0.1},
    {"zero-170b", 212, 8192, 64, 51200, 1024, 0.1},
};

/* Llama 3.1 (8b, 70b), 3.2 (1b, 3b) and 2 (the one without a rope factor). */
static const builtin_llama llamas[] = {
    {"llama-1b", 16, 2048, 8192, 32, 8, 32, true},
    {"llama-3b", 28, 3072, 8192, 24, 8, 32, true},
    {"llama-8b", 32, 4096, 14336, 32, 8, 8, false},
    {"llama-70b", 80, 8192, 28672, 64, 8, 8, false},
    {"llama-2-7b", 32, 4096, 11008, 32, 32, 0, false},
};

const char *cero_model_spec_builtin_name(int i)
{
    int gpt_count = (int)CERO_COUNT_OF(gpts);

    if (i < 0 || i >= gpt_count + (int)CERO_COUNT_OF(llamas)) {
        return NULL;
    }
    return i < gpt_count ? gpts[i].name : llamas[i - gpt_count].name;
}

static cero_model_spec make_gpt(const builtin_gpt *b)
{
    cero_model_spec s = cero_model_gpt2_defaults();

    s.layers = b->layers;
    s.hidden = b->hidden;
    s.heads = b->heads;
    s.vocab_size = b->vocab_size;
    s.context = b->context;
    s.embd_dropout = b->dropout;
    s.attn_dropout = b->dropout;
    s.resid_dropout = b->dropout;
    s.kv_heads = b->heads;
    s.head_dim = b->hidden / b->heads;
    s.inner = 4 * b->hidden;
    if (s.vocab_size <= s.bos_token_id) {
        // The end-of-text token of a tokenizer trained on the spot has the first id.
        s.bos_token_id = 0;
        s.eos_token_id[0] = 0;
    }
    return s;
}

static cero_model_spec make_llama(const builtin_llama *b)
{
    cero_model_spec s = cero_model_llama_defaults();

    s.layers = b->layers;
    s.hidden = b->hidden;
    s.inner = b->inner;
    s.heads = b->heads;
    s.kv_heads = b->kv_heads;
    s.head_dim = s.hidden / s.heads;
    s.norm_eps = 1e-5;
    s.tie_word_embeddings = b->is_tied;
    s.stored_dtype = CERO_DTYPE_BF16;
    if (b->rope_factor == 0) {
        s.context = 4096;
        s.stored_dtype = CERO_DTYPE_F16;
        return s;
    }
    s.vocab_size = 128256;
    s.context = 131072;
    s.bos_token_id = 128000;
    s.eos_token_id[0] = 128001;
    s.rope_theta = 500000;
    s.rope_type = CERO_ROPE_LLAMA3;
    s.rope_factor = b->rope_factor;
    s.rope_low_freq_factor = 1;
    s.rope_high_freq_factor = 4;
    s.rope_original_context = 8192;
    return s;
}

static bool find_builtin(const char *name, cero_model_spec *out)
{
    for (size_t i = 0; i < CERO_COUNT_OF(gpts); i++) {
        if (strcmp(gpts[i].name, name) == 0) {
            *out = make_gpt(&gpts[i]);
            (void)snprintf(out->name, sizeof(out->name), "%s", name);
            return true;
        }
    }
    for (size_t i = 0; i < CERO_COUNT_OF(llamas); i++) {
        if (strcmp(llamas[i].name, name) == 0) {
            *out = make_llama(&llamas[i]);
            (void)snprintf(out->name, sizeof(out->name), "%s", name);
            return true;
        }
    }
    return false;
}

static const char *next_builtin(const void *context, int i)
{
    CERO_UNUSED(context);
    return cero_model_spec_builtin_name(i);
}

static cero_status fail_unknown(const char *name)
{
    cero_text names = {0};
    const char *nearest = cero_text_nearest(name, next_builtin, NULL);

    for (int i = 0; cero_model_spec_builtin_name(i) != NULL; i++) {
        cero_text_printf(&names, "%s%s", i == 0 ? "" : ", ", cero_model_spec_builtin_name(i));
    }
    cero_status st = CERO_FAIL(
        CERO_ERR_INVALID,
        "no model %s: no directory with a config.json, no .json file, no built-in name%s%s%s "
        "(built in: %s)",
        name, nearest == NULL ? "" : "; did you mean ", nearest == NULL ? "" : nearest,
        nearest == NULL ? "" : "?", names.data == NULL ? "" : names.data);
    cero_text_cleanup(&names);
    return st;
}

cero_status cero_model_spec_resolve(const char *dir_or_name, cero_model_spec *out)
{
    cero_file_kind kind = cero_file_stat(dir_or_name, NULL);

    if (kind == CERO_FILE_DIRECTORY) {
        char *path = cero_file_join(dir_or_name, "config.json");
        if (path == NULL) {
            return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a path in %s", dir_or_name);
        }
        // A folder that merely has a built-in model's name does not hide it.
        if (cero_file_stat(path, NULL) == CERO_FILE_ABSENT && find_builtin(dir_or_name, out)) {
            cero_delete(path);
            return CERO_OK;
        }
        cero_status st = cero_model_spec_read(path, out);
        cero_delete(path);
        return st;
    }
    if (kind != CERO_FILE_ABSENT || strstr(dir_or_name, ".json") != NULL) {
        CERO_TRY(cero_model_spec_read(dir_or_name, out));
        return CERO_OK;
    }
    return find_builtin(dir_or_name, out) ? CERO_OK : fail_unknown(dir_or_name);
}
