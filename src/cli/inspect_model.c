/* SPDX-License-Identifier: Apache-2.0 */
/* `cero inspect` for models: a description in one table, and weights as tensors or as a sum. */
#include "base/file.h"
#include "ckpt/shards.h"
#include "cli/inspect.h"
#include "spec/model.h"

#include <stdio.h>
#include <string.h>

/* "124.4 million (124439808)", "3000" */
static const char *format_count(int64_t count, char *text, size_t size)
{
    double n = (double)count;

    if (n >= 1e9) {
        (void)snprintf(text, size, "%.2f billion (%lld)", n / 1e9, (long long)count);
    } else if (n >= 1e6) {
        (void)snprintf(text, size, "%.1f million (%lld)", n / 1e6, (long long)count);
    } else {
        (void)snprintf(text, size, "%lld", (long long)count);
    }
    return text;
}

static const char *arch_name(cero_arch arch)
{
    return arch == CERO_ARCH_GPT2 ? "gpt2" : arch == CERO_ARCH_LLAMA ? "llama" : "unknown";
}

static void write_model_lines(const cero_model_spec *s, cero_text *out)
{
    char count[64];

    cero_text_printf(out, "%s model, %s parameters\n", arch_name(s->arch),
                     format_count(cero_model_spec_param_count(s), count, sizeof(count)));
    cero_text_printf(out, "  layers %lld, hidden %lld, heads %lld", (long long)s->layers,
                     (long long)s->hidden, (long long)s->heads);
    if (s->kv_heads != s->heads) {
        cero_text_printf(out, " (%lld for keys and values)", (long long)s->kv_heads);
    }
    cero_text_printf(out, " of %lld, inner %lld\n", (long long)s->head_dim, (long long)s->inner);
    cero_text_printf(out, "  vocabulary %lld, context %lld, embeddings %s, stored as %s\n",
                     (long long)s->vocab_size, (long long)s->context,
                     s->tie_word_embeddings ? "tied" : "untied", cero_dtype_name(s->stored_dtype));
}

static void write_model_json(const cero_model_spec *s, cero_text *out)
{
    cero_text_printf(out, "{\"kind\": \"model\", \"arch\": \"%s\", \"parameters\": %lld, ",
                     arch_name(s->arch), (long long)cero_model_spec_param_count(s));
    cero_text_printf(
        out, "\"layers\": %lld, \"hidden\": %lld, \"heads\": %lld, \"kv_heads\": %lld, ",
        (long long)s->layers, (long long)s->hidden, (long long)s->heads, (long long)s->kv_heads);
    cero_text_printf(
        out, "\"head_dim\": %lld, \"inner\": %lld, \"vocab_size\": %lld, \"context\": %lld, ",
        (long long)s->head_dim, (long long)s->inner, (long long)s->vocab_size,
        (long long)s->context);
    cero_text_printf(out, "\"tie_word_embeddings\": %s, \"stored_dtype\": \"%s\"}\n",
                     s->tie_word_embeddings ? "true" : "false", cero_dtype_name(s->stored_dtype));
}

cero_status cero_inspect_model(cero_cli *cli, const cero_inspect_values *values, const char *path,
                               cero_text *out)
{
    cero_model_spec spec;

    cero_cli_at(cli, CERO_CLI_READING_CONFIG, path);
    CERO_TRY(cero_model_spec_resolve(path, &spec));
    if (values->json) {
        write_model_json(&spec, out);
    } else {
        cero_text_printf(out, "%s: ", path);
        write_model_lines(&spec, out);
    }
    return CERO_OK;
}

static void write_tensor_line(const cero_safetensors_tensor *t, cero_text *out)
{
    char shape[96];
    char name[CERO_SAFETENSORS_QUOTE];

    cero_text_printf(out, "  %-5s %-20s %12lld bytes  %s\n", cero_safetensors_dtype_name(t->dtype),
                     cero_safetensors_shape_format(t, shape, sizeof(shape)),
                     (long long)(t->end - t->begin),
                     cero_safetensors_quote(t->name, name, sizeof(name)));
}

static void write_tensor_json(const cero_safetensors_tensor *t, cero_text *out)
{
    char shape[1024];

    cero_text_printf(out, "{\"name\": ");
    cero_text_append_json_string(out, t->name, strlen(t->name));
    cero_text_printf(out, ", \"dtype\": \"%s\", \"shape\": %s, \"nbytes\": %lld}",
                     cero_safetensors_dtype_name(t->dtype),
                     cero_safetensors_shape_format(t, shape, sizeof(shape)),
                     (long long)(t->end - t->begin));
}

static void write_metadata(const cero_safetensors *file, bool is_json, cero_text *out)
{
    const char *key = NULL;
    const char *value = NULL;

    for (int64_t i = 0; cero_safetensors_metadata(file, i, &key, &value); i++) {
        if (is_json) {
            cero_text_printf(out, "%s", i == 0 ? "" : ", ");
            cero_text_append_json_string(out, key, strlen(key));
            cero_text_printf(out, ": ");
            cero_text_append_json_string(out, value, strlen(value));
        } else {
            char quoted_key[CERO_SAFETENSORS_QUOTE];
            char quoted[CERO_SAFETENSORS_QUOTE];
            cero_text_printf(out, "  metadata %s: %s\n",
                             cero_safetensors_quote(key, quoted_key, sizeof(quoted_key)),
                             cero_safetensors_quote(value, quoted, sizeof(quoted)));
        }
    }
}

cero_status cero_inspect_safetensors(cero_cli *cli, const cero_inspect_values *values,
                                     const char *path, cero_text *out)
{
    cero_safetensors *file = NULL;
    int64_t numel = 0;
    char text[64];

    CERO_UNUSED(cli);
    CERO_TRY(cero_safetensors_open(path, &file));
    int64_t count = cero_safetensors_count(file);
    for (int64_t i = 0; i < count; i++) {
        numel += cero_safetensors_get(file, i)->numel;
    }
    if (values->json) {
        cero_text_printf(out, "{\"kind\": \"safetensors\", \"elements\": %lld, \"metadata\": {",
                         (long long)numel);
        write_metadata(file, true, out);
        cero_text_printf(out, "}, \"tensors\": [");
    } else {
        cero_text_printf(out, "%s: %lld tensors, %s elements\n", path, (long long)count,
                         format_count(numel, text, sizeof(text)));
        write_metadata(file, false, out);
    }
    for (int64_t i = 0; i < count; i++) {
        if (values->json) {
            cero_text_printf(out, "%s", i == 0 ? "" : ", ");
            write_tensor_json(cero_safetensors_get(file, i), out);
        } else {
            write_tensor_line(cero_safetensors_get(file, i), out);
        }
    }
    cero_text_printf(out, "%s", values->json ? "]}\n" : "");
    cero_safetensors_close(&file);
    return CERO_OK;
}

cero_status cero_inspect_weights(cero_cli *cli, const cero_inspect_values *values, const char *path,
                                 cero_text *out)
{
    cero_shards *shards = NULL;
    int64_t numel = 0;
    int64_t nbytes = 0;
    char text[32];

    CERO_UNUSED(cli);
    CERO_TRY(cero_shards_open(path, &shards));
    int64_t count = cero_shards_count(shards);
    int files = cero_shards_file_count(shards);
    for (int64_t i = 0; i < count; i++) {
        const cero_safetensors_tensor *t = cero_shards_get(shards, i)->tensor;
        numel += t->numel;
        nbytes += t->end - t->begin;
    }
    if (values->json) {
        cero_text_printf(out,
                         "{\"kind\": \"weights\", \"files\": %d, \"tensors\": %lld, \"elements\": "
                         "%lld, \"nbytes\": %lld}\n",
                         files, (long long)count, (long long)numel, (long long)nbytes);
    } else {
        cero_text_printf(out, "%s: weights in %d %s: %lld tensors, %lld elements, %s\n", path,
                         files, files == 1 ? "file" : "files", (long long)count, (long long)numel,
                         cero_text_bytes((double)nbytes, text, sizeof(text)));
    }
    cero_shards_close(&shards);
    return CERO_OK;
}
