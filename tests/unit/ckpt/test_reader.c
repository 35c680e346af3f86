/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reader gives the values that were written, whatever files they lie in and however it is asked, reads every block
 * once, and hands out nothing that is not what the manifest says.
 */
#include "unit/ckpt/checkpoint_dir.h"

#include "ckpt/checkpoint/reader.h"

/* Bytes of the blocks that elements begin .. begin + n touch. */
static int64_t touched(const cero_manifest_tensor *t, int64_t begin, int64_t n)
{
    int64_t nbytes = 0;

    for (int64_t i = 0; i < t->range_count; i++) {
        const cero_manifest_range *r = &t->ranges[i];
        int64_t lo = begin > r->begin ? begin : r->begin;
        int64_t hi = begin + n < r->end ? begin + n : r->end;
        int64_t all = (r->end - r->begin) * 4;
        if (lo < hi) {
            int64_t first = (lo - r->begin) * 4 / BLOCK * BLOCK;
            int64_t last = ((hi - r->begin) * 4 + BLOCK - 1) / BLOCK * BLOCK;
            nbytes += (last < all ? last : all) - first;
        }
    }
    return nbytes;
}

static void check_read(cero_reader *reader, int64_t tensor, int64_t begin, int64_t n)
{
    const cero_manifest_tensor *t = &cero_reader_manifest(reader)->tensors[tensor];
    float values[160];

    values[n] = 1234.5F;
    assert_ok(cero_reader_read(reader, tensor, begin, n, values));
    for (int64_t i = 0; i < n; i++) {
        if (values[i] != checkpoints_value(t->name, begin + i)) {
            fail_msg("%s: element %lld of %lld .. %lld is %g", t->name, (long long)(begin + i),
                     (long long)begin, (long long)(begin + n), (double)values[i]);
        }
    }
    assert_true(values[n] == 1234.5F);
}

static void check_layout(const char *name, const checkpoints_params *p)
{
    const char *path = make(name, p);
    cero_reader *reader = NULL;

    assert_ok(cero_reader_open(path, &reader));
    assert_string_equal(cero_reader_path(reader), path);
    for (int64_t t = 0; t < p->tensor_count; t++) {
        const cero_manifest_tensor *tensor = &cero_reader_manifest(reader)->tensors[t];
        for (int64_t begin = 0; begin < tensor->numel; begin++) {
            for (int64_t n = 0; n <= tensor->numel - begin; n += n < 40 ? 1 : 13) {
                check_read(reader, t, begin, n);
            }
            check_read(reader, t, begin, tensor->numel - begin);
        }
    }
    cero_reader_close(&reader);
    assert_null(reader);
}

static void ranges_are_what_was_written(void **state)
{
    char name[32];

    CERO_UNUSED(state);
    for (int files = 1; files <= 5; files++) {
        for (int cut = 0; cut < 2; cut++) {
            checkpoints_params p = params_of(files, (checkpoints_cut)cut);
            (void)snprintf(name, sizeof(name), "c%d-%d", files, cut);
            check_layout(name, &p);
        }
    }
}

/* On a fresh reader: exactly the blocks that are touched. */
static void blocks_are_counted(void **state)
{
    checkpoints_params p = params_of(3, CHECKPOINTS_TENSORS);
    const char *path = make("c", &p);

    CERO_UNUSED(state);
    for (int64_t begin = 0; begin < 131; begin += 7) {
        for (int64_t n = 1; n <= 131 - begin; n += 5) {
            cero_reader *reader = NULL;
            assert_ok(cero_reader_open(path, &reader));
            int64_t t = cero_manifest_find(cero_reader_manifest(reader), "wte.weight");
            assert_int_equal(cero_reader_bytes_read(reader), 0);
            check_read(reader, t, begin, n);
            assert_int_equal(cero_reader_bytes_read(reader),
                             touched(&cero_reader_manifest(reader)->tensors[t], begin, n));
            cero_reader_close(&reader);
        }
    }
}

/* Small requests one after the other read no byte twice, with and without whole blocks among them. */
static void a_walk_reads_once(void **state)
{
    static const int64_t steps[] = {1, 3, 15, 16, 17, 40, 131};
    checkpoints_params p = params_of(3, CHECKPOINTS_TENSORS);
    const char *path = make("c", &p);

    CERO_UNUSED(state);
    for (size_t k = 0; k < CERO_COUNT_OF(steps); k++) {
        cero_reader *reader = NULL;
        assert_ok(cero_reader_open(path, &reader));
        int64_t t = cero_manifest_find(cero_reader_manifest(reader), "wte.weight");
        for (int64_t at = 0; at < 131; at += steps[k]) {
            check_read(reader, t, at, 131 - at < steps[k] ? 131 - at : steps[k]);
        }
        if (cero_reader_bytes_read(reader) != (int64_t)131 * 4) {
            fail_msg("steps of %lld read %lld bytes", (long long)steps[k],
                     (long long)cero_reader_bytes_read(reader));
        }
        cero_reader_close(&reader);
    }
}

static void default_blocks_and_given_manifests(void **state)
{
    checkpoints_params p = params_of(2, CHECKPOINTS_FLAT);
    cero_reader *reader = NULL;
    char *bytes = NULL;
    size_t length;

    CERO_UNUSED(state);
    p.block_nbytes = 0;
    const char *path = make("c", &p);
    assert_ok(cero_file_read(files_in(path, CERO_MANIFEST_NAME), 0, &bytes, &length));
    assert_ok(cero_reader_open_manifest(path, bytes, length, &reader));
    cero_delete(bytes);
    assert_int_equal(cero_reader_manifest(reader)->block_nbytes, CERO_MANIFEST_BLOCK);
    check_read(reader, cero_manifest_find(cero_reader_manifest(reader), "wte.weight"), 3, 100);
    cero_reader_close(&reader);
    assert_fails(cero_reader_open_manifest(path, "{}", 2, &reader), CERO_ERR_CORRUPT,
                 "c/manifest.json");
    assert_null(reader);
}

static void requests_outside_are_refused(void **state)
{
    checkpoints_params p = params_of(2, CHECKPOINTS_FLAT);
    cero_reader *reader = NULL;
    float values[4];

    CERO_UNUSED(state);
    assert_ok(cero_reader_open(make("c", &p), &reader));
    assert_fails(cero_reader_read(reader, 6, 0, 1, values), CERO_ERR_INVALID, "has 6 tensors");
    assert_fails(cero_reader_read(reader, -1, 0, 1, values), CERO_ERR_INVALID, "has 6 tensors");
    int64_t t = cero_manifest_find(cero_reader_manifest(reader), "wte.weight");
    assert_fails(cero_reader_read(reader, t, 130, 2, values), CERO_ERR_INVALID, "which has 131");
    assert_fails(cero_reader_read(reader, t, -1, 2, values), CERO_ERR_INVALID, "wte.weight");
    assert_fails(cero_reader_read(reader, t, 2, -1, values), CERO_ERR_INVALID, "wte.weight");
    assert_fails(cero_reader_read(reader, t, 2, INT64_MAX, values), CERO_ERR_INVALID, "wte.weight");
    assert_ok(cero_reader_read(reader, t, 131, 0, values));
    assert_fails(cero_reader_check_file(reader, 2), CERO_ERR_INVALID, "has 2 files");
    cero_reader_close(&reader);
}

/* More files than are kept open, in turn and at random. */
static void many_files(void **state)
{
    static const cero_rank_file_tensor tensor = {"t", {.ndim = 1, .dim = {151}}};
    checkpoints_params p = params_of(75, CHECKPOINTS_TENSORS);
    cero_reader *reader = NULL;
    uint64_t x = 1;

    CERO_UNUSED(state);
    p.tensors = &tensor;
    p.tensor_count = 1;
    assert_ok(cero_reader_open(make("c", &p), &reader));
    assert_int_equal(cero_reader_manifest(reader)->file_count, 75);
    for (int i = 0; i < 2000; i++) {
        x = x * 6364136223846793005U + 1442695040888963407U;
        check_read(reader, 0, (int64_t)(x >> 33) % 151, 1);
    }
    check_read(reader, 0, 0, 151);
    assert_ok(cero_reader_verify(reader, NULL, NULL));
    cero_reader_close(&reader);
}

static void flip(const char *path, int64_t bit)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, (long)(bit / 8), SEEK_SET), 0);
    int c = fgetc(f);
    assert_int_equal(fseek(f, (long)(bit / 8), SEEK_SET), 0);
    assert_true(fputc(c ^ (1 << (bit % 8)), f) != EOF);
    assert_int_equal(fclose(f), 0);
}

/* A damaged block is refused by name, place and hashes, in whole and in part; all others are still read. */
static void damage_is_named(void **state)
{
    checkpoints_params p = params_of(3, CHECKPOINTS_TENSORS);
    const char *path = make("c", &p);
    cero_reader *reader = NULL;
    float values[131];
    char expected[256];

    CERO_UNUSED(state);
    assert_ok(cero_reader_open(path, &reader));
    const cero_manifest *m = cero_reader_manifest(reader);
    int64_t t = cero_manifest_find(m, "wte.weight");
    const cero_manifest_range *r = &m->tensors[t].ranges[1];
    int64_t element = r->begin + 20; // in the range's second block: elements 16 .. 32 of it
    flip(files_in(path, "rank-00001.safetensors"), 8 * (r->offset + 4 * 20) + 3);
    (void)snprintf(expected, sizeof(expected),
                   "c/rank-00001.safetensors: tensor \"wte.weight\", elements %lld .. %lld (bytes "
                   "%lld .. %lld of the file): its hash is ",
                   (long long)r->begin + 16, (long long)r->begin + 32, (long long)r->offset + 64,
                   (long long)r->offset + 128);
    assert_fails(cero_reader_read(reader, t, 0, 131, values), CERO_ERR_CORRUPT, expected);
    assert_fails(cero_reader_read(reader, t, element, 1, values), CERO_ERR_CORRUPT, expected);
    assert_fails(cero_reader_read(reader, t, r->begin + 31, 3, values), CERO_ERR_CORRUPT,
                 "the file is damaged: restore it or use another checkpoint");
    check_read(reader, t, 0, r->begin + 16);
    check_read(reader, t, r->begin + 32, 131 - r->begin - 32);
    assert_ok(cero_reader_check_file(reader, 1));
    // Nothing of the refused block was kept.
    flip(files_in(path, "rank-00001.safetensors"), 8 * (r->offset + 4 * 20) + 3);
    check_read(reader, t, element, 1);
    cero_reader_close(&reader);
}

static void disks_may_fail(void **state)
{
    checkpoints_params p = params_of(2, CHECKPOINTS_FLAT);
    const char *path = make("c", &p);
    cero_reader *reader = NULL;
    float value;

    CERO_UNUSED(state);
    assert_ok(cero_reader_open(path, &reader));
    assert_int_equal(setenv("CERO_FAULT", "read:1:EIO", 1), 0);
    assert_fails(cero_reader_read(reader, 0, 0, 1, &value), CERO_ERR_IO, "cannot read ");
    assert_int_equal(setenv("CERO_FAULT", "open:1:EACCES", 1), 0);
    assert_fails(cero_reader_read(reader, 5, 130, 1, &value), CERO_ERR_IO, "Permission denied");
    assert_int_equal(setenv("CERO_FAULT", "read:1:SHORT", 1), 0);
    check_read(reader, 0, 0, 77);
    assert_int_equal(unsetenv("CERO_FAULT"), 0);
    check_read(reader, 5, 130, 1);
    cero_reader_close(&reader);
}

/* The n-th allocation fails: a clean error, and the reader works afterwards. */
static void memory_may_end(void **state)
{
    checkpoints_params p = params_of(2, CHECKPOINTS_FLAT);
    const char *path = make("c", &p);
    bool is_through = false;

    CERO_UNUSED(state);
    for (uint64_t n = 1; !is_through; n++) {
        cero_reader *reader = NULL;
        cero_reader_digest digest;
        float value;
        cero_mem_fail_at(n);
        cero_status st = cero_reader_open(path, &reader);
        st = st != CERO_OK ? st : cero_reader_read(reader, 0, 5, 1, &value);
        st = st != CERO_OK ? st : cero_reader_verify(reader, NULL, NULL);
        st = st != CERO_OK ? st : cero_reader_hash(reader, &digest);
        is_through = st == CERO_OK;
        cero_mem_fail_at(0);
        if (!is_through && st != CERO_ERR_NOMEM) {
            fail_msg("allocation %d: %s", (int)n, cero_error_string());
        }
        if (reader != NULL) {
            check_read(reader, 0, 3, 70);
            assert_ok(cero_reader_verify(reader, NULL, NULL));
        }
        cero_reader_close(&reader);
        assert_true(n < 10000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ranges_are_what_was_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(blocks_are_counted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_walk_reads_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(default_blocks_and_given_manifests, set_up, tear_down),
        cmocka_unit_test_setup_teardown(requests_outside_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damage_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(disks_may_fail, set_up, tear_down),
        cmocka_unit_test_setup_teardown(memory_may_end, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
