/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a checkpoint means, as four numbers that do not depend on who wrote it in which cut.
 *
 * A tensor's values are hashed in C order, whatever ranges they lie in; the sum over tensors is a hash of lines, by
 * name. Sections are brought into one form first: keys sorted, numbers by their text. Every block is verified on
 * its way.
 */
#include "ckpt/checkpoint/reader_impl.h"

#include <string.h>

#define MOMENT_PREFIX "optim."

static cero_status hash_sections(const cero_manifest *manifest, uint64_t *out)
{
    static const char *const names[] = {"engine", "train"};
    cero_status st = CERO_OK;
    cero_text text = {0};

    for (size_t i = 0; i < CERO_COUNT_OF(names); i++) {
        const cero_json *section = cero_manifest_section_find(manifest, names[i]);
        cero_text_printf(&text, "%s ", names[i]);
        if (section != NULL) {
            CERO_TRY_GOTO(cero_json_write(section, true, &text), out);
        }
        cero_text_printf(&text, "\n");
    }
    CERO_TRY_GOTO(cero_text_finish(&text), out);
    *out = XXH3_64bits(text.data, text.length);

out:
    cero_text_cleanup(&text);
    return st;
}

/* The values of a tensor, block by block. */
static cero_status hash_tensor(cero_reader *reader, XXH3_state_t *state, int64_t tensor,
                               uint64_t *out)
{
    const cero_manifest_tensor *t = &reader->manifest.tensors[tensor];

    (void)XXH3_64bits_reset(state);
    for (int64_t i = 0; i < t->range_count; i++) {
        const cero_manifest_range *range = &t->ranges[i];
        int64_t count = cero_manifest_block_count(&reader->manifest, t, range);
        for (int64_t k = 0; k < count; k++) {
            cero_reader_block block = cero_reader_block_at(reader, tensor, range, k);
            CERO_TRY(cero_reader_block_keep(reader, &block));
            (void)XXH3_64bits_update(state, reader->block, (size_t)(block.end - block.begin));
        }
    }
    *out = XXH3_64bits_digest(state);
    return CERO_OK;
}

/* Name, dtype, shape and values of one tensor, as a line of what is hashed. */
static void append_tensor(const cero_manifest_tensor *t, uint64_t hash, cero_text *out)
{
    cero_text_append_json_string(out, t->name, strlen(t->name));
    cero_text_printf(out, " %s [", cero_dtype_name(t->dtype));
    for (int i = 0; i < t->shape.ndim; i++) {
        cero_text_printf(out, "%s%lld", i > 0 ? "," : "", (long long)t->shape.dim[i]);
    }
    cero_text_printf(out, "] %016llx\n", (unsigned long long)hash);
}

static cero_status hash_text(const cero_text *text, uint64_t *out)
{
    CERO_TRY(cero_text_finish(text));
    *out = XXH3_64bits(text->data, text->length);
    return CERO_OK;
}

static cero_status hash_all(const cero_reader_digest *digest, uint64_t *out)
{
    cero_text text = {0};

    cero_text_printf(&text, "weights %016llx\nmoments %016llx\nstate %016llx\n",
                     (unsigned long long)digest->weights, (unsigned long long)digest->moments,
                     (unsigned long long)digest->state);
    cero_status st = hash_text(&text, out);
    cero_text_cleanup(&text);
    return st;
}

cero_status cero_reader_hash_tensors(cero_reader *reader, cero_reader_tensor_hash each,
                                     void *context, cero_reader_digest *out)
{
    cero_status st = CERO_OK;
    const cero_manifest *m = &reader->manifest;
    cero_reader_digest digest = {0};
    cero_text weights = {0};
    cero_text moments = {0};
    XXH3_state_t *state = XXH3_createState();

    CERO_CHECK(state != NULL, CERO_ERR_NOMEM, "no memory to hash %s", reader->path);
    for (int64_t i = 0; i < m->tensor_count; i++) {
        uint64_t hash = 0;
        int64_t tensor = m->by_name[i];
        const cero_manifest_tensor *t = &m->tensors[tensor];
        bool is_moment = strncmp(t->name, MOMENT_PREFIX, strlen(MOMENT_PREFIX)) == 0;
        CERO_TRY_GOTO(hash_tensor(reader, state, tensor, &hash), out);
        append_tensor(t, hash, is_moment ? &moments : &weights);
        if (each != NULL) {
            each(context, tensor, hash);
        }
    }
    // An empty list has a hash as well.
    cero_text_append(&weights, "", 0);
    cero_text_append(&moments, "", 0);
    CERO_TRY_GOTO(hash_text(&weights, &digest.weights), out);
    CERO_TRY_GOTO(hash_text(&moments, &digest.moments), out);
    CERO_TRY_GOTO(hash_sections(m, &digest.state), out);
    CERO_TRY_GOTO(hash_all(&digest, &digest.all), out);
    *out = digest;

out:
    (void)XXH3_freeState(state);
    cero_text_cleanup(&weights);
    cero_text_cleanup(&moments);
    return st;
}

cero_status cero_reader_hash(cero_reader *reader, cero_reader_digest *out)
{
    return cero_reader_hash_tensors(reader, NULL, NULL, out);
}
