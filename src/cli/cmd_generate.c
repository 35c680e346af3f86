/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cero generate`: continues a prompt with a model directory. Text is written as soon as whole characters
 * are there. Under a launcher there is one text all the same: rank 0's, for whose end the others wait.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "ckpt/foreign.h"
#include "ckpt/hf.h"
#include "cli/cli.h"
#include "cli/run_options.h"
#include "data/tokenizer.h"
#include "engine/decoder.h"
#include "engine/sampling.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Elements of a parameter read at once. */
enum {
    SPAN = 1 << 18
};

typedef struct generate_run {
    cero_cli *cli;
    const cero_generate_options *options;
    cero_model_spec model;
    cero_tokenizer *tokenizer;
    cero_context *context;
    cero_decoder *decoder;
    cero_token_ids ids; /* prompt and what follows */
    int64_t prompt_count;
    cero_text text;               /* of the new tokens */
    size_t shown;                 /* bytes of text already written */
    cero_sampling_entry *scratch; /* owned, [vocab] */
    const char *ended;            /* why: "length", "eos", "context" */
    double prompt_seconds;
    double decode_seconds;
} generate_run;

static cero_status open_inputs(generate_run *run)
{
    const cero_generate_options *o = run->options;
    const char *tokenizer = o->tokenizer != NULL ? o->tokenizer : o->model;
    unsigned flags = o->no_special ? CERO_ENCODE_PLAIN_SPECIAL : 0;

    cero_cli_at(run->cli, CERO_CLI_READING_INPUT, o->model);
    CERO_TRY(cero_foreign_check(o->model));
    cero_cli_at(run->cli, CERO_CLI_READING_CONFIG, o->model);
    CERO_TRY(cero_model_spec_resolve(o->model, &run->model));
    cero_cli_at(run->cli, CERO_CLI_READING_INPUT, tokenizer);
    CERO_TRY(cero_tokenizer_open(tokenizer, &run->tokenizer));
    CERO_TRY(cero_tokenizer_encode(run->tokenizer, o->prompt, strlen(o->prompt), flags, &run->ids));
    int32_t start = run->model.bos_token_id >= 0 ? (int32_t)run->model.bos_token_id
                                                 : cero_tokenizer_eos(run->tokenizer);
    if (run->ids.count == 0) {
        // An empty prompt starts a document: from the token that ends the one before it.
        CERO_CHECK(start >= 0, CERO_ERR_INVALID,
                   "the prompt is empty and the model names no token to start from");
        CERO_TRY(cero_token_ids_reserve(&run->ids, 1));
        run->ids.id[run->ids.count++] = start;
    }
    run->prompt_count = run->ids.count;
    CERO_CHECK(run->prompt_count < run->model.context, CERO_ERR_INVALID,
               "the prompt has %lld tokens and model %s takes %lld positions; shorten it",
               (long long)run->prompt_count, run->model.name, (long long)run->model.context);
    return cero_token_ids_reserve(&run->ids, o->max_tokens);
}

static cero_status load_weights(generate_run *run)
{
    cero_hf_import *import = NULL;
    cero_status st = CERO_OK;
    float *span = cero_new(SPAN, sizeof(*span));

    CERO_CHECK(span != NULL, CERO_ERR_NOMEM, "no memory for weights on their way in");
    cero_cli_at(run->cli, CERO_CLI_READING_INPUT, run->options->model);
    CERO_TRY_GOTO(cero_hf_import_open(run->options->model, &run->model, &import), out);
    for (int64_t i = 0; i < cero_decoder_param_count(run->decoder); i++) {
        cero_param_info info = cero_decoder_param_info(run->decoder, i);
        int64_t numel = cero_shape_numel(&info.shape);
        for (int64_t at = 0; at < numel; at += SPAN) {
            int64_t n = numel - at < SPAN ? numel - at : SPAN;
            CERO_TRY_GOTO(cero_hf_import_read(import, info.name, at, n, span), out);
            CERO_TRY_GOTO(cero_decoder_set_param(run->decoder, i, at, n, span), out);
        }
    }
out:
    cero_hf_import_close(&import);
    cero_delete(span);
    return st;
}

static cero_status create_decoder(generate_run *run)
{
    const cero_generate_options *o = run->options;
    const cero_dtype dtypes[] = {run->model.stored_dtype, CERO_DTYPE_F32, CERO_DTYPE_BF16,
                                 CERO_DTYPE_F16};
    int64_t wanted = run->prompt_count + o->max_tokens;
    cero_decoder_params params = {
        .build = cero_engine_build_model,
        .context = &run->model,
        .dtype = dtypes[o->dtype],
        .cache_len = wanted < run->model.context ? wanted : run->model.context,
    };

    cero_cli_at(run->cli, CERO_CLI_WORKING, NULL);
    CERO_TRY(cero_decoder_create(run->context, &params, &run->decoder));
    run->scratch = cero_new((size_t)cero_decoder_vocab(run->decoder), sizeof(*run->scratch));
    CERO_CHECK(run->scratch != NULL, CERO_ERR_NOMEM, "no memory to choose among %lld tokens",
               (long long)cero_decoder_vocab(run->decoder));
    return load_weights(run);
}

static bool is_eos(const generate_run *run, int32_t token)
{
    for (int i = 0; i < run->model.eos_count; i++) {
        if (run->model.eos_token_id[i] == token) {
            return true;
        }
    }
    return run->model.eos_count == 0 && token == cero_tokenizer_eos(run->tokenizer);
}

/* Writes what has become whole characters. */
static cero_status show(generate_run *run, bool is_end)
{
    const char *from = run->text.data + run->shown;
    size_t left = run->text.length - run->shown;
    size_t n = is_end ? left : cero_tokenizer_printable(from, left);

    if (run->options->json || n == 0) {
        return CERO_OK;
    }
    if (fwrite(from, 1, n, stdout) != n || fflush(stdout) != 0) {
        return CERO_FAIL(CERO_ERR_IO, "writing the text to stdout failed");
    }
    run->shown += n;
    return CERO_OK;
}

static cero_status generate(generate_run *run)
{
    const cero_generate_options *o = run->options;
    cero_sampling sampling = {.temperature = o->temperature,
                              .top_k = o->top_k,
                              .top_p = o->top_p,
                              .seed = (uint64_t)o->seed};
    int64_t vocab = cero_decoder_vocab(run->decoder);
    const float *logits = NULL;
    double start = cero_clock_now();

    CERO_TRY(cero_decoder_append(run->decoder, run->ids.id, run->prompt_count, &logits));
    run->prompt_seconds = cero_clock_now() - start;
    run->ended = "length";
    for (int64_t made = 0; made < o->max_tokens; made++) {
        int32_t token = 0;
        CERO_TRY(
            cero_sampling_choose(&sampling, run->ids.count, logits, vocab, run->scratch, &token));
        if (is_eos(run, token)) {
            run->ended = "eos";
            break;
        }
        run->ids.id[run->ids.count++] = token;
        // A model may have more entries than its tokenizer (padding); those have no text.
        if (token < cero_tokenizer_vocab_size(run->tokenizer)) {
            CERO_TRY(
                cero_tokenizer_decode(run->tokenizer, &token, 1, CERO_DECODE_CONTINUE, &run->text));
            CERO_TRY(show(run, false));
        }
        if (made + 1 < o->max_tokens) {
            if (cero_decoder_length(run->decoder) == run->model.context) {
                run->ended = "context";
                break;
            }
            CERO_TRY(cero_decoder_append(run->decoder, &token, 1, &logits));
        }
    }
    run->decode_seconds = cero_clock_now() - start - run->prompt_seconds;
    return show(run, true);
}

static cero_status print_json(const generate_run *run)
{
    int64_t made = run->ids.count - run->prompt_count;
    cero_text out = {0};

    cero_text_printf(&out, "{\"prompt\":");
    cero_text_append_json_string(&out, run->options->prompt, strlen(run->options->prompt));
    cero_text_printf(&out, ",\"text\":");
    cero_text_append_json_string(&out, run->text.data, run->text.length);
    cero_text_printf(&out, ",\"prompt_tokens\":%lld,\"tokens\":[", (long long)run->prompt_count);
    for (int64_t i = run->prompt_count; i < run->ids.count; i++) {
        cero_text_printf(&out, "%s%d", i == run->prompt_count ? "" : ",", run->ids.id[i]);
    }
    cero_text_printf(&out, "],\"ended\":\"%s\",\"prompt_seconds\":", run->ended);
    cero_text_append_double(&out, run->prompt_seconds);
    cero_text_printf(&out, ",\"tokens_per_second\":");
    cero_text_append_double(&out, made > 0 ? (double)made / run->decode_seconds : 0);
    cero_text_printf(&out, ",\"bytes_per_token\":");
    cero_text_append_double(&out, cero_decoder_bytes_per_token(run->decoder));
    cero_text_printf(&out, "}\n");
    cero_status st = cero_cli_print(&out);
    cero_text_cleanup(&out);
    return st;
}

/* Everything that rank 0 does. */
static cero_status generate_all(generate_run *run)
{
    CERO_TRY(open_inputs(run));
    CERO_TRY(create_decoder(run));
    cero_cli_at(run->cli, CERO_CLI_WORKING, NULL);
    if (!run->options->json) {
        (void)fputs(run->options->prompt, stdout);
    }
    CERO_TRY(generate(run));
    if (run->options->json) {
        return print_json(run);
    }
    (void)fputs("\n", stdout);
    if (run->cli->common.verbose) {
        int64_t made = run->ids.count - run->prompt_count;
        (void)fprintf(stderr, "%lld tokens of prompt in %.3f s; %lld tokens at %.1f per second\n",
                      (long long)run->prompt_count, run->prompt_seconds, (long long)made,
                      run->decode_seconds > 0 ? (double)made / run->decode_seconds : 0);
    }
    return CERO_OK;
}

/* The others wait for its end. A reader of the text may keep it waiting for as long as he likes. */
static cero_status generate_on_first(generate_run *run)
{
    CERO_TRY(cero_context_create(
        &(cero_context_params){.threads = (int)run->options->threads, .timeout = -1},
        &run->context));
    CERO_TRY(cero_context_agree(run->context, CERO_OK));
    bool is_first = cero_context_rank(run->context) == 0;
    return cero_context_agree(run->context, is_first ? generate_all(run) : CERO_OK);
}

static cero_status run_command(cero_cli *cli, void *values)
{
    generate_run run = {.cli = cli, .options = values};
    cero_status st = generate_on_first(&run);

    if (st != CERO_OK) {
        cero_cli_leave(cli, "generate", run.context, st);
    }
    cero_delete(run.scratch);
    cero_text_cleanup(&run.text);
    cero_token_ids_cleanup(&run.ids);
    cero_decoder_destroy(&run.decoder);
    cero_context_destroy(&run.context);
    cero_tokenizer_destroy(&run.tokenizer);
    return st;
}

const cero_command cero_command_generate = {
    .name = "generate",
    .summary = "Continues a text with a trained model",
    .usage = "--model DIR --prompt TEXT",
    .details = "Writes the prompt and its continuation to stdout, as the tokens come.",
    .options = cero_generate_option_table,
    .values_size = sizeof(cero_generate_options),
    .set_defaults = cero_generate_options_set_defaults,
    .is_parallel = true,
    .run = run_command,
};
