/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A manifest reads back as it was written; any bit that is flipped in it, any byte that it lacks and any two
 * statements of it that contradict each other are found, with the place and the tensor.
 */
#include "files.h"

#include "ckpt/checkpoint/manifest_impl.h"

#define RUN "00112233445566778899aabbccddeeff"

/* Two files, a tensor cut in two, a whole one, one without elements; blocks of 16 bytes. */
typedef struct sample {
    uint64_t hashes[16];
    cero_manifest_file files[2];
    cero_manifest_range ranges[3];
    cero_manifest_tensor tensors[3];
    cero_manifest manifest;
} sample;

static void fill_sample(sample *s)
{
    memset(s, 0, sizeof(*s));
    for (size_t i = 0; i < CERO_COUNT_OF(s->hashes); i++) {
        s->hashes[i] = 0x0123456789abcdefu * (i + 1);
    }
    s->files[0] = (cero_manifest_file){"rank-00000.safetensors", 128, 64, 1};
    s->files[1] = (cero_manifest_file){"rank-00001.safetensors", 112, 64, UINT64_MAX};
    s->ranges[0] = (cero_manifest_range){0, 64, 0, 10, s->hashes};
    s->ranges[1] = (cero_manifest_range){1, 64, 10, 12, s->hashes + 3};
    s->ranges[2] = (cero_manifest_range){1, 72, 0, 10, s->hashes + 4};
    s->tensors[0] =
        (cero_manifest_tensor){"wte \"quoted\"", CERO_DTYPE_F32, {2, {3, 4}}, 12, s->ranges, 2};
    s->tensors[1] =
        (cero_manifest_tensor){"a.bias", CERO_DTYPE_F32, {1, {10}}, 10, s->ranges + 2, 1};
    s->tensors[2] = (cero_manifest_tensor){"none", CERO_DTYPE_F32, {2, {0, 7}}, 0, NULL, 0};
    s->manifest = (cero_manifest){.run = RUN,
                                  .step = 120,
                                  .block_nbytes = 16,
                                  .mesh = {2, 2, 1, 1, 1, 3},
                                  .files = s->files,
                                  .file_count = 2,
                                  .tensors = s->tensors,
                                  .tensor_count = 3};
    cero_manifest_make_id(s->manifest.id);
}

static const cero_manifest_section sections[] = {
    {"engine", "{\"step\": 120,\n \"of\": [1, {}]}"},
    {"train", "{}"},
};

static cero_text write_sample(void)
{
    sample s;
    cero_text text = {0};

    fill_sample(&s);
    assert_ok(cero_manifest_write(&s.manifest, sections, 2, &text));
    return text;
}

static void expect_equal(const cero_manifest *a, const cero_manifest *b)
{
    assert_string_equal(a->id, b->id);
    assert_string_equal(a->run, b->run);
    assert_int_equal(a->step, b->step);
    assert_int_equal(a->block_nbytes, b->block_nbytes);
    assert_memory_equal(&a->mesh, &b->mesh, sizeof(a->mesh));
    assert_int_equal(a->file_count, b->file_count);
    assert_int_equal(a->tensor_count, b->tensor_count);
    for (int64_t i = 0; i < a->file_count; i++) {
        assert_string_equal(a->files[i].name, b->files[i].name);
        assert_int_equal(a->files[i].nbytes, b->files[i].nbytes);
        assert_int_equal(a->files[i].header_nbytes, b->files[i].header_nbytes);
        assert_int_equal(a->files[i].header_hash, b->files[i].header_hash);
    }
    for (int64_t i = 0; i < a->tensor_count; i++) {
        const cero_manifest_tensor *t = &a->tensors[i];
        const cero_manifest_tensor *u = &b->tensors[i];
        assert_string_equal(t->name, u->name);
        assert_int_equal(t->dtype, u->dtype);
        assert_true(cero_shape_equal(&t->shape, &u->shape));
        assert_int_equal(t->numel, u->numel);
        assert_int_equal(t->range_count, u->range_count);
        for (int64_t r = 0; r < t->range_count; r++) {
            const cero_manifest_range *x = &t->ranges[r];
            const cero_manifest_range *y = &u->ranges[r];
            assert_true(x->file == y->file && x->offset == y->offset && x->begin == y->begin &&
                        x->end == y->end);
            assert_memory_equal(x->hashes, y->hashes,
                                (size_t)cero_manifest_block_count(a, t, x) * 8);
        }
    }
}

static void test_round_trip(void **state)
{
    CERO_UNUSED(state);
    sample s;
    cero_text text = {0};
    cero_text again = {0};
    cero_manifest m;

    fill_sample(&s);
    assert_ok(cero_manifest_write(&s.manifest, sections, 2, &text));
    assert_ok(cero_manifest_parse("m", text.data, text.length, &m));
    expect_equal(&s.manifest, &m);
    assert_int_equal(cero_manifest_find(&m, "a.bias"), 1);
    assert_int_equal(cero_manifest_find(&m, "none"), 2);
    assert_int_equal(cero_manifest_find(&m, "wte \"quoted\""), 0);
    assert_int_equal(cero_manifest_find(&m, "a.bia"), -1);
    const cero_json *step = cero_json_find(cero_manifest_section_find(&m, "engine"), "step");
    assert_non_null(step);
    assert_string_equal(step->text, "120");
    assert_non_null(cero_manifest_section_find(&m, "train"));
    assert_null(cero_manifest_section_find(&m, "config"));
    assert_null(cero_manifest_section_find(&m, "mesh"));
    // Nothing else is in it: written again it is the same.
    assert_ok(cero_manifest_write(&m, sections, 2, &again));
    assert_string_equal(text.data, again.data);
    cero_manifest_cleanup(&m);
    cero_manifest_cleanup(&m);
    cero_text_cleanup(&again);
    cero_text_cleanup(&text);
}

static void test_ids(void **state)
{
    CERO_UNUSED(state);
    char id[2][CERO_MANIFEST_ID];

    cero_manifest_make_id(id[0]);
    cero_manifest_make_id(id[1]);
    assert_int_equal(strlen(id[0]), 32);
    assert_true(cero_manifest_is_id(id[0]) && cero_manifest_is_id(id[1]));
    assert_string_not_equal(id[0], id[1]);
}

/* Each must be refused, and nothing may leak or crash. */
static void test_every_bit(void **state)
{
    CERO_UNUSED(state);
    cero_text text = write_sample();
    cero_manifest m;

    for (size_t i = 0; i < text.length; i++) {
        for (int bit = 0; bit < 8; bit++) {
            text.data[i] = (char)(text.data[i] ^ (1 << bit));
            assert_fails(cero_manifest_parse("m", text.data, text.length, &m), CERO_ERR_CORRUPT,
                         "m: ");
            text.data[i] = (char)(text.data[i] ^ (1 << bit));
        }
    }
    assert_ok(cero_manifest_parse("m", text.data, text.length, &m));
    cero_manifest_cleanup(&m);
    cero_text_cleanup(&text);
}

static void test_every_length(void **state)
{
    CERO_UNUSED(state);
    cero_text text = write_sample();
    cero_manifest m;

    for (size_t n = 0; n < text.length; n++) {
        char *part = cero_new(n + 1, 1);
        memcpy(part, text.data, n);
        assert_fails(cero_manifest_parse("m", part, n, &m), CERO_ERR_CORRUPT, "was cut off");
        cero_delete(part);
    }
    cero_text_append(&text, "\n", 1);
    assert_fails(cero_manifest_parse("m", text.data, text.length, &m), CERO_ERR_CORRUPT, "cut off");
    cero_text_cleanup(&text);
}

/* The text with `from` replaced by `to` and the hash that belongs to it. */
static cero_text edit(const char *text, const char *from, const char *to)
{
    char tail[CERO_MANIFEST_TAIL + 1];
    const char *at = strstr(text, from);
    cero_text out = {0};

    if (at == NULL) {
        fail_msg("the manifest has no %s", from);
        return out;
    }
    cero_text_append(&out, text, (size_t)(at - text));
    cero_text_append(&out, to, strlen(to));
    cero_text_append(&out, at + strlen(from), strlen(at + strlen(from)));
    out.length -= CERO_MANIFEST_TAIL;
    cero_text_append(&out, cero_manifest_tail(out.data, out.length, tail), CERO_MANIFEST_TAIL);
    assert_ok(cero_text_finish(&out));
    return out;
}

#define FILE_0  "{\"name\":\"rank-00000.safetensors\",\"nbytes\":128"
#define RANGE_0 "{\"file\":0,\"offset\":64,\"begin\":0,\"end\":10"
#define RANGE_1 "{\"file\":1,\"offset\":64,\"begin\":10,\"end\":12"
#define RANGE_2 "{\"file\":1,\"offset\":72,\"begin\":0,\"end\":10"

static const struct {
    const char *from;
    const char *to;
    const char *message;
} bad[] = {
    {"\"format\":\"cero checkpoint\"", "\"format\":\"zero\"", "this is no manifest"},
    {"\"format\":\"cero checkpoint\",", "", "this is no manifest"},
    {"\"version\":1,", "", "m:1:1: the member \"version\" is missing"},
    {"\"version\":1", "\"version\":0", "m:1:29: version: expected a whole number from 1"},
    {"\"version\":1", "\"version\":\"1\"", "found a string"},
    {"\"version\":1", "\"version\":1e0", "found 1e0"},
    {"\"step\":120", "\"step\":-1", "step: expected a whole number from 0"},
    {"\"step\":120", "\"step\":9223372036854775808", "found 9223372036854775808"},
    {"\"step\":120", "\"step\":1,\"step\":120", "for the second time"},
    {"\"step\":120", "\"step\":120,\"stop\":1", "unknown member \"stop\""},
    {"\"run\":\"" RUN "\"", "\"run\":\"" RUN "0\"", "run: expected 1 to 32 lower-case"},
    {"\"run\":\"" RUN "\"", "\"run\":\"../x\"", "run: expected 1 to 32 lower-case"},
    {"\"run\":\"" RUN "\"", "\"run\":\"\"", "run: expected 1 to 32 lower-case"},
    {"\"run\":\"" RUN "\"", "\"run\":7", "run: expected a string, found a number"},
    {"\"run\":\"" RUN "\",", "", "the member \"run\" is missing"},
    {"\"block_nbytes\":16", "\"block_nbytes\":0", "block_nbytes: expected a whole number from 4"},
    {"\"block_nbytes\":16", "\"block_nbytes\":67108868", "from 4 to 67108864"},
    {"\"block_nbytes\":16", "\"block_nbytes\":18", "multiple of 4, found 18"},
    {"\"block_nbytes\":16", "\"block_nbytes\":12",
     "tensor \"wte \"quoted\"\": 3 hashes for elements 0 to 10, expected 4"},
    {"\"dp\":2", "\"dp\":0", "m:2:24: dp: expected a whole number from 1"},
    {"\"zero_stage\":3", "\"zero_stage\":4", "zero_stage: expected a whole number from 0 to 3"},
    {"\"dp\":2,", "", "mesh: the member \"dp\" is missing"},
    {"\"dp\":2,", "\"dp\":2,\"ep\":1,", "mesh: unknown member \"ep\""},
    {"\"mesh\":{", "\"mesh\":[],\"older\":{", "mesh: expected an object, found a list"},
    {"\"files\":[", "\"files\":{},\"others\":[", "unknown member \"others\""},
    {"rank-00000.safetensors", "../x", "\"../x\" is no name"},
    {"rank-00000.safetensors", "..", "\"..\" is no name"},
    {"rank-00000.safetensors", "a/b", "\"a/b\" is no name"},
    {"rank-00000.safetensors", ".hidden", "\".hidden\" is no name"},
    {"rank-00000.safetensors", "", "\"\" is no name"},
    {"rank-00000.safetensors", "a\\nb", "\"a?b\" is no name"},
    {"rank-00000.safetensors", "manifest.json", "\"manifest.json\" is no name"},
    {"rank-00000.safetensors", "a\\u0000b", "one with the character"},
    {"rank-00000.safetensors", "a-name-of-more-than-31-characters", "no longer than 31"},
    {"rank-00000.safetensors", "rank-00001.safetensors", "rank-00001.safetensors is listed twice"},
    {FILE_0, "{\"name\":\"rank-00000.safetensors\",\"nbytes\":63",
     "header of 64 bytes in a file of 63"},
    {FILE_0, "{\"name\":\"rank-00000.safetensors\",\"nbytes\":99",
     "tensor \"wte \"quoted\"\": elements 0 to 10, 40 bytes at byte 64 of rank-00000.safetensors, "
     "are not between its header, which ends at 64, and its end at 99"},
    {"\"nbytes\":128,", "", "a file: the member \"nbytes\" is missing"},
    {"\"nbytes\":128,", "\"nbytes\":128,\"mode\":1,", "a file: unknown member \"mode\""},
    {"\"header_nbytes\":64", "\"header_nbytes\":68", "which ends at 68"},
    {"\"header_nbytes\":64", "\"header_nbytes\":7", "expected a whole number from 8"},
    {"\"header_xxh3\":\"0", "\"header_xxh3\":\"g", "expected a hash of 16 hexadecimal digits"},
    {"\"header_xxh3\":\"ff", "\"header_xxh3\":\"FF", "expected a hash of 16 hexadecimal digits"},
    {"\"header_xxh3\":\"0", "\"header_xxh3\":\"", "expected a hash of 16 hexadecimal digits"},
    {"\"name\":\"a.bias\"", "\"name\":\"none\"", "tensor \"none\": it is listed twice"},
    {"\"name\":\"a.bias\"", "\"name\":\"\"", "a tensor without a name"},
    {"\"name\":\"a.bias\"", "\"name\":null", "name: expected a string, found null"},
    {"\"dtype\":\"f32\"", "\"dtype\":\"f16\"", "the dtype \"f16\", expected \"f32\""},
    {"\"shape\":[3,4]", "\"shape\":[3,5]", "its ranges end at element 12 of 15"},
    {"\"shape\":[3,4]", "\"shape\":[3,3]", "end: expected a whole number from 0 to 9, found 10"},
    {"\"shape\":[3,4]", "\"shape\":[4294967296,4294967296]", "product is beyond 2^63 - 1"},
    {"\"shape\":[3,4]", "\"shape\":[4611686018427387904]", "more than 2^63 - 1 bytes"},
    {"\"shape\":[3,4]", "\"shape\":[1,1,1,1,1,3,4]", "a shape of 7 dimensions"},
    {"\"shape\":[3,4]", "\"shape\":[3,-4]", "expected a whole number from 0"},
    {"\"shape\":[3,4]", "\"shape\":12", "shape: expected a list, found a number"},
    {"\"shape\":[0,7]", "\"shape\":[1,7]", "tensor \"none\": its ranges end at element 0 of 7"},
    {"\"ranges\":[]", "\"ranges\":[{\"file\":0,\"offset\":64,\"begin\":0,\"end\":0,\"xxh3\":[]}]",
     "a range from element 0 to 0 is empty"},
    {RANGE_0, "{\"file\":2,\"offset\":64,\"begin\":0,\"end\":10", "file 2 of 2"},
    {RANGE_0, "{\"file\":-1,\"offset\":64,\"begin\":0,\"end\":9", "file: expected a whole number"},
    {RANGE_0, "{\"file\":0,\"offset\":63,\"begin\":0,\"end\":10", "40 bytes at byte 63"},
    {RANGE_0, "{\"file\":0,\"offset\":93,\"begin\":0,\"end\":10", "40 bytes at byte 93"},
    {RANGE_0, "{\"file\":0,\"offset\":9223372036854775807,\"begin\":0,\"end\":10",
     "at byte 9223372036854775807"},
    {RANGE_0, "{\"file\":0,\"offset\":64,\"begin\":1,\"end\":10",
     "m:7:64: tensor \"wte \"quoted\"\": a range starts at element 1, expected 0: elements are "
     "missing"},
    {RANGE_0, "{\"file\":0,\"offset\":64,\"begin\":9,\"end\":0", "from element 9 to 0 is empty"},
    {RANGE_1, "{\"file\":1,\"offset\":64,\"begin\":9,\"end\":12",
     "a range starts at element 9, expected 10: elements are stored twice"},
    {RANGE_1, "{\"file\":1,\"offset\":64,\"begin\":11,\"end\":12", "elements are missing"},
    {RANGE_1, "{\"file\":1,\"offset\":64,\"begin\":10,\"end\":11", "end at element 11 of 12"},
    {RANGE_1, "{\"file\":1,\"offset\":68,\"begin\":10,\"end\":12",
     "tensor \"a.bias\": its bytes 72 to 112 of rank-00001.safetensors are also those of tensor "
     "\"wte \"quoted\"\""},
    {RANGE_2, "{\"file\":1,\"offset\":72,\"begin\":0,\"end\":10,\"to\":1", "unknown member \"to\""},
    {RANGE_2, "{\"file\":1,\"begin\":0,\"end\":10", "a range: the member \"offset\" is missing"},
    {"\"train\":{}", "\"train\":[]", "unknown member \"train\"; a section would be an object"},
    {"\"train\":{}", "\"train\":{\"a\":1,\"a\":1}", "for the second time"},
    {"\"train\":{}", "\"train\":{", "m:12:10: expected a key"},
};

static void test_bad_manifests(void **state)
{
    CERO_UNUSED(state);
    cero_text text = write_sample();
    cero_manifest m;

    for (size_t i = 0; i < CERO_COUNT_OF(bad); i++) {
        cero_text edited = edit(text.data, bad[i].from, bad[i].to);
        assert_fails(cero_manifest_parse("m", edited.data, edited.length, &m), CERO_ERR_CORRUPT,
                     bad[i].message);
        cero_text_cleanup(&edited);
    }
    // An edit that means nothing is fine: it is the meaning that is refused above.
    cero_text same = edit(text.data, "\"train\":{}", " \"train\" : {\"unknown\":[1]}");
    assert_ok(cero_manifest_parse("m", same.data, same.length, &m));
    cero_manifest_cleanup(&m);
    cero_text_cleanup(&same);
    cero_text_cleanup(&text);
}

static void test_newer_version(void **state)
{
    CERO_UNUSED(state);
    cero_text text = write_sample();
    cero_manifest m;

    // Even if its members are others.
    cero_text newer = edit(text.data, "\"version\":1,\"id\":", "\"version\":7,\"key\":");
    assert_fails(cero_manifest_parse("dir/m", newer.data, newer.length, &m), CERO_ERR_UNSUPPORTED,
                 "dir/m is of version 7 of the format, this build reads up to version 1");
    cero_text_cleanup(&newer);
    cero_text_cleanup(&text);
}

/* What would not be read again is not written. */
static void test_write_refuses(void **state)
{
    CERO_UNUSED(state);
    sample s;
    cero_text text = {0};
    const cero_manifest_section list = {"a", "[1]"};
    const cero_manifest_section broken = {"a", "{\"b\":}"};
    const cero_manifest_section taken = {"tensors", "{}"};
    const cero_manifest_section twice[] = {{"a", "{}"}, {"a", "{}"}};

    fill_sample(&s);
    assert_fails(cero_manifest_write(&s.manifest, &list, 1, &text), CERO_ERR_INVALID,
                 "the section \"a\" of the manifest is no JSON object");
    assert_fails(cero_manifest_write(&s.manifest, &broken, 1, &text), CERO_ERR_INVALID,
                 "is no JSON: a:1:6: expected a value");
    assert_fails(cero_manifest_write(&s.manifest, &taken, 1, &text), CERO_ERR_INVALID,
                 "cannot be called \"tensors\"");
    assert_fails(cero_manifest_write(&s.manifest, twice, 2, &text), CERO_ERR_INVALID,
                 "would not be read again");
    s.ranges[1].begin = 11;
    assert_fails(cero_manifest_write(&s.manifest, NULL, 0, &text), CERO_ERR_INVALID,
                 "elements are missing");
    s.manifest.block_nbytes = 0;
    assert_fails(cero_manifest_write(&s.manifest, NULL, 0, &text), CERO_ERR_INVALID,
                 "blocks of 0 bytes");
    assert_null(text.data);
}

static void test_no_memory(void **state)
{
    CERO_UNUSED(state);
    cero_text text = write_sample();
    cero_manifest m;
    sample s;
    cero_text out = {0};
    cero_status st = CERO_ERR_NOMEM;
    uint64_t n = 1;

    for (; st == CERO_ERR_NOMEM; n++) {
        cero_mem_fail_at(n);
        st = cero_manifest_parse("m", text.data, text.length, &m);
    }
    cero_mem_fail_at(0);
    assert_ok(st);
    assert_true(n > 10);
    cero_manifest_cleanup(&m);
    fill_sample(&s);
    st = CERO_ERR_NOMEM;
    for (n = 1; st == CERO_ERR_NOMEM; n++) {
        cero_mem_fail_at(n);
        st = cero_manifest_write(&s.manifest, sections, 2, &out);
    }
    cero_mem_fail_at(0);
    assert_ok(st);
    cero_text_cleanup(&out);
    cero_text_cleanup(&text);
}

static void test_read(void **state)
{
    CERO_UNUSED(state);
    char dir[64];
    cero_manifest m;
    cero_text text = write_sample();

    files_make_dir(dir, sizeof(dir));
    assert_fails(cero_manifest_read(dir, &m), CERO_ERR_IO, "manifest.json");
    files_write(files_in(dir, "other"), text.data, text.length);
    assert_int_equal(symlink("other", files_in(dir, CERO_MANIFEST_NAME)), 0);
    assert_fails(cero_manifest_read(dir, &m), CERO_ERR_CORRUPT, "is a symbolic link");
    assert_int_equal(rename(files_in(dir, "other"), files_in(dir, CERO_MANIFEST_NAME)), 0);
    assert_ok(cero_manifest_read(dir, &m));
    assert_int_equal(m.step, 120);
    cero_manifest_cleanup(&m);
    cero_text_cleanup(&text);
    files_remove(dir);
}

/* A million hashes: what a hundred billion parameters take. */
static void test_large(void **state)
{
    CERO_UNUSED(state);
    enum {
        TENSORS = 20000,
        HASHES = 50
    };
    uint64_t hashes[HASHES] = {0};
    cero_manifest_tensor *tensors = cero_new(TENSORS, sizeof(*tensors));
    cero_manifest_range *ranges = cero_new(TENSORS, sizeof(*ranges));
    char(*names)[32] = cero_new(TENSORS, sizeof(*names));
    cero_manifest_file file = {"data", 8 + (int64_t)TENSORS * HASHES * 16, 8, 0};
    cero_text text = {0};
    cero_manifest m;
    sample s;

    assert_true(tensors != NULL && ranges != NULL && names != NULL);
    fill_sample(&s);
    for (int64_t i = 0; i < TENSORS; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "layer.%lld", (long long)i);
        ranges[i] = (cero_manifest_range){0, 8 + i * HASHES * 16, 0, HASHES * 4, hashes};
        tensors[i] = (cero_manifest_tensor){names[i],   CERO_DTYPE_F32, {1, {HASHES * 4}},
                                            HASHES * 4, &ranges[i],     1};
    }
    s.manifest.files = &file;
    s.manifest.file_count = 1;
    s.manifest.tensors = tensors;
    s.manifest.tensor_count = TENSORS;
    assert_ok(cero_manifest_write(&s.manifest, NULL, 0, &text));
    assert_ok(cero_manifest_parse("m", text.data, text.length, &m));
    assert_int_equal(m.tensor_count, TENSORS);
    assert_int_equal(cero_manifest_find(&m, "layer.19999"), 19999);
    cero_manifest_cleanup(&m);
    cero_text_cleanup(&text);
    cero_delete(tensors);
    cero_delete(ranges);
    cero_delete(names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),    cmocka_unit_test(test_ids),
        cmocka_unit_test(test_every_bit),     cmocka_unit_test(test_every_length),
        cmocka_unit_test(test_bad_manifests), cmocka_unit_test(test_newer_version),
        cmocka_unit_test(test_write_refuses), cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_read),          cmocka_unit_test(test_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
