/* SPDX-License-Identifier: Apache-2.0 */
/* `cero inspect` for token files: how many tokens, the largest id, and how the stream begins. */
#include "base/memory.h"
#include "cli/inspect.h"
#include "data/tokens.h"

#include <string.h>

enum {
    READ_TOKENS = 65536,
    SHOWN_TOKENS = 16
};

/* What a walk over the whole stream finds. */
typedef struct token_facts {
    int64_t count;
    int32_t largest;
    int32_t first[SHOWN_TOKENS];
    int64_t first_count;
} token_facts;

static cero_status walk(cero_token_stream *stream, int32_t *ids, token_facts *facts)
{
    facts->count = cero_token_stream_count(stream);
    facts->largest = 0;
    for (int64_t at = 0; at < facts->count; at += READ_TOKENS) {
        int64_t left = facts->count - at;
        int64_t n = left < READ_TOKENS ? left : READ_TOKENS;
        CERO_TRY(cero_token_stream_read(stream, at, n, ids));
        for (int64_t i = 0; i < n; i++) {
            facts->largest = ids[i] > facts->largest ? ids[i] : facts->largest;
        }
        if (at == 0) {
            facts->first_count = n < SHOWN_TOKENS ? n : SHOWN_TOKENS;
            memcpy(facts->first, ids, (size_t)facts->first_count * sizeof(ids[0]));
        }
    }
    return CERO_OK;
}

static void write_facts(const token_facts *facts, bool is_json, const char *path, cero_text *out)
{
    if (is_json) {
        cero_text_printf(out,
                         "{\"kind\": \"tokens\", \"tokens\": %lld, \"largest\": %d, \"first\": [",
                         (long long)facts->count, facts->largest);
    } else {
        cero_text_printf(out, "%s: %lld tokens, largest id %d\n  first:", path,
                         (long long)facts->count, facts->largest);
    }
    for (int64_t i = 0; i < facts->first_count; i++) {
        cero_text_printf(out, "%s%d", is_json ? (i == 0 ? "" : ", ") : " ", facts->first[i]);
    }
    cero_text_printf(out, is_json ? "]}\n" : "\n");
}

cero_status cero_inspect_tokens(cero_cli *cli, const cero_inspect_values *values, const char *path,
                                cero_text *out)
{
    cero_token_stream_params params = {.path = &path, .path_count = 1};
    cero_token_stream *stream = NULL;
    cero_status st = CERO_OK;
    token_facts facts = {0};
    int32_t *ids = cero_new(READ_TOKENS, sizeof(ids[0]));

    CERO_UNUSED(cli);
    if (ids == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for %d tokens", READ_TOKENS);
    }
    CERO_TRY_GOTO(cero_token_stream_open(&params, &stream), out);
    CERO_TRY_GOTO(walk(stream, ids, &facts), out);
    write_facts(&facts, values->json, path, out);

out:
    cero_token_stream_close(&stream);
    cero_delete(ids);
    return st;
}
