/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safetensors files: any bytes are refused with one line that names the file, or they are a file whose tensors
 * follow each other without hole or overlap and fill it, are found by name, and read and hash to the end. Memory is
 * bounded by the header. What was read can be written again, and reads back as the same tensors with the same bytes.
 * The header is parsed from a block of its own length too, so that no byte behind it can be looked at.
 */
#include "fuzz.h"

#include "ckpt/safetensors_impl.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_WRITTEN = 32 /* tensors of a file that is written again */
};

static void check_tensor(const cero_safetensors_tensor *t, int64_t at)
{
    int64_t nbytes;

    fuzz_expect(t->begin == at && t->end >= at, "tensor from %lld to %lld, expected at %lld",
                (long long)t->begin, (long long)t->end, (long long)at);
    fuzz_expect(cero_safetensors_dtype_bytes(t->dtype, t->numel, &nbytes) &&
                    nbytes == t->end - t->begin,
                "%lld elements in %lld bytes", (long long)t->numel, (long long)(t->end - t->begin));
}

static void check_header(const uint8_t *data, size_t size)
{
    uint64_t wanted = 0;
    cero_safetensors_header header;
    int64_t at = 0;

    if (size < sizeof(wanted)) {
        return;
    }
    memcpy(&wanted, data, sizeof(wanted));
    size_t length = wanted < size - 8 ? (size_t)wanted : size - 8;
    char *json = fuzz_copy(data + 8, length);
    if (fuzz_is_ok(cero_safetensors_header_parse("a.safetensors", json, length, &header),
                   "a.safetensors")) {
        for (int64_t i = 0; i < header.count; i++) {
            const cero_safetensors_tensor *t = &header.tensor[i];
            check_tensor(t, at);
            fuzz_expect(cero_safetensors_header_find(&header, t->name) == t, "tensor %lld is lost",
                        (long long)i);
            at = t->end;
        }
        fuzz_expect(at == header.data_bytes, "%lld bytes of data", (long long)at);
        cero_safetensors_header_cleanup(&header);
    }
    free(json);
}

/* Everything that can be asked of an open file. */
static void read_tensors(cero_safetensors *file, size_t size)
{
    const char *key;
    const char *value;
    int64_t at = 0;

    for (int64_t i = 0; cero_safetensors_metadata(file, i, &key, &value); i++) {
        fuzz_expect(key != NULL && value != NULL, "entry %lld of the metadata", (long long)i);
    }
    for (int64_t i = 0; i < cero_safetensors_count(file); i++) {
        const cero_safetensors_tensor *t = cero_safetensors_get(file, i);
        uint64_t hash;
        check_tensor(t, at);
        at = t->end;
        fuzz_expect(cero_safetensors_hash(file, t, &hash) == CERO_OK, "%s", cero_error_message());
        if (cero_safetensors_dtype_is_real(t->dtype)) {
            float *values = fuzz_alloc((size_t)t->numel * sizeof(float));
            fuzz_expect(cero_safetensors_read_f32(file, t, 0, t->numel, values) == CERO_OK, "%s",
                        cero_error_message());
            free(values);
        }
    }
    fuzz_expect(cero_safetensors_data_offset(file) + at == (int64_t)size, "%lld bytes of data",
                (long long)at);
}

static cero_status give_raw(void *context, int64_t index, int64_t begin, int64_t numel, void *out)
{
    cero_safetensors *file = context;
    const cero_safetensors_tensor *t = cero_safetensors_get(file, index);
    int64_t size = cero_safetensors_dtype_bits(t->dtype) / 8;

    CERO_TRY(cero_safetensors_read_raw(file, t, begin * size, numel * size, out));
    return CERO_OK;
}

static void check_same(cero_safetensors *file, cero_safetensors *again)
{
    fuzz_expect(cero_safetensors_count(file) == cero_safetensors_count(again), "%lld tensors",
                (long long)cero_safetensors_count(again));
    for (int64_t i = 0; i < cero_safetensors_count(file); i++) {
        const cero_safetensors_tensor *a = cero_safetensors_get(file, i);
        const cero_safetensors_tensor *b = cero_safetensors_find(again, a->name);
        uint64_t hash_a = 0;
        uint64_t hash_b = 1;
        fuzz_expect(b != NULL && a->dtype == b->dtype && a->ndim == b->ndim, "tensor %s", a->name);
        fuzz_expect(a->ndim == 0 ||
                        memcmp(a->dim, b->dim, (size_t)a->ndim * sizeof(a->dim[0])) == 0,
                    "the shape of %s", a->name);
        fuzz_expect(cero_safetensors_hash(file, a, &hash_a) == CERO_OK &&
                        cero_safetensors_hash(again, b, &hash_b) == CERO_OK && hash_a == hash_b,
                    "the bytes of %s", a->name);
    }
}

/* Formats of which a byte holds several elements, and more dimensions than ours, can only be read. */
static bool is_writable(const cero_safetensors *file, cero_safetensors_decl *decls)
{
    for (int64_t i = 0; i < cero_safetensors_count(file); i++) {
        const cero_safetensors_tensor *t = cero_safetensors_get(file, i);
        if (cero_safetensors_dtype_bits(t->dtype) % 8 != 0 || t->ndim > CERO_MAX_NDIM) {
            return false;
        }
        decls[i] =
            (cero_safetensors_decl){.name = t->name, .dtype = t->dtype, .shape = {.ndim = t->ndim}};
        for (int d = 0; d < t->ndim; d++) {
            decls[i].shape.dim[d] = t->dim[d];
        }
    }
    return true;
}

static void write_again(cero_safetensors *file)
{
    cero_safetensors_decl decls[MAX_WRITTEN];
    cero_safetensors *again = NULL;
    int64_t count = cero_safetensors_count(file);
    const char *path = fuzz_path(1, "again.safetensors");

    if (count > MAX_WRITTEN || !is_writable(file, decls)) {
        return;
    }
    cero_safetensors_write_params params = {
        .tensors = decls, .count = count, .source = give_raw, .context = file, .is_raw = true};
    fuzz_expect(cero_safetensors_write(path, &params) == CERO_OK, "%s", cero_error_message());
    fuzz_expect(cero_safetensors_open(path, &again) == CERO_OK, "%s", cero_error_message());
    check_same(file, again);
    cero_safetensors_close(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_path(0, "a.safetensors");
    cero_safetensors *file = NULL;

    check_header(data, size);
    fuzz_write(path, data, size);
    fuzz_accepted = fuzz_is_ok(cero_safetensors_open(path, &file), path);
    if (fuzz_accepted) {
        read_tensors(file, size);
        write_again(file);
    }
    cero_safetensors_close(&file);
    return 0;
}
