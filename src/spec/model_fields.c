/* SPDX-License-Identifier: Apache-2.0 */
/* Which fields a config.json may have, and how the ones that are not plain numbers are read. */
#include "spec/model_fields.h"

#include "spec/model_impl.h"

#include <string.h>

/* Changes no arithmetic of training: bookkeeping, task heads, and generation settings. */
static const char *const ignorable[] = {
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_commit_hash",
    "_name_or_path",
    "attn_implementation",
    "bad_words_ids",
    "begin_suppress_tokens",
    "chunk_size_feed_forward",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "id2label",
    "is_decoder",
    "label2id",
    "length_penalty",
    "max_length",
    "min_length",
    "n_ctx",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_labels",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "output_scores",
    "pad_token_id",
    "predict_special_tokens",
    "prefix",
    "problem_type",
    "remove_invalid_values",
    "repetition_penalty",
    "return_dict",
    "return_dict_in_generate",
    "sep_token_id",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torchscript",
    "transformers_version",
    "typical_p",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
};

cero_status cero_model_expect(const cero_json *value, cero_json_type type)
{
    if (value->type != type) {
        return CERO_JSON_FAIL(value, "%s: expected %s, found %s",
                              value->key == NULL ? "item" : value->key, cero_json_type_name(type),
                              cero_json_type_name(value->type));
    }
    return CERO_OK;
}

cero_status cero_model_read_int(const cero_json *value, int64_t min, int64_t *out)
{
    CERO_TRY(cero_json_int(value, out));
    if (*out < min) {
        return CERO_JSON_FAIL(value, "%s: expected at least %lld, found %lld",
                              value->key == NULL ? "item" : value->key, (long long)min,
                              (long long)*out);
    }
    return CERO_OK;
}

cero_status cero_model_read_real(const cero_json *value, double *out)
{
    CERO_TRY(cero_model_expect(value, CERO_JSON_NUMBER));
    if (value->number < 0) {
        return CERO_JSON_FAIL(value, "%s: expected at least 0, found %s", value->key, value->text);
    }
    *out = value->number;
    return CERO_OK;
}

static const char *next_activation(const void *context, int i)
{
    static const char *const names[] = {
        "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu", "relu", "silu", "swish", "tanh"};
    CERO_UNUSED(context);
    return (size_t)i < CERO_COUNT_OF(names) ? names[i] : NULL;
}

static cero_status read_activation(const cero_json *value, cero_model_spec *spec)
{
    static const cero_activation activations[] = {
        CERO_ACTIVATION_GELU_TANH, CERO_ACTIVATION_GELU_TANH, CERO_ACTIVATION_GELU_TANH,
        CERO_ACTIVATION_GELU_ERF,  CERO_ACTIVATION_RELU,      CERO_ACTIVATION_SILU,
        CERO_ACTIVATION_SILU,      CERO_ACTIVATION_TANH};

    CERO_TRY(cero_model_expect(value, CERO_JSON_STRING));
    for (int i = 0; next_activation(NULL, i) != NULL; i++) {
        if (strcmp(next_activation(NULL, i), value->text) == 0) {
            spec->activation = activations[i];
            return CERO_OK;
        }
    }
    const char *nearest = cero_text_nearest(value->text, next_activation, NULL);
    return CERO_MODEL_REFUSE(
        value,
        "%s: unknown activation \"%.40s\"%s%s%s (known: gelu_new, gelu_pytorch_tanh, "
        "gelu_fast, gelu, relu, silu, swish, tanh)",
        value->key, value->text, nearest == NULL ? "" : ", did you mean \"",
        nearest == NULL ? "" : nearest, nearest == NULL ? "" : "\"?");
}

static cero_status read_dtype(const cero_json *value, cero_model_spec *spec)
{
    static const cero_dtype dtypes[] = {CERO_DTYPE_F32, CERO_DTYPE_BF16, CERO_DTYPE_F16};

    CERO_TRY(cero_model_expect(value, CERO_JSON_STRING));
    const char *name = strncmp(value->text, "torch.", 6) == 0 ? value->text + 6 : value->text;
    for (size_t i = 0; i < CERO_COUNT_OF(dtypes); i++) {
        if (strcmp(name, cero_model_dtype_name(dtypes[i])) == 0) {
            spec->stored_dtype = dtypes[i];
            return CERO_OK;
        }
    }
    return CERO_MODEL_REFUSE(value, "%s: \"%.40s\", expected float32, bfloat16 or float16",
                             value->key, value->text);
}

static cero_status read_bos(const cero_json *value, cero_model_spec *spec)
{
    spec->bos_token_id = -1;
    return value->type == CERO_JSON_NULL ? CERO_OK
                                         : cero_model_read_int(value, 0, &spec->bos_token_id);
}

static cero_status read_eos(const cero_json *value, cero_model_spec *spec)
{
    spec->eos_count = 0;
    if (value->type == CERO_JSON_NULL) {
        return CERO_OK;
    }
    if (value->type != CERO_JSON_ARRAY) {
        spec->eos_count = 1;
        return cero_model_read_int(value, 0, &spec->eos_token_id[0]);
    }
    if (value->count > CERO_MAX_EOS) {
        return CERO_MODEL_REFUSE(value, "eos_token_id: %lld tokens, at most %d can be kept",
                                 (long long)value->count, CERO_MAX_EOS);
    }
    for (const cero_json *v = value->child; v != NULL; v = v->next) {
        CERO_TRY(cero_model_read_int(v, 0, &spec->eos_token_id[spec->eos_count]));
        spec->eos_count++;
    }
    return CERO_OK;
}

static cero_status read_architectures(const cero_json *value, cero_model_spec *spec)
{
    const char *prefix = spec->arch == CERO_ARCH_GPT2 ? "GPT2" : "Llama";
    const char *head = spec->arch == CERO_ARCH_GPT2 ? "LMHeadModel" : "ForCausalLM";

    CERO_TRY(cero_model_expect(value, CERO_JSON_ARRAY));
    for (const cero_json *v = value->child; v != NULL; v = v->next) {
        CERO_TRY(cero_model_expect(v, CERO_JSON_STRING));
        size_t n = strlen(prefix);
        if (strncmp(v->text, prefix, n) != 0 ||
            (strcmp(v->text + n, head) != 0 && strcmp(v->text + n, "Model") != 0)) {
            return CERO_MODEL_REFUSE(
                v, "architectures: \"%.60s\", only %s%s is offered for this model_type", v->text,
                prefix, head);
        }
    }
    return CERO_OK;
}

static cero_status read_one(const cero_json *value, cero_model_spec *spec)
{
    int64_t count;

    CERO_UNUSED(spec);
    CERO_TRY(cero_model_read_int(value, 1, &count));
    return count == 1 ? CERO_OK
                      : CERO_MODEL_REFUSE(value, "%s is %lld; only 1 is offered", value->key,
                                          (long long)count);
}

static cero_status read_layer_types(const cero_json *value, cero_model_spec *spec)
{
    CERO_UNUSED(spec);
    CERO_TRY(cero_model_expect(value, CERO_JSON_ARRAY));
    for (const cero_json *v = value->child; v != NULL; v = v->next) {
        if (v->type != CERO_JSON_STRING || strcmp(v->text, "full_attention") != 0) {
            return CERO_MODEL_REFUSE(v, "layer_types: only \"full_attention\" is offered");
        }
    }
    return CERO_OK;
}

static cero_status read_rope_type(const cero_json *object, cero_model_spec *spec)
{
    const cero_json *value = cero_json_find(object, "rope_type");
    const cero_json *older = cero_json_find(object, "type");

    value = value == NULL ? older : value;
    if (value == NULL) {
        return CERO_JSON_FAIL(object, "%s: \"rope_type\" is missing", object->key);
    }
    CERO_TRY(cero_model_expect(value, CERO_JSON_STRING));
    if (older != NULL &&
        (older->type != CERO_JSON_STRING || strcmp(older->text, value->text) != 0)) {
        return CERO_JSON_FAIL(older, "%s: \"type\" and \"rope_type\" differ", object->key);
    }
    if (strcmp(value->text, "default") == 0) {
        spec->rope_type = CERO_ROPE_DEFAULT;
    } else if (strcmp(value->text, "linear") == 0) {
        spec->rope_type = CERO_ROPE_LINEAR;
    } else if (strcmp(value->text, "llama3") == 0) {
        spec->rope_type = CERO_ROPE_LLAMA3;
    } else {
        return CERO_MODEL_REFUSE(
            value, "%s: rope type \"%.40s\" is not offered (default, linear, llama3 are)",
            object->key, value->text);
    }
    return CERO_OK;
}

/* Members of rope_scaling and rope_parameters; each is needed by some types and refused by others. */
cero_status cero_model_read_rope(const cero_json *object, cero_model_spec *spec)
{
    const struct {
        const char *key;
        cero_rope_type from; /* needed from this type on */
        double *out;
    } members[] = {
        {"factor", CERO_ROPE_LINEAR, &spec->rope_factor},
        {"low_freq_factor", CERO_ROPE_LLAMA3, &spec->rope_low_freq_factor},
        {"high_freq_factor", CERO_ROPE_LLAMA3, &spec->rope_high_freq_factor},
    };
    bool is_new = strcmp(object->key, "rope_parameters") == 0;

    CERO_TRY(cero_model_expect(object, CERO_JSON_OBJECT));
    CERO_TRY(read_rope_type(object, spec));
    for (const cero_json *v = object->child; v != NULL; v = v->next) {
        bool is_known = strcmp(v->key, "rope_type") == 0 || strcmp(v->key, "type") == 0;
        for (size_t i = 0; i < CERO_COUNT_OF(members); i++) {
            if (strcmp(members[i].key, v->key) == 0 && spec->rope_type >= members[i].from) {
                is_known = true;
                CERO_TRY(cero_model_read_real(v, members[i].out));
            }
        }
        if (is_new && strcmp(v->key, "rope_theta") == 0) {
            is_known = true;
            CERO_TRY(cero_model_read_real(v, &spec->rope_theta));
        }
        if (strcmp(v->key, "original_max_position_embeddings") == 0 &&
            spec->rope_type == CERO_ROPE_LLAMA3) {
            is_known = true;
            CERO_TRY(cero_model_read_int(v, 1, &spec->rope_original_context));
        }
        if (!is_known) {
            return CERO_MODEL_REFUSE(v, "%s: \"%.60s\" has no meaning for this rope type",
                                     object->key, v->key);
        }
    }
    for (size_t i = 0; i < CERO_COUNT_OF(members); i++) {
        if (spec->rope_type >= members[i].from && cero_json_find(object, members[i].key) == NULL) {
            return CERO_JSON_FAIL(object, "%s: \"%s\" is missing", object->key, members[i].key);
        }
    }
    if (spec->rope_type == CERO_ROPE_LLAMA3 && spec->rope_original_context == 0) {
        return CERO_JSON_FAIL(object, "%s: \"original_max_position_embeddings\" is missing",
                              object->key);
    }
    return CERO_OK;
}

static cero_status read_nothing(const cero_json *value, cero_model_spec *spec)
{
    CERO_UNUSED(value);
    CERO_UNUSED(spec);
    return CERO_OK;
}

#define AT(member) offsetof(cero_model_spec, member)
#define COMMON_FIELDS                                                                         \
    {"vocab_size", CERO_MODEL_FIELD_INT, false, AT(vocab_size), NULL},                        \
        {"initializer_range", CERO_MODEL_FIELD_REAL, false, AT(initializer_range), NULL},     \
        {"tie_word_embeddings", CERO_MODEL_FIELD_BOOL, false, AT(tie_word_embeddings), NULL}, \
        {"bos_token_id", CERO_MODEL_FIELD_READ, false, 0, read_bos},                          \
        {"eos_token_id", CERO_MODEL_FIELD_READ, false, 0, read_eos},                          \
        {"torch_dtype", CERO_MODEL_FIELD_READ, true, 0, read_dtype},                          \
        {"dtype", CERO_MODEL_FIELD_READ, true, 0, read_dtype},                                \
        {"architectures", CERO_MODEL_FIELD_READ, true, 0, read_architectures},                \
        {"model_type", CERO_MODEL_FIELD_READ, true, 0, read_nothing},                         \
        {"add_cross_attention", CERO_MODEL_FIELD_FIXED, true, 0, NULL},                       \
        {"cross_attention_hidden_size", CERO_MODEL_FIELD_FIXED, true, 0, NULL},               \
        {"is_encoder_decoder", CERO_MODEL_FIELD_FIXED, true, 0, NULL},                        \
        {"tie_encoder_decoder", CERO_MODEL_FIELD_FIXED, true, 0, NULL},                       \
        {"pruned_heads", CERO_MODEL_FIELD_FIXED, true, 0, NULL},                              \
        {"quantization_config", CERO_MODEL_FIELD_FIXED, true, 0, NULL},                       \
    {                                                                                         \
        "auto_map", CERO_MODEL_FIELD_FIXED, true, 0, NULL                                     \
    }

static const cero_model_field gpt2_fields[] = {
    COMMON_FIELDS,
    {"n_positions", CERO_MODEL_FIELD_INT, false, AT(context), NULL},
    {"max_position_embeddings", CERO_MODEL_FIELD_INT, false, AT(context), NULL},
    {"n_embd", CERO_MODEL_FIELD_INT, false, AT(hidden), NULL},
    {"hidden_size", CERO_MODEL_FIELD_INT, false, AT(hidden), NULL},
    {"n_layer", CERO_MODEL_FIELD_INT, false, AT(layers), NULL},
    {"num_hidden_layers", CERO_MODEL_FIELD_INT, false, AT(layers), NULL},
    {"n_head", CERO_MODEL_FIELD_INT, false, AT(heads), NULL},
    {"num_attention_heads", CERO_MODEL_FIELD_INT, false, AT(heads), NULL},
    {"n_inner", CERO_MODEL_FIELD_INT, true, AT(inner), NULL},
    {"activation_function", CERO_MODEL_FIELD_READ, false, 0, read_activation},
    {"layer_norm_epsilon", CERO_MODEL_FIELD_REAL, false, AT(norm_eps), NULL},
    {"embd_pdrop", CERO_MODEL_FIELD_REAL, false, AT(embd_dropout), NULL},
    {"attn_pdrop", CERO_MODEL_FIELD_REAL, false, AT(attn_dropout), NULL},
    {"resid_pdrop", CERO_MODEL_FIELD_REAL, false, AT(resid_dropout), NULL},
    {"scale_attn_weights", CERO_MODEL_FIELD_BOOL, false, AT(scale_attn_weights), NULL},
    {"scale_attn_by_inverse_layer_idx", CERO_MODEL_FIELD_BOOL, false,
     AT(scale_attn_by_inverse_layer_idx), NULL},
    {"reorder_and_upcast_attn", CERO_MODEL_FIELD_FIXED, false, 0, NULL},
};

static const cero_model_field llama_fields[] = {
    COMMON_FIELDS,
    {"max_position_embeddings", CERO_MODEL_FIELD_INT, false, AT(context), NULL},
    {"hidden_size", CERO_MODEL_FIELD_INT, false, AT(hidden), NULL},
    {"intermediate_size", CERO_MODEL_FIELD_INT, false, AT(inner), NULL},
    {"num_hidden_layers", CERO_MODEL_FIELD_INT, false, AT(layers), NULL},
    {"num_attention_heads", CERO_MODEL_FIELD_INT, false, AT(heads), NULL},
    {"num_key_value_heads", CERO_MODEL_FIELD_INT, true, AT(kv_heads), NULL},
    {"head_dim", CERO_MODEL_FIELD_INT, true, AT(head_dim), NULL},
    {"hidden_act", CERO_MODEL_FIELD_READ, false, 0, read_activation},
    {"rms_norm_eps", CERO_MODEL_FIELD_REAL, false, AT(norm_eps), NULL},
    {"attention_bias", CERO_MODEL_FIELD_BOOL, false, AT(attention_bias), NULL},
    {"mlp_bias", CERO_MODEL_FIELD_BOOL, false, AT(mlp_bias), NULL},
    {"attention_dropout", CERO_MODEL_FIELD_REAL, false, AT(attn_dropout), NULL},
    {"rope_theta", CERO_MODEL_FIELD_REAL, false, AT(rope_theta), NULL},
    {"rope_scaling", CERO_MODEL_FIELD_READ, true, 0, cero_model_read_rope},
    {"rope_parameters", CERO_MODEL_FIELD_READ, true, 0, cero_model_read_rope},
    {"pretraining_tp", CERO_MODEL_FIELD_READ, true, 0, read_one},
    {"layer_types", CERO_MODEL_FIELD_READ, true, 0, read_layer_types},
    {"sliding_window", CERO_MODEL_FIELD_FIXED, true, 0, NULL},
    {"use_sliding_window", CERO_MODEL_FIELD_FIXED, true, 0, NULL},
    {"rope_interleaved", CERO_MODEL_FIELD_FIXED, true, 0, NULL},
    {"attn_logit_softcapping", CERO_MODEL_FIELD_FIXED, true, 0, NULL},
    {"final_logit_softcapping", CERO_MODEL_FIELD_FIXED, true, 0, NULL},
};

#undef AT
#undef COMMON_FIELDS

_Static_assert(CERO_COUNT_OF(gpt2_fields) <= CERO_MODEL_MAX_FIELDS, "gpt2 fields fit");
_Static_assert(CERO_COUNT_OF(llama_fields) <= CERO_MODEL_MAX_FIELDS, "llama fields fit");

const cero_model_field *cero_model_fields(cero_arch arch, size_t *count)
{
    *count = arch == CERO_ARCH_GPT2 ? CERO_COUNT_OF(gpt2_fields) : CERO_COUNT_OF(llama_fields);
    return arch == CERO_ARCH_GPT2 ? gpt2_fields : llama_fields;
}

const char *cero_model_ignorable_field(size_t i)
{
    return i < CERO_COUNT_OF(ignorable) ? ignorable[i] : NULL;
}
