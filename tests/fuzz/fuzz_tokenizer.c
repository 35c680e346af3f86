/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tokenizer.json, a text to encode, and tokenizer_config.json, with a NUL byte between each two: any bytes are
 * refused with one line that names the file, or they are a tokenizer. A text then has ids that all are tokens, the
 * same ids when they come in portions, or one line that says why it has none; ids decode; what is byte-level and
 * drops nothing gives the text back. Neither a table nor a text grows beyond what the file's own length explains.
 */
#include "fuzz.h"

#include "data/tokenizer/tokenizer_impl.h"

#include <stdlib.h>
#include <string.h>

#define NAME "tokenizer.json"

static const char sample[] = "Hello  world, it's 12345 x <|endoftext|>\n\t caf\xC3\xA9 "
                             "e\xCC\x81 \xE4\xBD\xA0\xE5\xA5\xBD \xF0\x9F\x98\x80 \xFF\xC3 </s>";

static cero_status take_ids(void *context, const int32_t *ids, int64_t count)
{
    cero_token_ids *list = context;

    CERO_TRY(cero_token_ids_reserve(list, count));
    memcpy(list->id + list->count, ids, (size_t)count * sizeof(ids[0]));
    list->count += count;
    return CERO_OK;
}

/* True when nothing of a text is changed on its way to ids and back. */
static bool keeps_text(const cero_tokenizer *t)
{
    bool keeps = t->bpe.is_byte_level && t->normalizer.count == 0 && t->decoder.count == 1 &&
                 t->decoder.step[0].kind == CERO_STEP_BYTE_LEVEL && t->strip_start == 0;

    for (int64_t i = 0; i < t->splitter.count; i++) {
        const cero_step *step = &t->splitter.step[i];
        keeps = keeps && step->kind != CERO_STEP_PREFIX && step->kind != CERO_STEP_METASPACE &&
                (step->match != NULL || step->behavior != CERO_SPLIT_REMOVED);
    }
    for (int64_t i = 0; i < t->added_count; i++) {
        keeps = keeps && !t->added[i].strips_left && !t->added[i].strips_right;
    }
    return keeps && t->bpe.unk_id < 0;
}

static void check_text(cero_tokenizer *t, const char *text, size_t length, unsigned flags)
{
    cero_token_ids ids = {0};
    cero_token_ids portions = {0};
    cero_text decoded = {0};
    cero_status st = cero_tokenizer_encode(t, text, length, flags, &ids);
    cero_status same = cero_tokenizer_encode_to(t, text, length, flags, take_ids, &portions);

    fuzz_expect(st == same, "%s, in portions %s", cero_status_name(st), cero_status_name(same));
    if (fuzz_is_ok(st, "")) {
        fuzz_expect(ids.count == portions.count &&
                        (ids.count == 0 ||
                         memcmp(ids.id, portions.id, (size_t)ids.count * sizeof(ids.id[0])) == 0),
                    "%lld ids, in portions %lld", (long long)ids.count, (long long)portions.count);
        for (int64_t i = 0; i < ids.count; i++) {
            size_t n;
            fuzz_expect(cero_tokenizer_token(t, ids.id[i], &n) != NULL, "id %d", ids.id[i]);
        }
        fuzz_expect(cero_tokenizer_decode(t, ids.id, ids.count, 0, &decoded) == CERO_OK, "%s",
                    cero_error_message());
        fuzz_expect((flags & CERO_ENCODE_ADD_SPECIAL) != 0 || !keeps_text(t) ||
                        (decoded.length == length &&
                         (length == 0 || memcmp(decoded.data, text, length) == 0)),
                    "%zu bytes became %zu", length, decoded.length);
    }
    cero_text_cleanup(&decoded);
    cero_token_ids_cleanup(&portions);
    cero_token_ids_cleanup(&ids);
}

static void check_tokenizer(cero_tokenizer *t, const char *text, size_t length)
{
    int32_t eos = cero_tokenizer_eos(t);

    fuzz_expect(eos >= -1 && eos < cero_tokenizer_vocab_size(t), "id %d ends a text", eos);
    check_text(t, text, length, 0);
    check_text(t, text, length, CERO_ENCODE_PLAIN_SPECIAL | CERO_ENCODE_ADD_SPECIAL);
    check_text(t, sample, sizeof(sample) - 1, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *json = (const char *)data;
    const char *end = json + size;
    const char *text = size == 0 ? NULL : memchr(json, '\0', size);
    const char *config = NULL;
    char *config_copy = NULL;
    cero_tokenizer *t = NULL;

    size_t json_length = text == NULL ? size : (size_t)(text++ - json);
    if (text != NULL && text < end) {
        config = memchr(text, '\0', (size_t)(end - text));
    }
    size_t text_length = text == NULL ? 0 : (size_t)((config == NULL ? end : config) - text);
    if (config != NULL) {
        config_copy = fuzz_alloc((size_t)(end - config));
        memcpy(config_copy, config + 1, (size_t)(end - config) - 1);
        config_copy[end - config - 1] = '\0';
    }
    char *json_copy = fuzz_copy(json, json_length);
    char *text_copy = fuzz_copy(text, text_length);
    // The config is named as itself, not as the tokenizer.
    fuzz_accepted = fuzz_is_ok(cero_tokenizer_parse(NAME, json_copy, json_length, config_copy, &t),
                               "tokenizer");
    if (fuzz_accepted) {
        check_tokenizer(t, text_copy, text_length);
    }
    cero_tokenizer_destroy(&t);
    free(text_copy);
    free(json_copy);
    free(config_copy);
    return 0;
}
