/* SPDX-License-Identifier: Apache-2.0 */
/* The sections of run_state.h, written and read. What changed of the config: run_changes.c. */
#include "train/checkpoint/run_state.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *order_name(cero_sampler_order order)
{
    return order == CERO_SAMPLER_SEQUENTIAL ? "sequential" : "shuffled";
}

cero_status cero_run_state_write(const cero_run_state *state, cero_text *out)
{
    const cero_run_data *d = &state->data;

    cero_text_printf(out, "{\"samples\":%lld,\"tokens\":%lld,\"steps\":%lld,\"eval_loss\":",
                     (long long)state->samples, (long long)state->tokens, (long long)state->steps);
    cero_text_append_double(out, state->eval_loss);
    cero_text_printf(
        out,
        ",\"sampler\":{\"position\":%lld,\"epoch\":%lld,\"order\":\"%s\",\"seed\":%llu,"
        "\"seq_len\":%lld,\"token_count\":%lld,\"token_hash\":\"%016llx\"}}",
        (long long)state->position, (long long)state->epoch, order_name(d->order),
        (unsigned long long)d->seed, (long long)d->seq_len, (long long)d->token_count,
        (unsigned long long)d->token_hash);
    return cero_text_finish(out);
}

static cero_status read_count(const cero_json *object, const char *key, int64_t *out)
{
    const cero_json *value = cero_json_find(object, key);
    bool is_good = value != NULL && value->type == CERO_JSON_NUMBER &&
                   cero_json_int(value, out) == CERO_OK && *out >= 0;

    return is_good ? CERO_OK
                   : CERO_FAIL(CERO_ERR_CORRUPT, "\"%s\" of section \"train\" is no count", key);
}

/* A number of 64 bits: decimal digits of a number, or hexadecimal ones of a string. */
static cero_status read_bits(const cero_json *object, const char *key, cero_json_type type,
                             uint64_t *out)
{
    const cero_json *value = cero_json_find(object, key);
    char *end = NULL;

    errno = 0;
    if (value != NULL && value->type == type && value->text_length > 0) {
        *out = strtoull(value->text, &end, type == CERO_JSON_STRING ? 16 : 10);
    }
    CERO_CHECK(end != NULL && *end == '\0' && errno == 0, CERO_ERR_CORRUPT,
               "\"%s\" of section \"train\" is no number of 64 bits", key);
    return CERO_OK;
}

static cero_status read_order(const cero_json *sampler, cero_sampler_order *out)
{
    const cero_json *value = cero_json_find(sampler, "order");

    for (int o = CERO_SAMPLER_SHUFFLED; o <= CERO_SAMPLER_SEQUENTIAL; o++) {
        if (value != NULL && value->type == CERO_JSON_STRING &&
            strcmp(value->text, order_name((cero_sampler_order)o)) == 0) {
            *out = (cero_sampler_order)o;
            return CERO_OK;
        }
    }
    return CERO_FAIL(CERO_ERR_CORRUPT,
                     "\"order\" of section \"train\" is not \"shuffled\" or \"sequential\"");
}

static cero_status read_sampler(const cero_json *sampler, cero_run_state *out)
{
    CERO_CHECK(sampler != NULL && sampler->type == CERO_JSON_OBJECT, CERO_ERR_CORRUPT,
               "section \"train\" has no object \"sampler\"");
    CERO_TRY(read_count(sampler, "position", &out->position));
    CERO_TRY(read_count(sampler, "epoch", &out->epoch));
    CERO_TRY(read_count(sampler, "seq_len", &out->data.seq_len));
    CERO_TRY(read_count(sampler, "token_count", &out->data.token_count));
    CERO_TRY(read_bits(sampler, "seed", CERO_JSON_NUMBER, &out->data.seed));
    CERO_TRY(read_bits(sampler, "token_hash", CERO_JSON_STRING, &out->data.token_hash));
    return read_order(sampler, &out->data.order);
}

cero_status cero_run_state_read(const cero_manifest *manifest, cero_run_state *out)
{
    const cero_json *section = cero_manifest_section_find(manifest, "train");

    *out = (cero_run_state){.eval_loss = (double)NAN};
    CERO_CHECK(section != NULL && section->type == CERO_JSON_OBJECT, CERO_ERR_INVALID,
               "the checkpoint has no section \"train\": it is not one of a training run, and its "
               "weights alone can be used (--init-from)");
    const cero_json *loss = cero_json_find(section, "eval_loss");
    if (loss != NULL && loss->type == CERO_JSON_NUMBER) {
        out->eval_loss = loss->number;
    }
    CERO_TRY(read_count(section, "samples", &out->samples));
    CERO_TRY(read_count(section, "tokens", &out->tokens));
    CERO_TRY(read_count(section, "steps", &out->steps));
    return read_sampler(cero_json_find(section, "sampler"), out);
}

cero_status cero_run_state_check_data(const cero_run_data *saved, const cero_run_data *now)
{
    cero_text text = {0};
    const char *between = "";

    if (saved->token_count != now->token_count) {
        cero_text_printf(&text, "the data were %lld tokens, now %lld",
                         (long long)saved->token_count, (long long)now->token_count);
        between = "; ";
    } else if (saved->token_hash != now->token_hash) {
        cero_text_printf(&text, "the data were other tokens, as many (hash %016llx, now %016llx)",
                         (unsigned long long)saved->token_hash,
                         (unsigned long long)now->token_hash);
        between = "; ";
    }
    if (saved->seq_len != now->seq_len) {
        cero_text_printf(&text, "%sthe sequence length was %lld, now %lld", between,
                         (long long)saved->seq_len, (long long)now->seq_len);
        between = "; ";
    }
    if (saved->order != now->order) {
        cero_text_printf(&text, "%sthe order was %s, now %s", between, order_name(saved->order),
                         order_name(now->order));
        between = "; ";
    }
    if (saved->seed != now->seed) {
        cero_text_printf(&text, "%scero.seed was %llu, now %llu", between,
                         (unsigned long long)saved->seed, (unsigned long long)now->seed);
    }
    cero_status st = cero_text_finish(&text);
    if (st == CERO_OK && text.length > 0) {
        st = CERO_FAIL(CERO_ERR_INVALID,
                       "the position in the data would mean other samples: %s; --resume-without "
                       "data begins at sample 0 of what is given now",
                       text.data);
    }
    cero_text_cleanup(&text);
    return st;
}
