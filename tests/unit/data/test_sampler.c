/* Samples are cut and ordered as documented: a permutation of every epoch, by position alone. */
#include "harness.h"

#include "base/file.h"
#include "data/sampler.h"

#include <unistd.h>

static const char path[] = "/tmp/cero-sampler-test.u16";

static cero_token_stream *open_tokens(int64_t count)
{
    const char *const paths[] = {path};
    cero_token_writer *writer = NULL;
    cero_token_stream *stream = NULL;
    assert_ok(cero_token_writer_open(path, CERO_TOKENS_U16, 65536, &writer));
    for (int64_t i = 0; i < count; i++) {
        int32_t id = (int32_t)(i % 65536);
        assert_ok(cero_token_writer_add(writer, &id, 1));
    }
    assert_ok(cero_token_writer_commit(writer));
    cero_token_writer_close(&writer);
    assert_ok(cero_token_stream_open(
        &(cero_token_stream_params){.path = paths, .path_count = 1, .vocab_size = 65536}, &stream));
    (void)unlink(path);
    return stream;
}

static void test_bijection(void **state)
{
    CERO_UNUSED(state);
    static const int64_t sizes[] = {1,  2,  3,  4,   5,   7,   8,    15,   16,   17,   63,
                                    64, 65, 99, 256, 257, 999, 1000, 4096, 4097, 10007};
    static unsigned char seen[10007];
    for (size_t s = 0; s < CERO_COUNT_OF(sizes); s++) {
        for (int64_t epoch = 0; epoch < 3; epoch++) {
            memset(seen, 0, sizeof(seen));
            for (int64_t x = 0; x < sizes[s]; x++) {
                int64_t y = cero_sampler_permute(x, sizes[s], 42, epoch);
                assert_true(y >= 0 && y < sizes[s]);
                assert_int_equal(seen[y]++, 0);
            }
        }
    }
    // The largest sizes stay inside, and near inputs do not stay near.
    static const int64_t large[] = {INT64_C(1) << 40, INT64_MAX / 2, INT64_MAX};
    for (size_t s = 0; s < CERO_COUNT_OF(large); s++) {
        int64_t a = cero_sampler_permute(0, large[s], 1, 0);
        int64_t b = cero_sampler_permute(1, large[s], 1, 0);
        assert_true(a >= 0 && a < large[s] && b >= 0 && b < large[s] && a != b);
    }
}

/* Shuffled looks random: of 1000 places, neighbours differ by a third of the size on average. */
static void test_spread(void **state)
{
    CERO_UNUSED(state);
    int64_t n = 1000;
    double sum = 0.0;
    int64_t same = 0;
    for (int64_t x = 0; x + 1 < n; x++) {
        int64_t a = cero_sampler_permute(x, n, 7, 0);
        int64_t b = cero_sampler_permute(x + 1, n, 7, 0);
        sum += (double)(a > b ? a - b : b - a);
        same += a == cero_sampler_permute(x, n, 7, 1);
        same += a == cero_sampler_permute(x, n, 8, 0);
    }
    assert_true(sum / 999.0 > 300.0 && sum / 999.0 < 367.0);
    assert_true(same < 15); // about 2 are expected: epochs and seeds are unrelated
}

/* Fixed for ever: checkpoints hold positions. */
static void test_golden(void **state)
{
    CERO_UNUSED(state);
    int64_t seen[8];
    for (int64_t x = 0; x < 8; x++) {
        seen[x] = cero_sampler_permute(x, 100, 1234, 5);
    }
    static const int64_t golden[8] = {42, 64, 74, 78, 18, 11, 73, 17};
    for (int i = 0; i < 8; i++) {
        assert_int_equal(seen[i], golden[i]);
    }
}

static void test_windows(void **state)
{
    CERO_UNUSED(state);
    cero_token_stream *stream = open_tokens(103);
    cero_sampler *sampler = NULL;
    int32_t inputs[10];
    int32_t targets[10];
    assert_ok(cero_sampler_create(
        stream, &(cero_sampler_params){.seq_len = 10, .order = CERO_SAMPLER_SEQUENTIAL}, &sampler));
    assert_int_equal(cero_sampler_count(sampler), 10);
    assert_int_equal(cero_sampler_unused_tokens(sampler), 2);
    for (int64_t index = 0; index < 23; index++) {
        assert_ok(cero_sampler_get(sampler, index, inputs, targets));
        for (int i = 0; i < 10; i++) {
            assert_int_equal(inputs[i], index % 10 * 10 + i);
            assert_int_equal(targets[i], inputs[i] + 1); // shifted once (DA-08)
        }
    }
    uint64_t calls = cero_mem_calls();
    assert_ok(cero_sampler_get(sampler, 5, inputs, targets));
    assert_true(cero_mem_calls() == calls);
    assert_fails(cero_sampler_get(sampler, -1, inputs, targets), CERO_ERR_INVALID, "-1");
    cero_sampler_destroy(&sampler);
    cero_token_stream_close(&stream);
}

/* The last sample needs its last target: T n + 1 tokens make n samples, one less makes n - 1. */
static void test_boundaries(void **state)
{
    CERO_UNUSED(state);
    for (int64_t count = 9; count <= 26; count++) {
        cero_token_stream *stream = open_tokens(count);
        cero_sampler *sampler = NULL;
        assert_ok(cero_sampler_create(stream, &(cero_sampler_params){.seq_len = 8}, &sampler));
        assert_int_equal(cero_sampler_count(sampler), (count - 1) / 8);
        assert_int_equal(cero_sampler_unused_tokens(sampler), (count - 1) % 8);
        cero_sampler_destroy(&sampler);
        cero_token_stream_close(&stream);
    }
}

/* DA-04 */
static void test_too_short(void **state)
{
    CERO_UNUSED(state);
    cero_token_stream *stream = open_tokens(20);
    cero_sampler *sampler = NULL;
    assert_fails(cero_sampler_create(stream, &(cero_sampler_params){.seq_len = 32}, &sampler),
                 CERO_ERR_INVALID, "20 tokens found, 33 needed");
    assert_fails(cero_sampler_create(stream, &(cero_sampler_params){0}, &sampler), CERO_ERR_INVALID,
                 "sequence length is 0");
    cero_token_stream_close(&stream);
}

/*
 * DA-09, AC-08, HA-03: with W ranks, micro-batch mb and any number of samples, the positions k of an
 * epoch give each sample exactly once, whoever takes which, and no rank runs out before another.
 */
static void test_ranks(void **state)
{
    CERO_UNUSED(state);
    static const int64_t sizes[] = {1000, 7, 11, 12};
    for (size_t s = 0; s < CERO_COUNT_OF(sizes); s++) {
        int64_t n = sizes[s];
        cero_token_stream *stream = open_tokens(4 * n + 1);
        cero_sampler *sampler = NULL;
        int seen[1000] = {0};
        assert_ok(
            cero_sampler_create(stream, &(cero_sampler_params){.seq_len = 4, .seed = 3}, &sampler));
        assert_int_equal(cero_sampler_count(sampler), n);
        int64_t world = 4;
        // Two epochs; each rank has a sampler of its own in life, which gives the same answers.
        for (int64_t index = 0; index < 2 * n; index++) {
            int64_t rank = index % world;
            int64_t round = index / world;
            int64_t epoch;
            int64_t sample;
            int64_t again;
            cero_sampler_locate(sampler, round * world + rank, &epoch, &sample);
            cero_sampler_locate(sampler, index, &epoch, &again);
            assert_int_equal(sample, again);
            assert_int_equal(epoch, index / n);
            assert_int_equal(seen[sample]++, epoch);
        }
        cero_sampler_destroy(&sampler);
        cero_token_stream_close(&stream);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bijection),  cmocka_unit_test(test_spread),
        cmocka_unit_test(test_golden),     cmocka_unit_test(test_windows),
        cmocka_unit_test(test_boundaries), cmocka_unit_test(test_too_short),
        cmocka_unit_test(test_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
