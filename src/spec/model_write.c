/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the config.json that Hugging Face's save_pretrained would: every field, none left to a default.
 *
 * Rotary positions use the older spelling (rope_theta beside rope_scaling), which old and new versions
 * of transformers read.
 */
#include "spec/model.h"
#include "spec/model_impl.h"

#include <string.h>

static void put_key(cero_text *out, const char *key)
{
    cero_text_printf(out, ",\n  \"%s\": ", key);
}

static void put_int(cero_text *out, const char *key, int64_t value)
{
    put_key(out, key);
    cero_text_printf(out, "%lld", (long long)value);
}

static void put_real(cero_text *out, const char *key, double value)
{
    put_key(out, key);
    cero_text_append_double(out, value);
}

static void put_bool(cero_text *out, const char *key, bool value)
{
    put_key(out, key);
    cero_text_printf(out, "%s", value ? "true" : "false");
}

static void put_name(cero_text *out, const char *key, const char *value)
{
    put_key(out, key);
    cero_text_append_json_string(out, value, strlen(value));
}

static void put_tokens(cero_text *out, const cero_model_spec *s)
{
    put_key(out, "bos_token_id");
    if (s->bos_token_id < 0) {
        cero_text_printf(out, "null");
    } else {
        cero_text_printf(out, "%lld", (long long)s->bos_token_id);
    }
    put_key(out, "eos_token_id");
    if (s->eos_count == 0) {
        cero_text_printf(out, "null");
    } else if (s->eos_count == 1) {
        cero_text_printf(out, "%lld", (long long)s->eos_token_id[0]);
    } else {
        for (int i = 0; i < s->eos_count; i++) {
            cero_text_printf(out, "%s%lld", i == 0 ? "[" : ", ", (long long)s->eos_token_id[i]);
        }
        cero_text_printf(out, "]");
    }
}

static void put_gpt2(cero_text *out, const cero_model_spec *s)
{
    cero_text_printf(out, "{\n  \"architectures\": [\"GPT2LMHeadModel\"]");
    put_name(out, "model_type", "gpt2");
    put_name(out, "activation_function", cero_model_activation_name(s->activation));
    put_real(out, "attn_pdrop", s->attn_dropout);
    put_tokens(out, s);
    put_real(out, "embd_pdrop", s->embd_dropout);
    put_real(out, "initializer_range", s->initializer_range);
    put_real(out, "layer_norm_epsilon", s->norm_eps);
    put_int(out, "n_ctx", s->context);
    put_int(out, "n_embd", s->hidden);
    put_int(out, "n_head", s->heads);
    if (s->inner == 4 * s->hidden) {
        put_key(out, "n_inner");
        cero_text_printf(out, "null");
    } else {
        put_int(out, "n_inner", s->inner);
    }
    put_int(out, "n_layer", s->layers);
    put_int(out, "n_positions", s->context);
    put_bool(out, "reorder_and_upcast_attn", false);
    put_real(out, "resid_pdrop", s->resid_dropout);
    put_bool(out, "scale_attn_by_inverse_layer_idx", s->scale_attn_by_inverse_layer_idx);
    put_bool(out, "scale_attn_weights", s->scale_attn_weights);
}

static void put_rope(cero_text *out, const cero_model_spec *s)
{
    put_real(out, "rope_theta", s->rope_theta);
    put_key(out, "rope_scaling");
    if (s->rope_type == CERO_ROPE_DEFAULT) {
        cero_text_printf(out, "null");
        return;
    }
    cero_text_printf(out, "{\"rope_type\": \"%s\", \"factor\": ",
                     s->rope_type == CERO_ROPE_LINEAR ? "linear" : "llama3");
    cero_text_append_double(out, s->rope_factor);
    if (s->rope_type == CERO_ROPE_LLAMA3) {
        cero_text_printf(out, ", \"low_freq_factor\": ");
        cero_text_append_double(out, s->rope_low_freq_factor);
        cero_text_printf(out, ", \"high_freq_factor\": ");
        cero_text_append_double(out, s->rope_high_freq_factor);
        cero_text_printf(out, ", \"original_max_position_embeddings\": %lld",
                         (long long)s->rope_original_context);
    }
    cero_text_printf(out, "}");
}

static void put_llama(cero_text *out, const cero_model_spec *s)
{
    cero_text_printf(out, "{\n  \"architectures\": [\"LlamaForCausalLM\"]");
    put_name(out, "model_type", "llama");
    put_bool(out, "attention_bias", s->attention_bias);
    put_real(out, "attention_dropout", s->attn_dropout);
    put_tokens(out, s);
    put_int(out, "head_dim", s->head_dim);
    put_name(out, "hidden_act", cero_model_activation_name(s->activation));
    put_int(out, "hidden_size", s->hidden);
    put_real(out, "initializer_range", s->initializer_range);
    put_int(out, "intermediate_size", s->inner);
    put_int(out, "max_position_embeddings", s->context);
    put_bool(out, "mlp_bias", s->mlp_bias);
    put_int(out, "num_attention_heads", s->heads);
    put_int(out, "num_hidden_layers", s->layers);
    put_int(out, "num_key_value_heads", s->kv_heads);
    put_int(out, "pretraining_tp", 1);
    put_real(out, "rms_norm_eps", s->norm_eps);
    put_rope(out, s);
}

cero_status cero_model_spec_write_json(const cero_model_spec *spec, cero_dtype dtype,
                                       cero_text *out)
{
    CERO_TRY(cero_model_spec_check(spec));
    if (spec->arch == CERO_ARCH_GPT2) {
        put_gpt2(out, spec);
    } else {
        put_llama(out, spec);
    }
    put_bool(out, "tie_word_embeddings", spec->tie_word_embeddings);
    put_name(out, "torch_dtype", cero_model_dtype_name(dtype));
    put_bool(out, "use_cache", true);
    put_int(out, "vocab_size", spec->vocab_size);
    cero_text_printf(out, "\n}\n");
    CERO_TRY(cero_text_finish(out));
    return CERO_OK;
}
