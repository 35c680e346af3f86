/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Megatron's .idx: any bytes are refused with one line that names the file, or they describe a .bin of a length
 * that fits the type of its ids. With a .bin of that length the pair opens as a stream of that many tokens, which
 * reads to the end or names the first id that is none; with one byte less it does not open.
 */
#include "fuzz.h"

#include "data/tokens/source.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_BIN = 1 << 16 /* bytes of a .bin that is made */
};

/* Ids that are small, with now and then one that no vocabulary has. */
static unsigned char *make_bin(size_t length, const uint8_t *data, size_t size)
{
    unsigned char *bin = fuzz_alloc(length);

    for (size_t i = 0; i < length; i++) {
        bin[i] = i % 2 == 0 ? data[i % size] : (unsigned char)(data[size - 1] & 0x80);
    }
    return bin;
}

static void read_stream(const char *path, int64_t count)
{
    cero_token_stream *stream = NULL;
    cero_token_stream_params params = {.path = &path, .path_count = 1, .vocab_size = 40000};

    fuzz_expect(cero_token_stream_open(&params, &stream) == CERO_OK, "%s", cero_error_message());
    fuzz_expect(cero_token_stream_count(stream) == count, "%lld tokens",
                (long long)cero_token_stream_count(stream));
    int32_t *ids = fuzz_alloc((size_t)count * sizeof(ids[0]));
    if (fuzz_is_ok(cero_token_stream_read(stream, 0, count, ids), path)) {
        for (int64_t i = 0; i < count; i++) {
            fuzz_expect(ids[i] >= 0 && ids[i] < 40000, "id %d", ids[i]);
        }
    }
    fuzz_expect(cero_token_stream_read(stream, 1, count, ids) == CERO_ERR_INVALID, "%lld tokens",
                (long long)count);
    free(ids);
    cero_token_stream_close(&stream);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cero_token_type type;
    int64_t nbytes = 0;
    uint8_t *idx = fuzz_copy(data, size);
    bool is_good = fuzz_is_ok(cero_token_idx_parse("a.idx", idx, size, &type, &nbytes), "a.idx");

    free(idx);
    fuzz_accepted = is_good;
    if (!is_good) {
        return 0;
    }
    int width = cero_token_type_width(type);
    fuzz_expect(nbytes >= 0 && nbytes % width == 0, "%lld bytes of ids of %d", (long long)nbytes,
                width);
    if (nbytes == 0 || nbytes > MAX_BIN) {
        return 0;
    }
    const char *bin_path = fuzz_path(0, "a.bin");
    unsigned char *bin = make_bin((size_t)nbytes, data, size);
    fuzz_write(fuzz_path(1, "a.idx"), data, size);
    fuzz_write(bin_path, bin, (size_t)nbytes);
    read_stream(bin_path, nbytes / width);

    cero_token_stream *stream = NULL;
    cero_token_stream_params params = {.path = &bin_path, .path_count = 1};
    fuzz_write(bin_path, bin, (size_t)nbytes - 1);
    fuzz_expect(!fuzz_is_ok(cero_token_stream_open(&params, &stream), bin_path), "%lld bytes",
                (long long)nbytes - 1);
    free(bin);
    return 0;
}
