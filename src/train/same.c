/* SPDX-License-Identifier: Apache-2.0 */
/* The comparisons of same.h. Data and weights are compared by samples: whole ones would be read twice. */
#include "train/same.h"

#include "base/text.h"

#include <string.h>

enum {
    WINDOWS = 64, /* of a stream that are looked at, the first and the last among them */
    WINDOW = 16,  /* tokens */
    ELEMENTS = 16 /* of each parameter */
};

/* FNV-1a over what was there before. */
static void mix(uint64_t *hash, const void *data, size_t nbytes)
{
    const unsigned char *p = data;

    for (size_t i = 0; i < nbytes; i++) {
        *hash = (*hash ^ p[i]) * 0x100000001b3u;
    }
}

static const char *origin_of_weights(const cero_trainer_params *p)
{
    return p->init_from != NULL ? "from a checkpoint"
           : p->has_weights     ? "from the model directory"
                                : "initial";
}

static void write_checkpoint_options(const cero_trainer_params *p, cero_text *text)
{
    cero_text_printf(text, "steps between checkpoints: %lld\ncheckpoints that are kept: %lld\n",
                     (long long)p->save_every, (long long)p->keep);
    cero_text_printf(text, "a failed save ends the run: %s\n",
                     p->stops_on_save_error ? "yes" : "no");
    cero_text_printf(text, "resume: %d %s\n", (int)p->resume,
                     p->resume_tag != NULL ? p->resume_tag : "");
    cero_text_printf(text, "resume without: %s%s\n", p->resume_without_data ? " data" : "",
                     p->resume_without_optimizer ? " optimizer" : "");
}

static cero_status write_options(const cero_trainer_params *p, cero_text *text)
{
    cero_text_printf(text,
                     "steps: %lld\nsequence length: %lld\norder: %s\nevaluation data: %s\n"
                     "steps between evaluations: %lld\nweights: %s\n",
                     (long long)p->steps, (long long)p->seq_len,
                     p->order == CERO_SAMPLER_SHUFFLED ? "shuffled" : "sequential",
                     p->eval_data != NULL ? "given" : "none", (long long)p->eval_every,
                     origin_of_weights(p));
    write_checkpoint_options(p, text);
    return cero_text_finish(text);
}

cero_status cero_same_options(const cero_trainer_params *params)
{
    cero_comm *comm = params->context->comm;
    cero_text text = {0};
    cero_status st = write_options(params, &text);

    CERO_TRY_GOTO(cero_comm_agree(comm, st), out);
    CERO_TRY_GOTO(cero_comm_check_same_text(comm, "the command line", &text), out);
    text.length = 0;
    st = cero_model_spec_write_json(params->model, CERO_DTYPE_F32, &text);
    CERO_TRY_GOTO(cero_comm_agree(comm, st), out);
    CERO_TRY_GOTO(cero_comm_check_same_text(comm, "the model description", &text), out);

out:
    cero_text_cleanup(&text);
    return st;
}

/* What is compared of a stream. */
typedef struct sample {
    int64_t count;
    uint64_t hash;
} sample;

static cero_status take_sample(cero_token_stream *stream, sample *out)
{
    int64_t count = cero_token_stream_count(stream);
    int64_t n = count < WINDOW ? count : WINDOW;
    int32_t ids[WINDOW];

    *out = (sample){.count = count, .hash = 0xcbf29ce484222325u};
    for (int64_t i = 0; i < WINDOWS; i++) {
        // Multiplied in this order because a stream may have more than 2^57 tokens.
        int64_t at = (count - n) / (WINDOWS - 1) * i;
        at = i == WINDOWS - 1 ? count - n : at;
        CERO_TRY(cero_token_stream_read(stream, at, n, ids));
        mix(&out->hash, ids, (size_t)n * sizeof(ids[0]));
    }
    return CERO_OK;
}

cero_status cero_same_data_hash(cero_token_stream *stream, uint64_t *hash)
{
    sample s = {0};

    CERO_TRY(take_sample(stream, &s));
    *hash = s.hash;
    return CERO_OK;
}

cero_status cero_same_data(cero_comm *comm, cero_token_stream *stream, const char *what)
{
    sample mine = {0};
    cero_status st = cero_comm_size(comm) > 1 ? take_sample(stream, &mine) : CERO_OK;

    CERO_TRY(cero_comm_agree(comm, st));
    sample first = mine;
    CERO_TRY(cero_comm_broadcast(comm, &first, sizeof(first), 0));
    if (mine.count != first.count) {
        st = CERO_FAIL(CERO_ERR_INVALID,
                       "the %s data are %lld tokens for rank %d, and %lld for rank 0; give all "
                       "ranks the same files",
                       what, (long long)mine.count, cero_comm_rank(comm), (long long)first.count);
    } else if (mine.hash != first.hash) {
        st = CERO_FAIL(CERO_ERR_INVALID,
                       "the %s data of rank %d are other tokens than those of rank 0, although as "
                       "many (%lld); give all ranks the same files",
                       what, cero_comm_rank(comm), (long long)mine.count);
    }
    return cero_comm_agree(comm, st);
}

cero_status cero_same_weights_hash(cero_hf_import *import, uint64_t *hash)
{
    const cero_hf_table *table = cero_hf_import_table(import);
    float values[ELEMENTS];

    for (int64_t i = 0; i < table->param_count; i++) {
        const cero_hf_entry *e = &table->entry[i];
        int64_t numel = cero_shape_numel(&e->shape);
        int64_t n = numel < ELEMENTS ? numel : ELEMENTS;
        CERO_TRY(cero_hf_import_read(import, e->name, (numel - n) / 2, n, values));
        mix(hash, values, (size_t)n * sizeof(values[0]));
    }
    return CERO_OK;
}
