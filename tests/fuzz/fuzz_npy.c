/* SPDX-License-Identifier: Apache-2.0 */
/*
 * .npy files of token ids: any bytes are refused with one line that names the file, or their ids fill the file
 * behind the head. The file then opens as a stream of that many tokens (none at all is refused); what it reads can
 * be written as .npy and reads back as the same ids. The head is parsed from a block of exactly the file's length.
 */
#include "fuzz.h"

#include "data/tokens/source.h"

#include <stdlib.h>
#include <string.h>

enum {
    VOCAB = 1 << 17,
    MAX_TOKENS = 1 << 16 /* of a stream that is written again */
};

static cero_status open_stream(const char *path, cero_token_stream **out)
{
    cero_token_stream_params params = {.path = &path, .path_count = 1, .vocab_size = VOCAB};

    return cero_token_stream_open(&params, out);
}

static void write_again(const int32_t *ids, int64_t count)
{
    const char *path = fuzz_path(1, "again.npy");
    cero_token_writer *writer = NULL;
    cero_token_stream *stream = NULL;
    int32_t *again = fuzz_alloc((size_t)count * sizeof(again[0]));

    fuzz_expect(cero_token_writer_open(path, CERO_TOKENS_NPY, VOCAB, &writer) == CERO_OK &&
                    cero_token_writer_add(writer, ids, count) == CERO_OK &&
                    cero_token_writer_commit(writer) == CERO_OK,
                "%s", cero_error_message());
    cero_token_writer_close(&writer);
    fuzz_expect(open_stream(path, &stream) == CERO_OK && cero_token_stream_count(stream) == count &&
                    cero_token_stream_read(stream, 0, count, again) == CERO_OK,
                "%s", cero_error_message());
    fuzz_expect(memcmp(ids, again, (size_t)count * sizeof(ids[0])) == 0, "%lld tokens",
                (long long)count);
    cero_token_stream_close(&stream);
    free(again);
}

static void read_stream(const char *path, int64_t count)
{
    cero_token_stream *stream = NULL;

    if (!fuzz_is_ok(open_stream(path, &stream), path)) {
        fuzz_expect(count == 0, "%lld tokens: %s", (long long)count, cero_error_message());
        return;
    }
    fuzz_expect(cero_token_stream_count(stream) == count, "%lld tokens", (long long)count);
    int32_t *ids = fuzz_alloc((size_t)count * sizeof(ids[0]));
    bool is_read = fuzz_is_ok(cero_token_stream_read(stream, 0, count, ids), path);
    cero_token_stream_close(&stream);
    if (is_read) {
        write_again(ids, count < MAX_TOKENS ? count : MAX_TOKENS);
    }
    free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cero_token_source source = {0};
    uint8_t *copy = fuzz_copy(data, size);
    bool is_good = fuzz_is_ok(cero_token_npy_parse("a.npy", copy, size, &source), "a.npy");

    if (is_good) {
        int64_t nbytes = source.count * cero_token_type_width(source.type);
        fuzz_expect(source.data == copy + source.offset && source.offset + nbytes == (int64_t)size,
                    "%lld ids from byte %lld on", (long long)source.count,
                    (long long)source.offset);
    }
    free(copy);
    fuzz_accepted = is_good;
    if (is_good) {
        const char *path = fuzz_path(0, "a.npy");
        fuzz_write(path, data, size);
        read_stream(path, source.count);
    }
    return 0;
}
