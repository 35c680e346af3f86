/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a profile counts every run of every instruction, and its shares add up to the whole. */
#include "cases.h"

enum {
    SEQ = 32,
    RUNS = 3
};

/* The line of an op: calls, share in percent. */
static void read_line(const char *table, const char *op, long *calls, double *share)
{
    char key[64];

    (void)snprintf(key, sizeof(key), "\n%s ", op);
    const char *line = strstr(table, key);
    assert_non_null(line);
    double seconds = 0;
    assert_int_equal(sscanf(line + strlen(key), "%ld %lf %lf%%", calls, &seconds, share), 3);
    assert_true(seconds >= 0);
}

static void test_calls(void **state)
{
    static case_batch batch;
    case_world w;
    cero_model_spec spec = case_g1();
    cero_engine *engine = NULL;
    cero_text table = {0};
    long calls = 0;
    double share = 0;
    double total = 0;

    CERO_UNUSED(state);
    case_open(&w, 1, (const char *const[]){"train_batch_size=2", NULL});
    assert_ok(case_engine(&w, &spec, SEQ, &engine));
    const cero_batch *b = case_batch_fill(&batch, 0, 2, SEQ, spec.vocab_size);
    cero_step_stats stats;
    assert_ok(cero_engine_train_batch(engine, b, &stats)); // before profiling: not counted
    assert_ok(cero_engine_profile_begin(engine));
    for (int i = 0; i < RUNS; i++) {
        assert_ok(cero_engine_train_batch(engine, b, &stats));
    }
    assert_ok(cero_engine_profile_write(engine, &table));

    read_line(table.data, "linear", &calls, &share);
    assert_int_equal(calls, RUNS * 4 * spec.layers);
    read_line(table.data, "linear_grad_weight", &calls, &share);
    assert_int_equal(calls, RUNS * 4 * spec.layers);
    read_line(table.data, "head_loss_train", &calls, &share);
    assert_int_equal(calls, RUNS);
    for (const char *p = strchr(table.data, '%'); p != NULL; p = strchr(p + 1, '%')) {
        const char *from = p;
        while (from > table.data && from[-1] != ' ') {
            from--;
        }
        total += strtod(from, NULL);
    }
    assert_true(total > 99 && total < 101);
    cero_text_cleanup(&table);
    cero_engine_destroy(&engine);
    case_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_calls)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
