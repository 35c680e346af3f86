/* SPDX-License-Identifier: Apache-2.0 */
/* Checks, counts and default values of model descriptions. */
#include "spec/model.h"

#include "spec/model_impl.h"

#include <math.h>
#include <stdio.h>

enum {
    MAX_VOCAB = INT32_MAX, /* token ids are int32 */
    MAX_CONTEXT = 1 << 28,
    MAX_WIDTH = 1 << 26,
    MAX_LAYERS = 1 << 16
};

const char *cero_model_activation_name(cero_activation activation)
{
    static const char *const names[CERO_ACTIVATION_COUNT] = {"gelu_new", "gelu", "relu", "silu",
                                                             "tanh"};
    return (unsigned)activation < CERO_ACTIVATION_COUNT ? names[activation] : "unknown";
}

const char *cero_model_dtype_name(cero_dtype dtype)
{
    return dtype == CERO_DTYPE_BF16  ? "bfloat16"
           : dtype == CERO_DTYPE_F16 ? "float16"
           : dtype == CERO_DTYPE_F64 ? "float64"
                                     : "float32";
}

cero_model_spec cero_model_gpt2_defaults(void)
{
    return (cero_model_spec){
        .arch = CERO_ARCH_GPT2,
        .vocab_size = 50257,
        .context = 1024,
        .hidden = 768,
        .layers = 12,
        .heads = 12,
        .activation = CERO_ACTIVATION_GELU_TANH,
        .norm_eps = 1e-5,
        .initializer_range = 0.02,
        .embd_dropout = 0.1,
        .attn_dropout = 0.1,
        .resid_dropout = 0.1,
        .tie_word_embeddings = true,
        .attention_bias = true,
        .mlp_bias = true,
        .scale_attn_weights = true,
        .bos_token_id = 50256,
        .eos_token_id = {50256},
        .eos_count = 1,
        .stored_dtype = CERO_DTYPE_F32,
    };
}

cero_model_spec cero_model_llama_defaults(void)
{
    return (cero_model_spec){
        .arch = CERO_ARCH_LLAMA,
        .vocab_size = 32000,
        .context = 2048,
        .hidden = 4096,
        .inner = 11008,
        .layers = 32,
        .heads = 32,
        .activation = CERO_ACTIVATION_SILU,
        .norm_eps = 1e-6,
        .initializer_range = 0.02,
        .scale_attn_weights = true,
        .rope_theta = 10000,
        .bos_token_id = 1,
        .eos_token_id = {2},
        .eos_count = 1,
        .stored_dtype = CERO_DTYPE_F32,
    };
}

static cero_status check_range(const char *field, int64_t value, int64_t max)
{
    if (value < 1 || value > max) {
        return CERO_FAIL(CERO_ERR_INVALID, "%s is %lld, expected 1 to %lld", field,
                         (long long)value, (long long)max);
    }
    return CERO_OK;
}

static cero_status check_dropout(const char *field, double value)
{
    if (!(value >= 0 && value < 1)) {
        return CERO_FAIL(CERO_ERR_INVALID, "%s is %g, expected at least 0 and less than 1", field,
                         value);
    }
    return CERO_OK;
}

static cero_status check_attention(const cero_model_spec *s)
{
    if (s->arch == CERO_ARCH_GPT2 && (s->hidden % s->heads != 0 || s->kv_heads != s->heads ||
                                      s->head_dim != s->hidden / s->heads)) {
        return CERO_FAIL(CERO_ERR_INVALID,
                         "hidden size %lld is not a multiple of %lld heads (head size %lld, %lld "
                         "key/value heads)",
                         (long long)s->hidden, (long long)s->heads, (long long)s->head_dim,
                         (long long)s->kv_heads);
    }
    if (s->heads % s->kv_heads != 0) {
        return CERO_FAIL(CERO_ERR_INVALID,
                         "num_attention_heads %lld is not a multiple of num_key_value_heads %lld",
                         (long long)s->heads, (long long)s->kv_heads);
    }
    if (s->arch == CERO_ARCH_LLAMA && s->head_dim % 2 != 0) {
        return CERO_FAIL(CERO_ERR_INVALID, "head_dim is %lld; rotary positions need an even number",
                         (long long)s->head_dim);
    }
    return CERO_OK;
}

static cero_status check_rope(const cero_model_spec *s)
{
    if (!(s->rope_theta > 0) || !isfinite(s->rope_theta)) {
        return CERO_FAIL(CERO_ERR_INVALID, "rope_theta is %g, expected a positive number",
                         s->rope_theta);
    }
    if (s->rope_type != CERO_ROPE_DEFAULT && !(s->rope_factor >= 1 && isfinite(s->rope_factor))) {
        return CERO_FAIL(CERO_ERR_INVALID, "the rope factor is %g, expected at least 1",
                         s->rope_factor);
    }
    if (s->rope_type == CERO_ROPE_LLAMA3) {
        if (!(s->rope_low_freq_factor > 0 && s->rope_high_freq_factor > s->rope_low_freq_factor)) {
            return CERO_FAIL(CERO_ERR_INVALID,
                             "low_freq_factor is %g and high_freq_factor %g, expected positive "
                             "numbers, the second greater",
                             s->rope_low_freq_factor, s->rope_high_freq_factor);
        }
        CERO_TRY(
            check_range("original_max_position_embeddings", s->rope_original_context, MAX_CONTEXT));
    }
    return CERO_OK;
}

static cero_status check_tokens(const cero_model_spec *s)
{
    if (s->bos_token_id < -1 || s->bos_token_id >= s->vocab_size) {
        return CERO_FAIL(CERO_ERR_INVALID, "bos_token_id %lld is outside the vocabulary of %lld",
                         (long long)s->bos_token_id, (long long)s->vocab_size);
    }
    if (s->eos_count < 0 || s->eos_count > CERO_MAX_EOS) {
        return CERO_FAIL(CERO_ERR_INVALID, "%d end-of-text tokens, expected 0 to %d", s->eos_count,
                         CERO_MAX_EOS);
    }
    for (int i = 0; i < s->eos_count; i++) {
        if (s->eos_token_id[i] < 0 || s->eos_token_id[i] >= s->vocab_size) {
            return CERO_FAIL(CERO_ERR_INVALID,
                             "eos_token_id %lld is outside the vocabulary of %lld",
                             (long long)s->eos_token_id[i], (long long)s->vocab_size);
        }
    }
    return CERO_OK;
}

/* Elements of one block's matrices, in double: an estimate that cannot overflow. */
static double rough_count(const cero_model_spec *s)
{
    double hidden = (double)s->hidden;
    double attention = hidden * (double)s->head_dim * (double)(2 * s->heads + 2 * s->kv_heads);

    return (double)s->layers * (attention + 3 * hidden * (double)s->inner) +
           hidden * (2 * (double)s->vocab_size + (double)s->context);
}

cero_status cero_model_spec_check(const cero_model_spec *spec)
{
    const cero_model_spec *s = spec;

    if (s->arch != CERO_ARCH_GPT2 && s->arch != CERO_ARCH_LLAMA) {
        return CERO_FAIL(CERO_ERR_INVALID, "architecture %d, expected gpt2 or llama", (int)s->arch);
    }
    CERO_TRY(check_range("vocab_size", s->vocab_size, MAX_VOCAB));
    CERO_TRY(check_range("the context (most positions)", s->context, MAX_CONTEXT));
    CERO_TRY(check_range("the hidden size", s->hidden, MAX_WIDTH));
    CERO_TRY(check_range("the number of layers", s->layers, MAX_LAYERS));
    CERO_TRY(check_range("the number of heads", s->heads, MAX_WIDTH));
    CERO_TRY(check_range("num_key_value_heads", s->kv_heads, MAX_WIDTH));
    CERO_TRY(check_range("head_dim", s->head_dim, MAX_WIDTH));
    CERO_TRY(check_range("the inner size", s->inner, MAX_WIDTH));
    CERO_TRY(check_attention(s));
    if (!(s->norm_eps > 0 && s->norm_eps < 1)) {
        return CERO_FAIL(CERO_ERR_INVALID, "the norm's epsilon is %g, expected between 0 and 1",
                         s->norm_eps);
    }
    if (!(s->initializer_range >= 0) || !isfinite(s->initializer_range)) {
        return CERO_FAIL(CERO_ERR_INVALID, "initializer_range is %g, expected at least 0",
                         s->initializer_range);
    }
    CERO_TRY(check_dropout("embd_pdrop", s->embd_dropout));
    CERO_TRY(check_dropout("attn_pdrop", s->attn_dropout));
    CERO_TRY(check_dropout("resid_pdrop", s->resid_dropout));
    if (s->arch == CERO_ARCH_LLAMA) {
        CERO_TRY(check_rope(s));
    }
    CERO_TRY(check_tokens(s));
    if (rough_count(s) > 0x1p60) {
        return CERO_FAIL(CERO_ERR_INVALID, "%g parameters are more than can be counted",
                         rough_count(s));
    }
    return CERO_OK;
}

/* Letters as in models/: V vocabulary, T positions, H hidden, I inner, L layers. */
int64_t cero_model_spec_param_count(const cero_model_spec *spec)
{
    int64_t H = spec->hidden;
    int64_t I = spec->inner;
    int64_t table = spec->vocab_size * H;
    int64_t query = spec->heads * spec->head_dim;
    int64_t key = spec->kv_heads * spec->head_dim;
    int64_t attention = H * (query + 2 * key) + query * H;
    int64_t head = spec->tie_word_embeddings ? 0 : table;

    attention += spec->attention_bias ? query + 2 * key + H : 0;
    if (spec->arch == CERO_ARCH_GPT2) {
        int64_t mlp = 2 * H * I + I + H;
        int64_t norms = 4 * H;
        return table + spec->context * H + spec->layers * (attention + mlp + norms) + 2 * H + head;
    }
    int64_t mlp = 3 * H * I + (spec->mlp_bias ? 2 * I + H : 0);
    return table + spec->layers * (attention + mlp + 2 * H) + H + head;
}
