/* SPDX-License-Identifier: Apache-2.0 */
/* Two versions of one model, one exported over the other, and which of them a reader finds. */
#ifndef CERO_TESTS_UNIT_CKPT_HF_VERSIONS_H
#define CERO_TESTS_UNIT_CKPT_HF_VERSIONS_H

#include "unit/ckpt/models.h"

enum {
    NONE = 0,    /* no model, and nothing that looks like one */
    FIRST = 1,   /* the old model */
    SECOND = 2,  /* the new one */
    REFUSED = 3, /* by its message: an export was cut off */
    MIXED = 4    /* what must not be */
};

static char dir[64];

/* The tokenizers of the versions, in `dir`. */
static inline void make_tokenizers(void)
{
    assert_ok(cero_file_make_dir(files_in(dir, "tokens-1")));
    assert_ok(cero_file_make_dir(files_in(dir, "tokens-2")));
    files_write(files_in(dir, "tokens-1/tokenizer.json"), "1", 1);
    files_write(files_in(dir, "tokens-2/tokenizer.json"), "2", 1);
}

static inline cero_status give(void *context, const char *name, int64_t begin, int64_t numel,
                               float *out)
{
    CERO_TRY(models_values(NULL, name, begin, numel, out));
    for (int64_t i = 0; i < numel; i++) {
        out[i] += (float)*(const int *)context;
    }
    return CERO_OK;
}

/* Both models have the same tensors; other values, another epsilon in config.json, another tokenizer. */
static inline cero_status export_version(const char *to, int version, int64_t max_shard_bytes)
{
    cero_model_spec spec = models_gpt2();
    char name[16];

    spec.norm_eps = version == FIRST ? 1e-5 : 1e-6;
    (void)snprintf(name, sizeof(name), "tokens-%d", version);
    return cero_hf_export(to,
                          &(cero_hf_export_params){.spec = &spec,
                                                   .max_shard_bytes = max_shard_bytes,
                                                   .tokenizer_dir = files_in(dir, name),
                                                   .source = give,
                                                   .context = &version},
                          NULL);
}

/* The version that every element of every parameter belongs to. */
static inline int version_of_weights(cero_hf_import *import)
{
    const cero_hf_table *table = cero_hf_import_table(import);
    int found = NONE;

    for (int64_t i = 0; i < table->param_count; i++) {
        float x[2048];
        float wanted[2048];
        const char *name = table->entry[i].name;
        int64_t numel = cero_shape_numel(&table->entry[i].shape);
        if (cero_hf_import_read(import, name, 0, numel, x) != CERO_OK) {
            return MIXED;
        }
        int version = NONE;
        for (int v = FIRST; v <= SECOND; v++) {
            assert_ok(give(&v, name, 0, numel, wanted));
            version = memcmp(x, wanted, (size_t)numel * sizeof(float)) == 0 ? v : version;
        }
        if (version == NONE || (found != NONE && version != found)) {
            return MIXED;
        }
        found = version;
    }
    return found;
}

/* What a reader finds. Weights, config and tokenizer are of one version, or it is MIXED, as all other errors are. */
static inline int look(const char *to)
{
    cero_model_spec spec = models_gpt2();
    cero_model_spec read;
    cero_hf_import *import = NULL;
    char *bytes = NULL;
    size_t n = 0;

    cero_status st = cero_hf_import_open(to, &spec, &import);
    if (st == CERO_ERR_IO && strstr(cero_error_message(), "has no weights") != NULL) {
        bool is_whole = cero_file_stat(files_in(to, "config.json"), NULL) == CERO_FILE_ABSENT;
        return is_whole ? NONE : MIXED;
    }
    if (st != CERO_OK) {
        bool is_told = st == CERO_ERR_CORRUPT &&
                       strstr(cero_error_message(), "may hold files of two models") != NULL;
        return is_told ? REFUSED : MIXED;
    }
    int version = version_of_weights(import);
    cero_hf_import_close(&import);
    if (version == MIXED || cero_model_spec_read(files_in(to, "config.json"), &read) != CERO_OK ||
        cero_file_read(files_in(to, "tokenizer.json"), 100, &bytes, &n) != CERO_OK) {
        return MIXED;
    }
    bool is_whole =
        read.norm_eps == (version == FIRST ? 1e-5 : 1e-6) && n == 1 && bytes[0] - '0' == version;
    cero_delete(bytes);
    return is_whole ? version : MIXED;
}

#endif
