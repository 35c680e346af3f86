/* SPDX-License-Identifier: Apache-2.0 */
/* `cero ckpt export`: the weights of a checkpoint as a model directory of Hugging Face, read by range. */
#include "base/memory.h"
#include "ckpt/hf.h"
#include "cli/ckpt/ckpt.h"

#include <string.h>

typedef struct export_values {
    const char *out;
    int dtype; /* an index into dtypes */
    int64_t shard_bytes;
    const char *tokenizer;
    bool json;
    cero_words dirs;
} export_values;

static const cero_option options[] = {
    {.name = "out",
     .letter = 'o',
     .is_required = true,
     .kind = CERO_OPTION_TEXT,
     .offset = offsetof(export_values, out),
     .value = "MODEL_DIR",
     .help = "where the model is written"},
    {.name = "dtype",
     .kind = CERO_OPTION_CHOICE,
     .offset = offsetof(export_values, dtype),
     .value = "DTYPE",
     .choices = "f32|bf16|f16",
     .help = "of the weights (default: f32, as they are in the checkpoint)"},
    {.name = "shard-size",
     .kind = CERO_OPTION_INT,
     .offset = offsetof(export_values, shard_bytes),
     .value = "BYTES",
     .help = "most bytes of weights in one file (default: 5000000000)",
     .min = 1,
     .max = 1e18},
    {.name = "tokenizer",
     .kind = CERO_OPTION_TEXT,
     .offset = offsetof(export_values, tokenizer),
     .value = "DIR",
     .help = "copy the tokenizer's files from here"},
    {.name = "json",
     .kind = CERO_OPTION_FLAG,
     .offset = offsetof(export_values, json),
     .help = "the summary as a JSON object"},
    {0},
};

static const cero_dtype dtypes[] = {CERO_DTYPE_F32, CERO_DTYPE_BF16, CERO_DTYPE_F16};

/* A cero_hf_source whose context is the reader. */
static cero_status give(void *context, const char *name, int64_t begin, int64_t numel, float *out)
{
    cero_reader *reader = context;
    int64_t tensor = cero_manifest_find(cero_reader_manifest(reader), name);

    CERO_CHECK(tensor >= 0, CERO_ERR_CORRUPT, "%s has no tensor %s", cero_reader_path(reader),
               name);
    return cero_reader_read(reader, tensor, begin, numel, out);
}

static cero_status read_spec(const cero_reader *reader, cero_model_spec *out)
{
    const char *path = cero_reader_path(reader);
    const cero_json *model = cero_manifest_section_find(cero_reader_manifest(reader), "model");

    CERO_CHECK(model != NULL, CERO_ERR_UNSUPPORTED,
               "%s does not say what its model is (its manifest has no section \"model\"): only "
               "checkpoints of cero train can be exported",
               path);
    return cero_model_spec_read_json(path, model, out);
}

/* Every parameter of the model is there in its shape, before anything is written. */
static cero_status check_weights(const cero_reader *reader, const cero_model_spec *spec)
{
    const cero_manifest *m = cero_reader_manifest(reader);
    cero_status st = CERO_OK;
    cero_hf_table table = {0};
    char found[128];
    char wanted[128];

    CERO_TRY(cero_hf_table_init(spec, &table));
    for (int64_t i = 0; i < table.param_count && st == CERO_OK; i++) {
        const cero_hf_entry *e = &table.entry[i];
        int64_t t = cero_manifest_find(m, e->name);
        if (t < 0) {
            st = CERO_FAIL(CERO_ERR_CORRUPT,
                           "%s has no tensor %s, which its model has: it cannot be exported",
                           cero_reader_path(reader), e->name);
        } else if (!cero_shape_equal(&m->tensors[t].shape, &e->shape)) {
            st = CERO_FAIL(
                CERO_ERR_SHAPE,
                "%s: tensor %s has the shape %s, its model says %s: it cannot be exported",
                cero_reader_path(reader), e->name,
                cero_shape_format(&m->tensors[t].shape, found, sizeof(found)),
                cero_shape_format(&e->shape, wanted, sizeof(wanted)));
        }
    }
    cero_hf_table_cleanup(&table);
    return st;
}

static cero_status print_summary(const cero_cli *cli, const export_values *v,
                                 const cero_reader *reader, const cero_hf_export_stats *stats)
{
    cero_text text = {0};
    const char *dtype = cero_dtype_name(dtypes[v->dtype]);
    long long step = (long long)cero_reader_manifest(reader)->step;

    if (v->json) {
        cero_text_printf(&text, "{\"kind\": \"export\", ");
        cero_ckpt_put_string(&text, "path", cero_reader_path(reader));
        cero_text_printf(&text, ", ");
        cero_ckpt_put_string(&text, "out", v->out);
        cero_text_printf(&text,
                         ", \"step\": %lld, \"dtype\": \"%s\", \"parameters\": %lld, \"shards\": "
                         "%lld, \"nbytes\": %lld}\n",
                         step, dtype, (long long)stats->params, (long long)stats->shards,
                         (long long)stats->nbytes);
    } else if (!cli->common.quiet) {
        cero_text_printf(&text,
                         "%s: %lld parameters of step %lld as %s, %lld bytes, weights in %lld %s\n",
                         v->out, (long long)stats->params, step, dtype, (long long)stats->nbytes,
                         (long long)stats->shards, stats->shards == 1 ? "file" : "files");
    }
    cero_status st = text.length > 0 ? cero_cli_print(&text) : CERO_OK;
    cero_text_cleanup(&text);
    return st;
}

static cero_status export_reader(cero_cli *cli, const export_values *v, cero_reader *reader)
{
    cero_model_spec spec;
    cero_hf_export_stats stats;

    CERO_TRY(read_spec(reader, &spec));
    CERO_TRY(check_weights(reader, &spec));
    for (int64_t i = 0; i < cero_reader_manifest(reader)->file_count; i++) {
        CERO_TRY(cero_reader_check_file(reader, i));
    }
    cero_hf_export_params params = {.spec = &spec,
                                    .dtype = dtypes[v->dtype],
                                    .max_shard_bytes = v->shard_bytes,
                                    .tokenizer_dir = v->tokenizer,
                                    .source = give,
                                    .context = reader};
    cero_cli_at(cli, CERO_CLI_CREATING, v->out);
    CERO_TRY(cero_hf_export(v->out, &params, &stats));
    cero_cli_at(cli, CERO_CLI_WORKING, NULL);
    return print_summary(cli, v, reader, &stats);
}

static cero_status run(cero_cli *cli, void *values)
{
    const export_values *v = values;
    cero_status st = CERO_OK;
    cero_ckpt_place place = {0};
    cero_reader *reader = NULL;

    if (v->tokenizer != NULL) {
        cero_words words = {.word = (const char *[]){v->tokenizer}, .count = 1};
        CERO_TRY(cero_cli_require_inputs(cli, &words));
    }
    CERO_TRY_GOTO(cero_ckpt_find_one(cli, v->dirs.word[0], &place), out);
    CERO_TRY_GOTO(cero_reader_open(place.path, &reader), out);
    CERO_TRY_GOTO(export_reader(cli, v, reader), out);

out:
    // Damage is the checkpoint's, whatever was being created from it.
    if (st == CERO_ERR_CORRUPT) {
        cero_cli_at(cli, CERO_CLI_READING_INPUT, place.path);
    }
    cero_reader_close(&reader);
    cero_ckpt_place_cleanup(&place);
    return st;
}

const cero_command cero_command_ckpt_export = {
    .name = "ckpt export",
    .summary = "Writes the weights of a checkpoint as a model directory",
    .usage = "--out MODEL_DIR [--dtype f32|bf16|f16] [--shard-size BYTES] [--tokenizer DIR] DIR",
    .details = "MODEL_DIR is what `cero train --model`, `cero generate` and Hugging Face read; it "
               "is changed only when all is written.\n"
               "DIR is a checkpoint, a folder of checkpoints or a run directory; of several the "
               "newest complete one is taken.\n"
               "All that is read is verified.",
    .options = options,
    .operands = {.name = "DIR", .min = 1, .max = 1, .offset = offsetof(export_values, dirs)},
    .values_size = sizeof(export_values),
    .run = run,
};
