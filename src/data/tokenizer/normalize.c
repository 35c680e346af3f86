/* SPDX-License-Identifier: Apache-2.0 */
/* The normalizer: each step over the text of the one before. Bytes that are not UTF-8 stay. */
#include "data/tokenizer/tokenizer_impl.h"

#include "base/memory.h"
#include "data/unicode/unicode.h"

enum {
    GROWTH = 64, /* bytes out of one: far beyond what any script or any word for a space needs */
    GROWTH_FREE = 4096
};

void cero_steps_cleanup(cero_steps *steps)
{
    for (int64_t i = 0; i < steps->count; i++) {
        cero_pattern_destroy(&steps->step[i].pattern);
        cero_delete(steps->step[i].text);
        cero_text_cleanup(&steps->step[i].scratch);
    }
    cero_delete(steps->step);
    *steps = (cero_steps){0};
}

cero_status cero_steps_add(cero_steps *steps, cero_step_kind kind, cero_step **out)
{
    CERO_TRY(
        cero_grow((void **)&steps->step, steps->count, &steps->capacity, sizeof(steps->step[0])));
    steps->step[steps->count] = (cero_step){.kind = kind};
    *out = &steps->step[steps->count++];
    return CERO_OK;
}

bool cero_tokenizer_is_normal(const cero_tokenizer *tokenizer, const uint8_t *bytes, size_t length)
{
    const cero_steps *steps = &tokenizer->normalizer;
    if (steps->count == 0 || length == 0) {
        return true;
    }
    return steps->count == 1 && steps->step[0].kind == CERO_STEP_NFC &&
           cero_utf8_valid_prefix(bytes, length) == length && cero_nfc_is_plain(bytes, length);
}

size_t cero_steps_room(size_t length)
{
    return GROWTH_FREE + (length > SIZE_MAX / (2 * GROWTH) ? SIZE_MAX / 2 : GROWTH * length);
}

/* `room`: what `out` may hold. */
static cero_status replace(cero_step *step, const uint8_t *bytes, size_t length, size_t room,
                           cero_text *out)
{
    for (size_t i = 0; i < length;) {
        size_t begin;
        size_t stop;
        CERO_TRY(cero_pattern_find(step->pattern, bytes, length, i, &begin, &stop));
        cero_text_append(out, (const char *)bytes + i, begin - i);
        if (stop > begin) {
            cero_text_append(out, step->text, step->text_length);
        }
        if (out->length > room) {
            return CERO_FAIL(
                CERO_ERR_UNSUPPORTED,
                "the normalizer makes more than %zu bytes of a text; its Replace steps "
                "let it grow without bound",
                room);
        }
        i = stop;
    }
    return cero_text_finish(out);
}

/* Runs a step over the valid parts of the text. */
static cero_status run_step(cero_step *step, const uint8_t *bytes, size_t length, size_t room)
{
    cero_text *out = &step->scratch;
    out->length = 0;
    if (step->kind == CERO_STEP_PREPEND && length > 0) {
        cero_text_append(out, step->text, step->text_length);
    }
    for (size_t i = 0; i < length;) {
        size_t n = cero_utf8_valid_prefix(bytes + i, length - i);
        if (step->kind == CERO_STEP_NFC) {
            CERO_TRY(cero_nfc_append(bytes + i, n, out));
        } else if (step->kind == CERO_STEP_REPLACE) {
            CERO_TRY(replace(step, bytes + i, n, room, out));
        } else {
            cero_text_append(out, (const char *)bytes + i, n);
        }
        i += n;
        n = cero_utf8_invalid_prefix(bytes + i, length - i);
        cero_text_append(out, (const char *)bytes + i, n);
        i += n;
    }
    return cero_text_finish(out);
}

cero_status cero_tokenizer_normalize(cero_tokenizer *tokenizer, const uint8_t *bytes, size_t length,
                                     cero_text *out)
{
    size_t room = cero_steps_room(length);
    for (int64_t i = 0; i < tokenizer->normalizer.count; i++) {
        cero_step *step = &tokenizer->normalizer.step[i];
        CERO_TRY(run_step(step, bytes, length, room));
        bytes = (const uint8_t *)step->scratch.data;
        length = step->scratch.length;
    }
    cero_text_append(out, (const char *)bytes, length);
    return cero_text_finish(out);
}
