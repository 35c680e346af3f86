/* SPDX-License-Identifier: Apache-2.0 */
/* Names of an engine's tensors in a checkpoint, and its counters there; see tensor_list.h. */
#include "train/checkpoint/tensor_list.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

void cero_tensor_list_cleanup(cero_tensor_list *list)
{
    for (int64_t k = 0; list->tensors != NULL && k < list->count; k++) {
        union {
            const char *readable;
            void *writable;
        } name = {.readable = list->tensors[k].name};
        cero_delete(name.writable);
    }
    cero_delete(list->tensors);
    cero_delete(list->sources);
    *list = (cero_tensor_list){0};
}

static cero_status add_tensor(const cero_engine *engine, int64_t i, int moment,
                              cero_tensor_list *list)
{
    cero_param_info info = cero_engine_param_info(engine, i);
    cero_text name = {0};

    if (moment >= 0) {
        cero_text_printf(&name, "optim.%s.", cero_engine_moment_name(engine, moment));
    }
    cero_text_printf(&name, "%s", info.name);
    list->tensors[list->count] = (cero_rank_file_tensor){.name = name.data, .shape = info.shape};
    list->sources[list->count] = (cero_tensor_source){.param = i, .moment = moment};
    list->count++;
    return cero_text_finish(&name);
}

cero_status cero_tensor_list_create(const cero_engine *engine, cero_tensor_list *list)
{
    int64_t params = cero_engine_param_count(engine);
    int64_t count = params;

    for (int64_t i = 0; i < params; i++) {
        count += cero_engine_moment_count(engine, i);
    }
    list->tensors = cero_new((size_t)count, sizeof(cero_rank_file_tensor));
    list->sources = cero_new((size_t)count, sizeof(cero_tensor_source));
    CERO_CHECK(list->tensors != NULL && list->sources != NULL, CERO_ERR_NOMEM,
               "no memory for a list of %lld tensors", (long long)count);
    for (int64_t i = 0; i < params; i++) {
        for (int m = -1; m < cero_engine_moment_count(engine, i); m++) {
            CERO_TRY(add_tensor(engine, i, m, list));
        }
    }
    return CERO_OK;
}

/* The whole numbers of cero_engine_counters: their key, place and least value. */
static const struct {
    const char *key;
    size_t offset;
    int64_t least;
} counters[] = {
    {"step", offsetof(cero_engine_counters, step), 0},
    {"applied", offsetof(cero_engine_counters, zero.applied), 0},
    {"skipped", offsetof(cero_engine_counters, zero.skipped), 0},
    {"skipped_in_a_row", offsetof(cero_engine_counters, zero.skipped_in_a_row), 0},
    {"loss_scale_iter", offsetof(cero_engine_counters, zero.scaler_iter), 0},
    {"loss_scale_last_overflow", offsetof(cero_engine_counters, zero.scaler_last_overflow), -1},
    {"loss_scale_hysteresis_left", offsetof(cero_engine_counters, zero.scaler_hysteresis_left), 0},
};

#define OPTIMIZER  "optimizer"
#define LOSS_SCALE "loss_scale"

void cero_engine_section_write(const cero_engine *engine, cero_text *out)
{
    cero_engine_counters values;

    cero_engine_get_counters(engine, &values);
    cero_text_printf(out, "{\"" OPTIMIZER "\": \"%s\"",
                     cero_optim_type_name(cero_engine_spec(engine)->optimizer.type));
    for (size_t k = 0; k < CERO_COUNT_OF(counters); k++) {
        int64_t value;
        memcpy(&value, (const char *)&values + counters[k].offset, sizeof(value));
        cero_text_printf(out, ", \"%s\": %lld", counters[k].key, (long long)value);
    }
    cero_text_printf(out, ", \"" LOSS_SCALE "\": ");
    cero_text_append_double(out, values.zero.loss_scale);
    cero_text_printf(out, "}");
}

/* A member of the section with this type. */
static cero_status find(const cero_json *section, const char *key, cero_json_type type,
                        const cero_json **out)
{
    const cero_json *value = cero_json_find(section, key);

    CERO_CHECK(value != NULL, CERO_ERR_CORRUPT, "%s: the section \"engine\" has no \"%s\"",
               section->file, key);
    CERO_CHECK(value->type == type, CERO_ERR_CORRUPT, "%s:%d:%d: \"%s\" is %s; expected %s",
               value->file, value->line, value->column, key, cero_json_type_name(value->type),
               cero_json_type_name(type));
    *out = value;
    return CERO_OK;
}

static cero_status read_counters(const cero_json *section, cero_engine_counters *out)
{
    const cero_json *value = NULL;

    *out = (cero_engine_counters){0};
    for (size_t k = 0; k < CERO_COUNT_OF(counters); k++) {
        int64_t number = 0;
        CERO_TRY(find(section, counters[k].key, CERO_JSON_NUMBER, &value));
        bool is_whole = cero_json_int(value, &number) == CERO_OK;
        CERO_CHECK(is_whole && number >= counters[k].least, CERO_ERR_CORRUPT,
                   "%s:%d:%d: \"%s\" is %.40s; expected a whole number from %lld on", value->file,
                   value->line, value->column, counters[k].key, value->text,
                   (long long)counters[k].least);
        memcpy((char *)out + counters[k].offset, &number, sizeof(number));
    }
    CERO_TRY(find(section, LOSS_SCALE, CERO_JSON_NUMBER, &value));
    CERO_CHECK(isfinite(value->number) && value->number > 0, CERO_ERR_CORRUPT,
               "%s:%d:%d: \"" LOSS_SCALE "\" is %.40s; expected a number above 0", value->file,
               value->line, value->column, value->text);
    out->zero.loss_scale = value->number;
    return CERO_OK;
}

cero_status cero_engine_section_read(const cero_manifest *manifest, cero_engine_counters *out,
                                     const char **optimizer)
{
    const cero_json *section = cero_manifest_section_find(manifest, "engine");
    const cero_json *name = NULL;

    CERO_CHECK(section != NULL, CERO_ERR_CORRUPT, "%s: there is no section \"engine\"",
               manifest->root->file);
    CERO_TRY(find(section, OPTIMIZER, CERO_JSON_STRING, &name));
    CERO_TRY(read_counters(section, out));
    *optimizer = name->text;
    return CERO_OK;
}
