/* SPDX-License-Identifier: Apache-2.0 */
/* What a model directory says after each of a few tokens. */
#ifndef CERO_TESTS_UNIT_CKPT_HF_LOGITS_H
#define CERO_TESTS_UNIT_CKPT_HF_LOGITS_H

#include "unit/ckpt/files.h"

#include "ckpt/hf.h"
#include "engine/decoder.h"

enum {
    LOGITS_MAX_NUMEL = 1 << 17 /* of one parameter */
};

/* Imports `where` as its config.json describes it and sets logits [count, vocabulary]; returns the vocabulary. */
static inline int64_t logits_of(cero_context *context, const char *where, const int32_t *tokens,
                                int count, float *logits)
{
    cero_model_spec spec;
    cero_hf_import *import = NULL;
    cero_decoder *decoder = NULL;
    float *values = cero_new(LOGITS_MAX_NUMEL, sizeof(float));

    assert_ok(cero_model_spec_read(files_in(where, "config.json"), &spec));
    assert_ok(cero_hf_import_open(where, &spec, &import));
    assert_ok(cero_decoder_create(context,
                                  &(cero_decoder_params){.build = cero_engine_build_model,
                                                         .context = &spec,
                                                         .dtype = CERO_DTYPE_F32,
                                                         .cache_len = count},
                                  &decoder));
    for (int64_t i = 0; i < cero_decoder_param_count(decoder); i++) {
        cero_param_info info = cero_decoder_param_info(decoder, i);
        int64_t n = cero_shape_numel(&info.shape);
        assert_in_range(n, 1, LOGITS_MAX_NUMEL);
        assert_ok(cero_hf_import_read(import, info.name, 0, n, values));
        assert_ok(cero_decoder_set_param(decoder, i, 0, n, values));
    }
    for (int t = 0; t < count; t++) {
        const float *last = NULL;
        assert_ok(cero_decoder_append(decoder, &tokens[t], 1, &last));
        memcpy(logits + t * spec.vocab_size, last, (size_t)spec.vocab_size * sizeof(float));
    }
    cero_delete(values);
    cero_decoder_destroy(&decoder);
    cero_hf_import_close(&import);
    return spec.vocab_size;
}

#endif
