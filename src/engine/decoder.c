/* SPDX-License-Identifier: Apache-2.0 */
/* The decoder of decoder.h: blocks of the prompt first, then token by token. */
#include "engine/decoder.h"

enum {
    BLOCK = 64,
    PROGRAM_COUNT = 2
};

typedef struct decode_program {
    int64_t tokens; /* taken at once */
    cero_graph *graph;
    cero_program *program;
    int32_t *input;      /* [tokens], view into the program, like logits */
    const float *logits; /* [vocab] */
} decode_program;

struct cero_decoder {
    cero_context *context; /* borrowed */
    cero_decoder_params params;
    cero_zero *zero;
    decode_program programs[PROGRAM_COUNT]; /* larger block first; the last takes one token */
    int program_count;
    int64_t length;
    int64_t vocab;
};

static cero_status compile(const cero_decoder *decoder, decode_program *p)
{
    cero_model_shape shape = {.mode = CERO_MODEL_DECODE,
                              .micro_batch = 1,
                              .seq_len = p->tokens,
                              .cache_len = decoder->params.cache_len};

    CERO_TRY(cero_graph_create(decoder->context->device, decoder->params.dtype, &p->graph));
    CERO_TRY(decoder->params.build(p->graph, &shape, decoder->params.context));
    CERO_TRY(cero_graph_status(p->graph));
    const cero_value *logits = cero_graph_find_output(p->graph, "logits");
    CERO_CHECK(logits != NULL && logits->desc.shape.ndim == 2, CERO_ERR_INVALID,
               "the model has no output \"logits\" of two dimensions: it cannot generate");
    return cero_program_create(p->graph, &p->program);
}

static cero_status bind(cero_decoder *decoder)
{
    for (int i = 0; i < decoder->program_count; i++) {
        cero_program_bindings bindings = {
            .mem = decoder->context->mem,
            .param = cero_zero_param_addresses(decoder->zero),
            .state_owner = i == 0 ? NULL : decoder->programs[0].program,
        };
        decode_program *p = &decoder->programs[i];
        CERO_TRY(cero_program_bind(p->program, &bindings));
        p->input = cero_program_data(p->program, "tokens");
        p->logits = cero_program_data(p->program, "logits");
        CERO_CHECK(p->input != NULL, CERO_ERR_INVALID,
                   "the model has no input \"tokens\": it cannot generate");
    }
    return CERO_OK;
}

cero_status cero_decoder_create(cero_context *context, const cero_decoder_params *params,
                                cero_decoder **out)
{
    cero_status st = CERO_OK;

    CERO_CHECK(params->cache_len > 0, CERO_ERR_INVALID, "a cache of %lld positions",
               (long long)params->cache_len);
    cero_decoder *decoder = cero_new(1, sizeof(*decoder));
    if (decoder == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a decoder");
    }
    decoder->context = context;
    decoder->params = *params;
    if (params->cache_len >= BLOCK) {
        decoder->programs[decoder->program_count++].tokens = BLOCK;
    }
    decoder->programs[decoder->program_count++].tokens = 1;
    for (int i = 0; i < decoder->program_count; i++) {
        CERO_TRY_GOTO(compile(decoder, &decoder->programs[i]), fail);
    }
    CERO_TRY_GOTO(cero_zero_create(&(cero_zero_params){.device = context->device,
                                                       .mem = context->mem,
                                                       .comm = context->comm,
                                                       .graph = decoder->programs[0].graph},
                                   &decoder->zero),
                  fail);
    CERO_TRY_GOTO(cero_zero_allocate(decoder->zero, 0), fail);
    CERO_TRY_GOTO(bind(decoder), fail);
    decoder->vocab =
        cero_graph_find_output(decoder->programs[0].graph, "logits")->desc.shape.dim[1];
    *out = decoder;
    return CERO_OK;

fail:
    cero_decoder_destroy(&decoder);
    return st;
}

void cero_decoder_destroy(cero_decoder **decoder)
{
    if (decoder == NULL || *decoder == NULL) {
        return;
    }
    for (int i = (*decoder)->program_count - 1; i >= 0; i--) {
        cero_program_destroy(&(*decoder)->programs[i].program);
        cero_graph_destroy(&(*decoder)->programs[i].graph);
    }
    cero_zero_destroy(&(*decoder)->zero);
    cero_delete(*decoder);
    *decoder = NULL;
}

int64_t cero_decoder_param_count(const cero_decoder *decoder)
{
    return cero_zero_get_layout(decoder->zero)->param_count;
}

cero_param_info cero_decoder_param_info(const cero_decoder *decoder, int64_t i)
{
    const cero_zero_param *p = &cero_zero_get_layout(decoder->zero)->params[i];
    return (cero_param_info){.name = p->name, .shape = p->shape};
}

cero_status cero_decoder_set_param(cero_decoder *decoder, int64_t i, int64_t begin, int64_t n,
                                   const float *values)
{
    return cero_zero_set_param(decoder->zero, i, begin, n, values);
}

static cero_status run(cero_decoder *decoder, const decode_program *p, const int32_t *tokens)
{
    cero_step_env env = {.position = decoder->length};

    for (int64_t i = 0; i < p->tokens; i++) {
        p->input[i] = tokens[i];
    }
    CERO_TRY(cero_program_run(p->program, &env, CERO_PROGRAM_ALL));
    decoder->length += p->tokens;
    return CERO_OK;
}

cero_status cero_decoder_append(cero_decoder *decoder, const int32_t *tokens, int64_t count,
                                const float **logits)
{
    CERO_CHECK(count > 0, CERO_ERR_INVALID, "no tokens to continue from");
    CERO_CHECK(count <= decoder->params.cache_len - decoder->length, CERO_ERR_INVALID,
               "%lld tokens after %lld: the cache holds %lld positions", (long long)count,
               (long long)decoder->length, (long long)decoder->params.cache_len);
    for (int64_t i = 0; i < count; i++) {
        CERO_CHECK(tokens[i] >= 0 && tokens[i] < decoder->vocab, CERO_ERR_INVALID,
                   "token %d at position %lld: the vocabulary has %lld entries", tokens[i],
                   (long long)(decoder->length + i), (long long)decoder->vocab);
    }
    for (int64_t done = 0; done < count;) {
        int i = 0;
        while (decoder->programs[i].tokens > count - done) {
            i++;
        }
        CERO_TRY(run(decoder, &decoder->programs[i], tokens + done));
        *logits = decoder->programs[i].logits;
        done += decoder->programs[i].tokens;
    }
    return CERO_OK;
}

int64_t cero_decoder_length(const cero_decoder *decoder)
{
    return decoder->length;
}

int64_t cero_decoder_vocab(const cero_decoder *decoder)
{
    return decoder->vocab;
}

void cero_decoder_truncate(cero_decoder *decoder, int64_t length)
{
    if (length >= 0 && length < decoder->length) {
        decoder->length = length;
    }
}

double cero_decoder_bytes_per_token(const cero_decoder *decoder)
{
    const cero_graph *g = decoder->programs[decoder->program_count - 1].graph;
    double nbytes = 0;

    // A table that is only looked up costs one row; one that is also the head is read whole.
    for (int64_t i = 0; i < g->node_count; i++) {
        const cero_node *node = g->nodes[i];
        for (int k = 0; k < node->input_count; k++) {
            const cero_value *v = node->input[k];
            if (v->kind == CERO_VALUE_PARAM && g->params[v->param].is_embedding &&
                node->output_count > 0 &&
                cero_shape_numel(&node->output[0]->desc.shape) == v->desc.shape.dim[1]) {
                nbytes += (double)v->desc.shape.dim[1] * (double)cero_dtype_size(v->desc.dtype);
            } else if (v->kind == CERO_VALUE_PARAM) {
                nbytes += (double)cero_shape_numel(&v->desc.shape) *
                          (double)cero_dtype_size(v->desc.dtype);
            }
        }
    }
    return nbytes;
}
