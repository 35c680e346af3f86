/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The closed tables: every tensor name a GPT-2 or Llama file of Hugging Face can hold.
 *
 * L layers, H hidden, I inner, V vocabulary, C context; q and k are the widths of all query heads and of
 * all key/value heads.
 */
#include "ckpt/hf.h"

#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Building a table: the first failure is kept, later calls do nothing. */
typedef struct builder {
    cero_hf_table *table;
    cero_status status;
    int64_t layer; /* -1 outside of layers */
} builder;

static cero_hf_entry *add(builder *b, cero_hf_role role, const char *name)
{
    cero_hf_table *t = b->table;
    void *array = t->entry;

    if (b->status == CERO_OK) {
        b->status = cero_grow(&array, t->count, &t->capacity, sizeof(t->entry[0]));
        t->entry = array;
    }
    if (b->status != CERO_OK) {
        return NULL;
    }
    cero_hf_entry *e = &t->entry[t->count++];
    *e = (cero_hf_entry){.role = role, .layer = b->layer};
    if (b->layer < 0) {
        (void)snprintf(e->name, sizeof(e->name), "%s", name);
    } else {
        bool is_gpt2 = t->prefix[0] == 't';
        (void)snprintf(e->name, sizeof(e->name), "%s.%lld.%s",
                       is_gpt2 ? "transformer.h" : "model.layers", (long long)b->layer, name);
    }
    t->param_count += role == CERO_HF_PARAM;
    return e;
}

static void add_vector(builder *b, const char *name, int64_t n)
{
    cero_hf_entry *e = add(b, CERO_HF_PARAM, name);

    if (e != NULL) {
        e->shape = (cero_shape){.ndim = 1, .dim = {n}};
    }
}

static void add_matrix(builder *b, const char *name, int64_t rows, int64_t columns)
{
    cero_hf_entry *e = add(b, CERO_HF_PARAM, name);

    if (e != NULL) {
        e->shape = (cero_shape){.ndim = 2, .dim = {rows, columns}};
    }
}

static void add_gpt2_layer(builder *b, const cero_model_spec *s)
{
    int64_t H = s->hidden;
    int64_t I = s->inner;

    add_vector(b, "ln_1.weight", H);
    add_vector(b, "ln_1.bias", H);
    add_matrix(b, "attn.c_attn.weight", H, 3 * H);
    add_vector(b, "attn.c_attn.bias", 3 * H);
    add_matrix(b, "attn.c_proj.weight", H, H);
    add_vector(b, "attn.c_proj.bias", H);
    add_vector(b, "ln_2.weight", H);
    add_vector(b, "ln_2.bias", H);
    add_matrix(b, "mlp.c_fc.weight", H, I);
    add_vector(b, "mlp.c_fc.bias", I);
    add_matrix(b, "mlp.c_proj.weight", I, H);
    add_vector(b, "mlp.c_proj.bias", H);
}

static void add_linear(builder *b, const char *name, int64_t out, int64_t in, bool has_bias)
{
    char full[CERO_HF_MAX_NAME / 2]; // with the layer's name before it, it fits an entry

    (void)snprintf(full, sizeof(full), "%s.weight", name);
    add_matrix(b, full, out, in);
    if (has_bias) {
        (void)snprintf(full, sizeof(full), "%s.bias", name);
        add_vector(b, full, out);
    }
}

static void add_llama_layer(builder *b, const cero_model_spec *s)
{
    int64_t H = s->hidden;
    int64_t I = s->inner;
    int64_t q = s->heads * s->head_dim;
    int64_t k = s->kv_heads * s->head_dim;

    add_vector(b, "input_layernorm.weight", H);
    add_linear(b, "self_attn.q_proj", q, H, s->attention_bias);
    add_linear(b, "self_attn.k_proj", k, H, s->attention_bias);
    add_linear(b, "self_attn.v_proj", k, H, s->attention_bias);
    add_linear(b, "self_attn.o_proj", H, q, s->attention_bias);
    add_vector(b, "post_attention_layernorm.weight", H);
    add_linear(b, "mlp.gate_proj", I, H, s->mlp_bias);
    add_linear(b, "mlp.up_proj", I, H, s->mlp_bias);
    add_linear(b, "mlp.down_proj", H, I, s->mlp_bias);
}

/* The head: a parameter, or another name of the embedding (entry 0). Called after all parameters. */
static void add_head(builder *b, const cero_model_spec *s)
{
    if (!s->tie_word_embeddings) {
        add_matrix(b, "lm_head.weight", s->vocab_size, s->hidden);
        return;
    }
    cero_hf_entry *e = add(b, CERO_HF_TIED, "lm_head.weight");
    if (e != NULL) {
        e->shape = b->table->entry[0].shape;
        e->tied_to = 0;
    }
}

static void add_gpt2(builder *b, const cero_model_spec *s)
{
    b->layer = -1;
    add_matrix(b, "transformer.wte.weight", s->vocab_size, s->hidden);
    add_matrix(b, "transformer.wpe.weight", s->context, s->hidden);
    for (b->layer = 0; b->layer < s->layers; b->layer++) {
        add_gpt2_layer(b, s);
    }
    b->layer = -1;
    add_vector(b, "transformer.ln_f.weight", s->hidden);
    add_vector(b, "transformer.ln_f.bias", s->hidden);
    add_head(b, s);
    for (b->layer = 0; b->layer < s->layers; b->layer++) {
        (void)add(b, CERO_HF_IGNORED, "attn.bias");        // the causal mask, [1, 1, C, C]
        (void)add(b, CERO_HF_IGNORED, "attn.masked_bias"); // the score of what is masked, []
    }
}

static void add_llama(builder *b, const cero_model_spec *s)
{
    b->layer = -1;
    add_matrix(b, "model.embed_tokens.weight", s->vocab_size, s->hidden);
    for (b->layer = 0; b->layer < s->layers; b->layer++) {
        add_llama_layer(b, s);
    }
    b->layer = -1;
    add_vector(b, "model.norm.weight", s->hidden);
    add_head(b, s);
    for (b->layer = 0; b->layer < s->layers; b->layer++) {
        (void)add(b, CERO_HF_IGNORED, "self_attn.rotary_emb.inv_freq"); // follows from rope_theta
    }
}

/* qsort has no context argument, so that what is sorted carries the names. */
typedef struct named_index {
    const char *name;
    int64_t index;
} named_index;

static int compare_names(const void *left, const void *right)
{
    const named_index *a = left;
    const named_index *b = right;

    return strcmp(a->name, b->name);
}

static cero_status sort_names(cero_hf_table *table)
{
    size_t n = (size_t)table->count;
    named_index *names = cero_new(n, sizeof(names[0]));

    table->by_name = cero_new(n, sizeof(table->by_name[0]));
    if (names == NULL || table->by_name == NULL) {
        cero_delete(names);
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for the names of %lld tensors",
                         (long long)table->count);
    }
    for (size_t i = 0; i < n; i++) {
        names[i] = (named_index){.name = table->entry[i].name, .index = (int64_t)i};
    }
    qsort(names, n, sizeof(names[0]), compare_names);
    for (size_t i = 0; i < n; i++) {
        table->by_name[i] = names[i].index;
    }
    cero_delete(names);
    return CERO_OK;
}

cero_status cero_hf_table_init(const cero_model_spec *spec, cero_hf_table *out)
{
    cero_hf_table table = {0};
    builder b = {.table = &table, .status = CERO_OK};

    CERO_TRY(cero_model_spec_check(spec));
    if (spec->arch == CERO_ARCH_GPT2) {
        table.prefix = "transformer.";
        add_gpt2(&b, spec);
    } else {
        table.prefix = "model.";
        add_llama(&b, spec);
    }
    if (b.status == CERO_OK) {
        b.status = sort_names(&table);
    }
    if (b.status != CERO_OK) {
        cero_hf_table_cleanup(&table);
        return b.status;
    }
    *out = table;
    return CERO_OK;
}

void cero_hf_table_cleanup(cero_hf_table *table)
{
    cero_delete(table->entry);
    cero_delete(table->by_name);
    *table = (cero_hf_table){0};
}

const cero_hf_entry *cero_hf_table_find(const cero_hf_table *table, const char *name)
{
    int64_t low = 0;
    int64_t high = table->count;

    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        const cero_hf_entry *e = &table->entry[table->by_name[middle]];
        int order = strcmp(name, e->name);
        if (order == 0) {
            return e;
        }
        low = order > 0 ? middle + 1 : low;
        high = order < 0 ? middle : high;
    }
    return NULL;
}
