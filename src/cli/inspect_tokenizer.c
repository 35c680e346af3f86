/* SPDX-License-Identifier: Apache-2.0 */
/* `cero inspect` for tokenizers: size of the vocabulary, special tokens, the end-of-document token. */
#include "cli/inspect.h"
#include "data/tokenizer.h"

/* Appends a token as a JSON string; that is also what people read, since tokens hold any byte. */
static void append_token(const cero_tokenizer *tokenizer, int64_t id, cero_text *out)
{
    size_t length = 0;
    const char *bytes = cero_tokenizer_token(tokenizer, id, &length);

    if (bytes == NULL) {
        cero_text_printf(out, "null");
    } else {
        cero_text_append_json_string(out, bytes, length);
    }
}

static void append_special(const cero_tokenizer *tokenizer, bool is_json, cero_text *out)
{
    int64_t vocab_size = cero_tokenizer_vocab_size(tokenizer);
    bool is_first = true;

    for (int64_t id = 0; id < vocab_size; id++) {
        if (!cero_tokenizer_is_special(tokenizer, id)) {
            continue;
        }
        if (is_json) {
            cero_text_printf(out, "%s\"%lld\": ", is_first ? "" : ", ", (long long)id);
            append_token(tokenizer, id, out);
        } else {
            cero_text_printf(out, "  special %8lld ", (long long)id);
            append_token(tokenizer, id, out);
            cero_text_printf(out, "\n");
        }
        is_first = false;
    }
}

cero_status cero_inspect_tokenizer(cero_cli *cli, const cero_inspect_values *values,
                                   const char *path, cero_text *out)
{
    cero_tokenizer *tokenizer = NULL;

    CERO_UNUSED(cli);
    CERO_TRY(cero_tokenizer_open(path, &tokenizer));
    long long vocab_size = (long long)cero_tokenizer_vocab_size(tokenizer);
    int eos = cero_tokenizer_eos(tokenizer);
    if (values->json) {
        cero_text_printf(out,
                         "{\"kind\": \"tokenizer\", \"vocab_size\": %lld, \"eos\": ", vocab_size);
        cero_text_printf(out, eos >= 0 ? "%d" : "null", eos);
        cero_text_printf(out, ", \"special\": {");
        append_special(tokenizer, true, out);
        cero_text_printf(out, "}}\n");
    } else {
        cero_text_printf(out, "%s: tokenizer, vocabulary of %lld\n", path, vocab_size);
        if (eos >= 0) {
            cero_text_printf(out, "  end of document %d ", eos);
            append_token(tokenizer, eos, out);
            cero_text_printf(out, "\n");
        }
        append_special(tokenizer, false, out);
    }
    cero_tokenizer_destroy(&tokenizer);
    return CERO_OK;
}
