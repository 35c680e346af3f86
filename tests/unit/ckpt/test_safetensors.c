/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader takes exactly the files the safetensors reference takes, names what is wrong with others,
 * and survives any bytes; what the writer makes is the reference's layout, bit for bit, or no file.
 */
#include "unit/ckpt/files.h"

#include "base/rng.h"
#include "ckpt/convert.h"
#include "ckpt/safetensors_impl.h"

#include <math.h>

static char dir[64];

static int make_dir(void **state)
{
    (void)state;
    files_make_dir(dir, sizeof(dir));
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    files_remove(dir);
    return 0;
}

/* A header and its data that must open. */
static void opens(const char *json, size_t data_bytes, int64_t count)
{
    char bytes[4096];
    cero_safetensors *file = NULL;
    const char *path = files_in(dir, "good.safetensors");

    files_write(path, bytes, files_archive(json, data_bytes, 1, bytes));
    assert_ok(cero_safetensors_open(path, &file));
    assert_int_equal(cero_safetensors_count(file), count);
    cero_safetensors_close(&file);
}

static void test_good_headers(void **state)
{
    (void)state;
    opens("{}", 0, 0);
    opens("{}      ", 0, 0);
    opens("{\"__metadata__\":{\"format\":\"pt\"}}", 0, 0);
    opens("{\"__metadata__\":null}", 0, 0);
    opens("{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, 1);
    opens("{\"a\":{\"data_offsets\":[0,4],\"shape\":[1,1,1,1,1,1,1,1],\"dtype\":\"I32\"}}", 4, 1);
    opens("{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},"
          "\"b\":{\"dtype\":\"F32\",\"shape\":[3,0],\"data_offsets\":[0,0]},"
          "\"c\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
          "\"d\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[3,3]}}",
          3, 4);
    // Not in the order of their data.
    opens("{\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]},"
          "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
          3, 2);
    opens("{\"a\":{\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[0,1]},"
          "\"b\":{\"dtype\":\"F6_E2M3\",\"shape\":[4],\"data_offsets\":[1,4]}}",
          4, 2);
}

static void test_every_dtype_opens(void **state)
{
    (void)state;
    for (int i = 0; i < CERO_SAFETENSORS_COUNT; i++) {
        char json[128];
        int bits = cero_safetensors_dtype_bits((cero_safetensors_dtype)i);
        (void)snprintf(json, sizeof(json),
                       "{\"a\":{\"dtype\":\"%s\",\"shape\":[4],\"data_offsets\":[0,%d]}}",
                       cero_safetensors_dtype_name((cero_safetensors_dtype)i), bits / 2);
        opens(json, (size_t)bits / 2, 1);
    }
}

static const struct {
    const char *json;
    size_t data_bytes;
    const char *message;
} bad_headers[] = {
    {"", 0, "does not start with '{'"},
    {" {}", 0, "does not start with '{'"},
    {"[]", 0, "does not start with '{'"},
    {"{", 0, "expected"},
    {"{}x", 0, "nothing after"},
    {"{}\x01", 0, "nothing after"},
    {"{\"a\":1}", 0, "\"a\" is not described by an object"},
    {"{\"a\":{}}", 0, "must have dtype, shape and data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "must have dtype"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4, "nothing else"},
    {"{\"a\":{\"dtype\":\"F33\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
     "dtype \"F33\", which the format does not know"},
    {"{\"a\":{\"dtype\":\"f32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "does not know"},
    {"{\"a\":{\"dtype\":\"F32\\u0000\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "does not know"},
    {"{\"a\":{\"dtype\":4,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "no string"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":1,\"data_offsets\":[0,4]}}", 4, "no list"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "found -1"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4, "found 1.0"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1e0],\"data_offsets\":[0,4]}}", 4, "found 1e0"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[\"1\"],\"data_offsets\":[0,4]}}", 4, "found a string"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[18446744073709551616],\"data_offsets\":[0,4]}}", 4,
     "found 18446744073709551616"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[9223372036854775808],\"data_offsets\":[0,4]}}", 4,
     "found 9223372036854775808"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
     "beyond 2^63 - 1"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}", 0,
     "no number of bytes"},
    {"{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", 1, "no number of bytes"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "no list of two"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 4, "no list of two"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,-4]}}", 4, "found -4"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "hole before it"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,5]}}", 5,
     "needs 4 bytes, its offsets 0 to 5 give it 5"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,3]}}", 3, "needs 4 bytes"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[2,6]}}",
     6, "overlaps the one before"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
     4, "overlaps the one before"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,1]}}",
     2, "ends before it starts"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
     "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
     2, "\"a\""},
    {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
     "dtype"},
    {"{\"\\u0061\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
     "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
     2, "a"},
    {"{\"a\\u0000\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "u0000"},
    {"{\"__metadata__\":[]}", 0, "__metadata__ must be an object"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "holds only strings, found a number"},
    {"{\"__metadata__\":{\"a\":null}}", 0, "holds only strings"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],}}", 1, "expected"},
    {"{/**/}", 0, "expected"},
    {"{\"\xff\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "UTF-8"},
};

static void test_bad_headers(void **state)
{
    (void)state;
    for (size_t i = 0; i < CERO_COUNT_OF(bad_headers); i++) {
        char bytes[4096];
        cero_safetensors *file = NULL;
        const char *path = files_in(dir, "bad.safetensors");
        size_t n = files_archive(bad_headers[i].json, bad_headers[i].data_bytes, 0, bytes);
        files_write(path, bytes, n);
        assert_fails(cero_safetensors_open(path, &file), CERO_ERR_CORRUPT, bad_headers[i].message);
        assert_non_null(strstr(cero_error_message(), "bad.safetensors"));
        assert_null(file);
    }
}

static const char two_tensors[] =
    "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]},"
    "\"b\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[8,14]}}";

/* SF-06: a byte too many is as wrong as a byte too few; both lengths are named. */
static void test_every_truncation(void **state)
{
    (void)state;
    char bytes[512];
    cero_safetensors *file = NULL;
    const char *path = files_in(dir, "cut.safetensors");
    size_t n = files_archive(two_tensors, 14, 0, bytes);

    for (size_t cut = 0; cut < n; cut++) {
        files_write(path, bytes, cut);
        assert_fails(cero_safetensors_open(path, &file), CERO_ERR_CORRUPT, "cut.safetensors");
    }
    memset(bytes + n, 0, 4);
    files_write(path, bytes, n + 4);
    char found[64];
    (void)snprintf(found, sizeof(found), "has %zu bytes, expected 14 more than the %zu", n + 4,
                   strlen(two_tensors));
    assert_fails(cero_safetensors_open(path, &file), CERO_ERR_CORRUPT, found);
    files_write(path, bytes, n);
    assert_ok(cero_safetensors_open(path, &file));
    cero_safetensors_close(&file);
}

static void test_header_limit_comes_before_memory(void **state)
{
    (void)state;
    static const uint64_t lengths[] = {100000001, UINT64_MAX, INT64_MAX, 1ull << 63, 100000000};
    const char *path = files_in(dir, "huge.safetensors");

    for (size_t i = 0; i < CERO_COUNT_OF(lengths); i++) {
        char bytes[16] = {0};
        cero_safetensors *file = NULL;
        memcpy(bytes, &lengths[i], 8);
        files_write(path, bytes, sizeof(bytes));
        assert_fails(cero_safetensors_open(path, &file), CERO_ERR_CORRUPT,
                     lengths[i] == 100000000 ? "only 8 after" : "the limit is 100000000");
    }
}

/* A file of this many bytes after a header's length, "{}" and spaces as far as `spaces`; the rest takes no room. */
static void write_long_header(const char *path, uint64_t header, uint64_t spaces)
{
    char part[4096];
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(&header, 1, sizeof(header), f), sizeof(header));
    memset(part, ' ', sizeof(part));
    memcpy(part, "{}", 2);
    for (uint64_t done = 0; done < spaces;) {
        size_t n = spaces - done < sizeof(part) ? (size_t)(spaces - done) : sizeof(part);
        assert_int_equal(fwrite(part, 1, n, f), n);
        memcpy(part, "  ", 2);
        done += n;
    }
    assert_int_equal(fflush(f), 0);
    assert_int_equal(ftruncate(fileno(f), (off_t)(sizeof(header) + header)), 0);
    assert_int_equal(fclose(f), 0);
}

/* 100,000,000 bytes of header are read; for one more nothing is allocated, though the file is as long. */
static void test_header_at_the_limit(void **state)
{
    (void)state;
    cero_safetensors *file = NULL;
    const char *path = files_in(dir, "limit.safetensors");

    write_long_header(path, CERO_SAFETENSORS_MAX_HEADER, CERO_SAFETENSORS_MAX_HEADER);
    assert_ok(cero_safetensors_open(path, &file));
    assert_int_equal(cero_safetensors_count(file), 0);
    assert_int_equal(cero_safetensors_data_offset(file), CERO_SAFETENSORS_MAX_HEADER + 8);
    cero_safetensors_close(&file);
    uint64_t calls = cero_mem_calls();
    assert_fails(cero_safetensors_open(files_in(dir, "nowhere"), &file), CERO_ERR_IO, "nowhere");
    uint64_t needed = cero_mem_calls() - calls - 1; // files_in's own
    write_long_header(path, CERO_SAFETENSORS_MAX_HEADER + 1, 2);
    calls = cero_mem_calls();
    assert_fails(cero_safetensors_open(path, &file), CERO_ERR_CORRUPT, "the limit is 100000000");
    assert_int_equal(cero_mem_calls() - calls, needed);
    assert_int_equal(unlink(path), 0);
}

static void test_what_is_no_file(void **state)
{
    (void)state;
    cero_safetensors *file = NULL;

    assert_fails(cero_safetensors_open(files_in(dir, "absent"), &file), CERO_ERR_IO, "absent");
    assert_fails(cero_safetensors_open(dir, &file), CERO_ERR_IO, "no regular file");
    assert_fails(cero_safetensors_open("/dev/zero", &file), CERO_ERR_IO, "no regular file");
}

/* Changed bytes: opens or fails, never anything else; what opens can be read to its last byte. */
static void test_random_headers(void **state)
{
    (void)state;
    char good[512];
    size_t n = files_archive(two_tensors, 14, 0, good);
    cero_rng_key key = cero_rng_make_key(7, CERO_RNG_TEST, 1, 0);
    int opened = 0;

    for (uint32_t round = 0; round < 20000; round++) {
        char json[512];
        size_t length = n - 8 - 14;
        memcpy(json, good + 8, length);
        uint32_t changes = 1 + cero_rng_word(key, round, 0) % 4;
        for (uint32_t k = 0; k < changes; k++) {
            static const char alphabet[] = "{}[]:,\"\\0123456789-eE.FIUB_abu \n\x80\xff";
            size_t at = cero_rng_word(key, round, 3 * k + 1) % length;
            uint32_t how = cero_rng_word(key, round, 3 * k + 2);
            if (how % 8 == 0) {
                memmove(json + at, json + at + 1, length - at - 1);
                length--;
            } else {
                json[at] = alphabet[(how >> 3) % (sizeof(alphabet) - 1)];
            }
        }
        cero_safetensors_header header;
        if (cero_safetensors_header_parse("fuzz", json, length, &header) == CERO_OK) {
            int64_t at = 0;
            for (int64_t i = 0; i < header.count; i++) {
                assert_int_equal(header.tensor[i].begin, at);
                at = header.tensor[i].end;
            }
            assert_int_equal(at, header.data_bytes);
            opened++;
            cero_safetensors_header_cleanup(&header);
        }
    }
    assert_in_range(opened, 1, 19999);
}

/* The source of the round trips: element i of tensor t is a fixed pattern of bits. */
static cero_status pattern_source(void *context, int64_t index, int64_t begin, int64_t numel,
                                  void *out)
{
    cero_rng_key key = cero_rng_make_key(3, CERO_RNG_TEST, (uint64_t)index, 0);

    (void)context;
    cero_rng_fill_normal(key, begin, numel, 0.0, 2.0, out);
    return CERO_OK;
}

static const cero_safetensors_decl mixed[] = {
    {"z.scalar", CERO_SAFETENSORS_F32, {.ndim = 0}},
    {"h.1", CERO_SAFETENSORS_BF16, {.ndim = 2, .dim = {7, 11}}},
    {"h.0", CERO_SAFETENSORS_BF16, {.ndim = 1, .dim = {5}}},
    {"empty", CERO_SAFETENSORS_F16, {.ndim = 2, .dim = {0, 9}}},
    {"big", CERO_SAFETENSORS_F32, {.ndim = 2, .dim = {3, 100003}}},
    {"n\"a\\m\n\xC3\xA9", CERO_SAFETENSORS_F16, {.ndim = 1, .dim = {300007}}},
};

/* SF-08 */
static void test_empty_archive_has_16_bytes(void **state)
{
    (void)state;
    const char *path = files_in(dir, "empty.safetensors");
    cero_safetensors *file = NULL;
    char *bytes;
    size_t n;

    assert_ok(cero_safetensors_write(path, &(cero_safetensors_write_params){0}));
    assert_ok(cero_file_read(path, 100, &bytes, &n));
    assert_int_equal(n, 16);
    assert_memory_equal(bytes, "\x08\0\0\0\0\0\0\0{}      ", 16);
    cero_delete(bytes);
    assert_ok(cero_safetensors_open(path, &file));
    assert_int_equal(cero_safetensors_count(file), 0);
    assert_null(cero_safetensors_find(file, "a"));
    cero_safetensors_close(&file);
}

static void check_tensor(cero_safetensors *file, int64_t index)
{
    const cero_safetensors_tensor *t = cero_safetensors_find(file, mixed[index].name);
    int64_t numel = cero_shape_numel(&mixed[index].shape);
    float *from = cero_new((size_t)numel + 1, sizeof(float));
    float *want = cero_new((size_t)numel + 1, sizeof(float));
    uint16_t *half = cero_new((size_t)numel + 1, sizeof(uint16_t));

    assert_non_null(t);
    assert_int_equal(t->dtype, mixed[index].dtype);
    assert_true(cero_safetensors_shape_equal(t, &mixed[index].shape));
    assert_ok(pattern_source(NULL, index, 0, numel, want));
    if (t->dtype == CERO_SAFETENSORS_BF16) {
        cero_convert_f32_to_bf16(want, numel, half);
        cero_convert_bf16_to_f32(half, numel, want);
    } else if (t->dtype == CERO_SAFETENSORS_F16) {
        cero_convert_f32_to_f16(want, numel, half);
        cero_convert_f16_to_f32(half, numel, want);
    }
    assert_ok(cero_safetensors_read_f32(file, t, 0, numel, from));
    assert_memory_equal(from, want, (size_t)numel * sizeof(float));
    for (int64_t begin = 1; begin < numel; begin = begin * 3 + 1) {
        int64_t n = (numel - begin) / 2;
        assert_ok(cero_safetensors_read_f32(file, t, begin, n, from));
        assert_memory_equal(from, want + begin, (size_t)n * sizeof(float));
    }
    assert_fails(cero_safetensors_read_f32(file, t, 1, numel, from), CERO_ERR_INVALID, "asked of");
    assert_fails(cero_safetensors_read_f32(file, t, -1, 1, from), CERO_ERR_INVALID, "asked of");
    assert_fails(cero_safetensors_read_f32(file, t, INT64_MAX, 2, from), CERO_ERR_INVALID,
                 "asked of");
    cero_delete(half);
    cero_delete(want);
    cero_delete(from);
}

static void test_round_trip(void **state)
{
    (void)state;
    static const char *const metadata[] = {"format", "pt", "k\"", "\xE2\x82\xAC"};
    const char *const order[] = {"big", "z.scalar", "h.0", "h.1", "empty", mixed[5].name};
    const char *path = files_in(dir, "mixed.safetensors");
    cero_safetensors *file = NULL;
    uint64_t hashes[CERO_COUNT_OF(mixed)];
    cero_safetensors_write_params params = {
        .tensors = mixed,
        .count = CERO_COUNT_OF(mixed),
        .metadata = metadata,
        .metadata_count = 2,
        .source = pattern_source,
        .hashes = hashes,
    };
    int64_t predicted = 0;
    int64_t actual = 0;

    assert_ok(cero_safetensors_write(path, &params));
    assert_ok(cero_safetensors_file_bytes(&params, &predicted));
    assert_int_equal(cero_file_stat(path, &actual), CERO_FILE_REGULAR);
    assert_int_equal(predicted, actual);
    assert_ok(cero_safetensors_open(path, &file));
    assert_int_equal(cero_safetensors_count(file), CERO_COUNT_OF(mixed));
    assert_int_equal(cero_safetensors_data_offset(file) % 8, 0);
    for (int64_t i = 0; i < (int64_t)CERO_COUNT_OF(mixed); i++) {
        uint64_t hash = 0;
        const cero_safetensors_tensor *t = cero_safetensors_find(file, mixed[i].name);
        assert_string_equal(cero_safetensors_get(file, i)->name, order[i]);
        check_tensor(file, i);
        assert_ok(cero_safetensors_hash(file, t, &hash));
        assert_true(hash == hashes[i]);
    }
    const char *key;
    const char *value;
    assert_true(cero_safetensors_metadata(file, 1, &key, &value));
    assert_string_equal(key, "k\"");
    assert_string_equal(value, "\xE2\x82\xAC");
    assert_false(cero_safetensors_metadata(file, 2, &key, &value));
    cero_safetensors_close(&file);
}

static cero_status raw_source(void *context, int64_t index, int64_t begin, int64_t numel, void *out)
{
    (void)index;
    memcpy(out, (const char *)context + 8 * begin, (size_t)(8 * numel));
    return CERO_OK;
}

static void test_raw_and_f64(void **state)
{
    (void)state;
    static const double values[] = {1.5, -1e300, 1e300, 3.4028235677973366e38, 1.0 + 0x1p-24, 0.0};
    static const cero_safetensors_decl decl[] = {
        {"x", CERO_SAFETENSORS_F64, {.ndim = 1, .dim = {6}}}};
    const char *path = files_in(dir, "raw.safetensors");
    double copy[6] = {0};
    cero_safetensors *file = NULL;
    cero_safetensors_write_params params = {
        .tensors = decl, .count = 1, .source = raw_source, .is_raw = true};

    memcpy(copy, values, sizeof(copy));
    params.context = copy;
    assert_ok(cero_safetensors_write(path, &params));
    assert_ok(cero_safetensors_open(path, &file));
    const cero_safetensors_tensor *t = cero_safetensors_get(file, 0);
    double back[6];
    float reals[6];
    assert_ok(cero_safetensors_read_raw(file, t, 0, 48, back));
    assert_memory_equal(back, values, sizeof(values));
    assert_ok(cero_safetensors_read_f32(file, t, 0, 6, reals));
    assert_true(reals[0] == 1.5F && isinf(reals[1]) && reals[1] < 0 && isinf(reals[2]));
    assert_true(isinf(reals[3]) && reals[4] == 1.0F && reals[5] == 0.0F);
    assert_fails(cero_safetensors_read_raw(file, t, 1, 48, back), CERO_ERR_INVALID, "asked of");
    cero_safetensors_close(&file);
}

static void test_dtypes_that_are_no_reals(void **state)
{
    (void)state;
    char bytes[256];
    float x[4];
    cero_safetensors *file = NULL;
    const char *path = files_in(dir, "int.safetensors");
    size_t n = files_archive("{\"ids\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]}}",
                             8, 0, bytes);

    files_write(path, bytes, n);
    assert_ok(cero_safetensors_open(path, &file));
    assert_fails(cero_safetensors_read_f32(file, cero_safetensors_get(file, 0), 0, 1, x),
                 CERO_ERR_UNSUPPORTED, "\"ids\" is stored as I64");
    cero_safetensors_close(&file);
}

static void refuses(const cero_safetensors_decl *decl, int64_t count, cero_status status,
                    const char *message)
{
    const char *path = files_in(dir, "refused.safetensors");
    cero_safetensors_write_params params = {
        .tensors = decl, .count = count, .source = pattern_source};

    assert_fails(cero_safetensors_write(path, &params), status, message);
    assert_int_equal(cero_file_stat(path, NULL), CERO_FILE_ABSENT);
}

static void test_writer_refuses(void **state)
{
    (void)state;
    const cero_safetensors_decl twice[] = {{"a", CERO_SAFETENSORS_F32, {0}},
                                           {"b", CERO_SAFETENSORS_F32, {0}},
                                           {"a", CERO_SAFETENSORS_BF16, {0}}};
    refuses(twice, 3, CERO_ERR_INVALID, "\"a\" is declared twice");
    const cero_safetensors_decl meta[] = {{"__metadata__", CERO_SAFETENSORS_F32, {0}}};
    refuses(meta, 1, CERO_ERR_INVALID, "__metadata__");
    const cero_safetensors_decl bytes[] = {{"\xff", CERO_SAFETENSORS_F32, {0}}};
    refuses(bytes, 1, CERO_ERR_INVALID, "not UTF-8");
    const cero_safetensors_decl dtype[] = {{"a", CERO_SAFETENSORS_I8, {0}}};
    refuses(dtype, 1, CERO_ERR_UNSUPPORTED, "cannot be written as I8");
    const cero_safetensors_decl negative[] = {
        {"a", CERO_SAFETENSORS_F32, {.ndim = 1, .dim = {-1}}}};
    refuses(negative, 1, CERO_ERR_INVALID, "no file can hold");
    const cero_safetensors_decl huge[] = {
        {"a", CERO_SAFETENSORS_F32, {.ndim = 2, .dim = {1ll << 31, 1ll << 31}}}};
    refuses(huge, 1, CERO_ERR_INVALID, "no file can hold");
}

/* Any failing call leaves the old file as it was and nothing beside it. */
static void test_writer_faults(void **state)
{
    (void)state;
    static const char *const calls[] = {"open", "write", "fsync", "close", "rename"};
    const char *sub = files_in(dir, "faults");
    const char *path = files_in(sub, "a.safetensors");
    cero_safetensors_write_params params = {
        .tensors = mixed, .count = CERO_COUNT_OF(mixed), .source = pattern_source};

    assert_ok(cero_file_make_dir(sub));
    for (size_t c = 0; c < CERO_COUNT_OF(calls); c++) {
        for (int n = 1;; n++) {
            char fault[64];
            files_write(path, "old", 3);
            (void)snprintf(fault, sizeof(fault), "%s:%d:ENOSPC", calls[c], n);
            setenv("CERO_FAULT", fault, 1);
            cero_status st = cero_safetensors_write(path, &params);
            unsetenv("CERO_FAULT");
            if (st == CERO_OK) {
                assert_true(n > 1);
                break;
            }
            cero_file_list list = {0};
            assert_int_equal(st, CERO_ERR_IO);
            assert_non_null(strstr(cero_error_message(), "No space left"));
            assert_ok(cero_file_list_dir(sub, true, &list));
            assert_int_equal(list.count, 1);
            cero_file_list_cleanup(&list);
        }
    }
}

static void test_reader_faults(void **state)
{
    (void)state;
    char bytes[512];
    cero_safetensors *file = NULL;
    const char *path = files_in(dir, "read.safetensors");

    files_write(path, bytes, files_archive(two_tensors, 14, 0, bytes));
    setenv("CERO_FAULT", "read:2:EIO", 1);
    assert_fails(cero_safetensors_open(path, &file), CERO_ERR_IO, "Input/output error");
    setenv("CERO_FAULT", "open:1:EACCES", 1);
    assert_fails(cero_safetensors_open(path, &file), CERO_ERR_IO, "Permission denied");
    setenv("CERO_FAULT", "read:1:SHORT", 1);
    assert_ok(cero_safetensors_open(path, &file));
    unsetenv("CERO_FAULT");
    float x[2];
    assert_int_equal(truncate(path, (off_t)cero_safetensors_data_offset(file) + 4), 0);
    assert_fails(cero_safetensors_read_f32(file, cero_safetensors_find(file, "a"), 0, 2, x),
                 CERO_ERR_IO, "was cut while it was open");
    cero_safetensors_close(&file);
}

/* Every allocation that fails gives NOMEM, no file and no leak. */
static void test_memory_faults(void **state)
{
    (void)state;
    const char *path = files_in(dir, "memory.safetensors");
    cero_safetensors_write_params params = {
        .tensors = mixed, .count = CERO_COUNT_OF(mixed), .source = pattern_source};
    cero_safetensors *file = NULL;

    for (uint64_t n = 1;; n++) {
        cero_mem_fail_at(n);
        cero_status st = cero_safetensors_write(path, &params);
        cero_mem_fail_at(0);
        if (st == CERO_OK) {
            assert_true(n > 5);
            break;
        }
        assert_int_equal(st == CERO_ERR_IO ? CERO_ERR_NOMEM : st, CERO_ERR_NOMEM);
    }
    for (uint64_t n = 1;; n++) {
        cero_mem_fail_at(n);
        cero_status st = cero_safetensors_open(path, &file);
        cero_mem_fail_at(0);
        if (st == CERO_OK) {
            assert_true(n > 5);
            break;
        }
        assert_int_equal(st, CERO_ERR_NOMEM);
    }
    cero_safetensors_close(&file);
}

static void test_quote(void **state)
{
    (void)state;
    char text[16];

    assert_string_equal(cero_safetensors_quote("abc", text, sizeof(text)), "\"abc\"");
    assert_string_equal(cero_safetensors_quote("a\x1b[1mb", text, sizeof(text)), "\"a?[1mb\"");
    assert_string_equal(cero_safetensors_quote("abcdefghijklmnopqrstuvw", text, sizeof(text)),
                        "\"abcdefghi...\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_headers),
        cmocka_unit_test(test_every_dtype_opens),
        cmocka_unit_test(test_bad_headers),
        cmocka_unit_test(test_every_truncation),
        cmocka_unit_test(test_header_limit_comes_before_memory),
        cmocka_unit_test(test_header_at_the_limit),
        cmocka_unit_test(test_what_is_no_file),
        cmocka_unit_test(test_random_headers),
        cmocka_unit_test(test_empty_archive_has_16_bytes),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_raw_and_f64),
        cmocka_unit_test(test_dtypes_that_are_no_reals),
        cmocka_unit_test(test_writer_refuses),
        cmocka_unit_test(test_writer_faults),
        cmocka_unit_test(test_reader_faults),
        cmocka_unit_test(test_memory_faults),
        cmocka_unit_test(test_quote),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
