/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a run is comes back from its checkpoint as it was, or is refused with the key; what a run that goes on has
 * changed is named with both values.
 */
#include "harness.h"

#include "train/checkpoint/run_state.h"

#include <math.h>
#include <stdlib.h>

/* A manifest that has these sections and nothing else, as it would be read from a file. */
static cero_status parse(const cero_manifest_section *sections, int count, cero_manifest *out)
{
    cero_manifest manifest = {.step = 120, .block_nbytes = CERO_MANIFEST_BLOCK};
    cero_text text = {0};

    cero_manifest_make_id(manifest.id);
    cero_manifest_make_id(manifest.run);
    manifest.mesh = (cero_manifest_mesh){1, 1, 1, 1, 1, 0};
    cero_status st = cero_manifest_write(&manifest, sections, count, &text);
    st = st == CERO_OK ? cero_manifest_parse("manifest.json", text.data, text.length, out) : st;
    cero_text_cleanup(&text);
    return st;
}

static const cero_run_state known = {
    .samples = 1440,
    .tokens = 9007199254740993,
    .position = 1441,
    .epoch = 2,
    .steps = 500,
    .eval_loss = 1.0 / 3,
    .data = {.order = CERO_SAMPLER_SEQUENTIAL,
             .seed = UINT64_MAX,
             .seq_len = 32,
             .token_count = INT64_MAX,
             .token_hash = 0x0123456789abcdef},
};

static void test_round_trip(void **state)
{
    cero_text text = {0};
    cero_manifest manifest;
    cero_run_state found;
    (void)state;

    assert_ok(cero_run_state_write(&known, &text));
    assert_ok(parse(&(cero_manifest_section){"train", text.data}, 1, &manifest));
    assert_ok(cero_run_state_read(&manifest, &found));
    assert_true(found.samples == known.samples && found.tokens == known.tokens);
    assert_true(found.position == known.position && found.epoch == known.epoch);
    assert_true(found.steps == known.steps && found.eval_loss == known.eval_loss);
    assert_true(found.data.order == known.data.order && found.data.seed == known.data.seed);
    assert_true(found.data.seq_len == known.data.seq_len);
    assert_true(found.data.token_count == known.data.token_count);
    assert_true(found.data.token_hash == known.data.token_hash);
    assert_ok(cero_run_state_check_data(&found.data, &known.data));
    cero_manifest_cleanup(&manifest);
    // An evaluation that never was.
    cero_run_state unknown = known;
    unknown.eval_loss = (double)NAN;
    text.length = 0;
    assert_ok(cero_run_state_write(&unknown, &text));
    assert_ok(parse(&(cero_manifest_section){"train", text.data}, 1, &manifest));
    assert_ok(cero_run_state_read(&manifest, &found));
    assert_true(isnan(found.eval_loss));
    cero_manifest_cleanup(&manifest);
    cero_text_cleanup(&text);
}

/* Each key is missing, of another type, negative or too large once. */
static void test_broken_sections(void **state)
{
    static const struct {
        const char *json;
        const char *key;
    } cases[] = {
        {"{}", "samples"},
        {"{\"samples\":-1}", "samples"},
        {"{\"samples\":1.5}", "samples"},
        {"{\"samples\":\"1\"}", "samples"},
        {"{\"samples\":1}", "tokens"},
        {"{\"samples\":1,\"tokens\":2}", "steps"},
        {"{\"samples\":1,\"tokens\":2,\"steps\":3}", "sampler"},
        {"{\"samples\":1,\"tokens\":2,\"steps\":3,\"sampler\":[]}", "sampler"},
        {"{\"samples\":1,\"tokens\":2,\"steps\":3,\"sampler\":{}}", "position"},
        {"{\"samples\":1,\"tokens\":2,\"steps\":3,\"sampler\":{\"position\":1,\"epoch\":0,"
         "\"seq_len\":1,\"token_count\":9,\"seed\":18446744073709551616}}",
         "seed"},
        {"{\"samples\":1,\"tokens\":2,\"steps\":3,\"sampler\":{\"position\":1,\"epoch\":0,"
         "\"seq_len\":1,\"token_count\":9,\"seed\":1,\"token_hash\":\"xyz\"}}",
         "token_hash"},
        {"{\"samples\":1,\"tokens\":2,\"steps\":3,\"sampler\":{\"position\":1,\"epoch\":0,"
         "\"seq_len\":1,\"token_count\":9,\"seed\":1,\"token_hash\":\"ab\",\"order\":\"random\"}}",
         "order"},
    };
    cero_manifest manifest;
    cero_run_state found;
    (void)state;

    for (size_t i = 0; i < CERO_COUNT_OF(cases); i++) {
        assert_ok(parse(&(cero_manifest_section){"train", cases[i].json}, 1, &manifest));
        assert_fails(cero_run_state_read(&manifest, &found), CERO_ERR_CORRUPT, cases[i].key);
        cero_manifest_cleanup(&manifest);
    }
    assert_ok(parse(NULL, 0, &manifest));
    assert_fails(cero_run_state_read(&manifest, &found), CERO_ERR_INVALID, "--init-from");
    cero_manifest_cleanup(&manifest);
}

static void test_other_data(void **state)
{
    cero_run_data now = known.data;
    (void)state;

    now.token_hash++;
    assert_fails(cero_run_state_check_data(&known.data, &now), CERO_ERR_INVALID,
                 "hash 0123456789abcdef, now 0123456789abcdf0");
    now.token_count = 7;
    now.seq_len = 16;
    now.order = CERO_SAMPLER_SHUFFLED;
    now.seed = 3;
    assert_fails(cero_run_state_check_data(&known.data, &now), CERO_ERR_INVALID,
                 "the data were 9223372036854775807 tokens, now 7; the sequence length was 32, now "
                 "16; the order was sequential, now shuffled; cero.seed was 18446744073709551615, "
                 "now 3; --resume-without data");
}

static cero_train_config *make_config(const char *const *sets, int count)
{
    cero_train_config *config = NULL;

    assert_ok(cero_train_config_create(
        &(cero_train_config_params){.overrides = sets, .override_count = count}, &config));
    return config;
}

static void test_changes(void **state)
{
    static const char *const before[] = {"train_batch_size=8"};
    static const char *const now[] = {"train_batch_size=16", "optimizer.params.lr=0.5",
                                      "steps_per_print=3", "tensorboard.enabled=true"};
    static const char *const lion[] = {"train_batch_size=8", "optimizer.type=Lion"};
    cero_train_config *old = make_config(before, 1);
    cero_train_config *changed = make_config(now, 4);
    cero_train_config *other = make_config(lion, 2);
    cero_text text = {0};
    cero_text changes = {0};
    cero_manifest manifest;
    (void)state;

    assert_ok(cero_train_config_write_json(old, &text));
    assert_ok(parse(&(cero_manifest_section){"config", text.data}, 1, &manifest));
    assert_ok(cero_run_state_write_changes(&manifest, old, &changes));
    assert_int_equal(changes.length, 0);
    assert_ok(cero_run_state_write_changes(&manifest, changed, &changes));
    assert_string_equal(changes.data, "resume: train_batch_size was 8, now 16\n"
                                      "resume: train_micro_batch_size_per_gpu was 8, now 16\n"
                                      "resume: optimizer.params.lr was 0.001, now 0.5\n");
    assert_ok(cero_run_state_check_optimizer(&manifest, changed));
    assert_fails(cero_run_state_check_optimizer(&manifest, other), CERO_ERR_INVALID,
                 "the optimizer was \"AdamW\", now \"Lion\"");
    // A key that only one of them has.
    changes.length = 0;
    assert_ok(cero_run_state_write_changes(&manifest, other, &changes));
    assert_non_null(strstr(changes.data, "resume: optimizer.params.eps was 1e-08, now unset\n"));
    cero_manifest_cleanup(&manifest);
    cero_text_cleanup(&changes);
    cero_text_cleanup(&text);
    cero_train_config_destroy(&old);
    cero_train_config_destroy(&changed);
    cero_train_config_destroy(&other);
}

static void test_line(void **state)
{
    static const char line[] =
        "{\"step\":120,\"loss\":0.10000000000000001,\"applied\":118,\"skipped\":2,"
        "\"grad_norm\":null,\"seconds\":{\"save\":0}}";
    cero_text text = {0};
    cero_manifest manifest;
    int64_t applied = -1;
    int64_t skipped = -1;
    (void)state;

    assert_ok(parse(&(cero_manifest_section){"metrics", line}, 1, &manifest));
    assert_ok(cero_run_state_write_line(&manifest, &text));
    // Digit by digit, and with what is known since.
    assert_memory_equal(text.data, line, sizeof(line) - 2);
    assert_string_equal(text.data + sizeof(line) - 2, ",\"saved_step\":120}");
    cero_run_state_find_counts(&manifest, &applied, &skipped);
    assert_true(applied == 118 && skipped == 2);
    cero_manifest_cleanup(&manifest);
    text.length = 0;
    assert_ok(parse(NULL, 0, &manifest));
    assert_ok(cero_run_state_write_line(&manifest, &text));
    assert_int_equal(text.length, 0);
    cero_run_state_find_counts(&manifest, &applied, &skipped);
    assert_true(applied == 0 && skipped == 0);
    cero_manifest_cleanup(&manifest);
    cero_text_cleanup(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_broken_sections),
        cmocka_unit_test(test_other_data), cmocka_unit_test(test_changes),
        cmocka_unit_test(test_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
