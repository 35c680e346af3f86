/* SPDX-License-Identifier: Apache-2.0 */
/* Every flag of train, generate and plan reaches the field of its name, and defaults are what is said. */
#include "harness.h"

#include "cli/run_options.h"

static void parse(const cero_option *options, int argc, char *const *argv, void *values)
{
    cero_args_table table = {.options = options};

    assert_ok(cero_args_parse(&table, argc, argv, values, NULL));
    assert_ok(cero_args_check(&table, values));
}

#define PARSE(options, values, ...)                                   \
    do {                                                              \
        char *argv_[] = {__VA_ARGS__};                                \
        parse((options), (int)CERO_COUNT_OF(argv_), argv_, (values)); \
    } while (0)

#define W(text) ((char[]){text})

static void test_train(void **state)
{
    cero_train_options v = {0};
    cero_args_table table = {.options = cero_train_option_table};
    (void)state;

    cero_train_options_set_defaults(&v);
    assert_int_equal(v.seed, -1);
    assert_int_equal(v.order, CERO_CLI_ORDER_SHUFFLED);
    PARSE(cero_train_option_table, &v, W("--config"), W("c.json"), W("--model=gpt2"), W("--data"),
          W("a"), W("b"), W("--out"), W("o"), W("--steps"), W("7"), W("--seq-len"), W("32"),
          W("--order"), W("sequential"), W("--seed"), W("5"), W("--no-weights"), W("--eval-data"),
          W("e"), W("--eval-every"), W("4"), W("--set"), W("x=1"), W("--set"), W("y=2"),
          W("--tokenizer"), W("t"), W("--threads"), W("2"), W("--no-eod"), W("--no-special"),
          W("--print-config"));
    assert_string_equal(v.config, "c.json");
    assert_string_equal(v.model, "gpt2");
    assert_string_equal(v.out, "o");
    assert_string_equal(v.tokenizer, "t");
    assert_int_equal(v.data.count, 2);
    assert_int_equal(v.eval_data.count, 1);
    assert_int_equal(v.set.count, 2);
    assert_true(v.steps == 7 && v.seq_len == 32 && v.seed == 5);
    assert_true(v.eval_every == 4 && v.threads == 2);
    assert_int_equal(v.order, CERO_CLI_ORDER_SEQUENTIAL);
    assert_true(v.no_eod && v.no_special && v.no_weights && v.print_config);
    cero_args_cleanup(&table, &v);
}

static void test_generate(void **state)
{
    cero_generate_options v = {0};
    (void)state;

    cero_generate_options_set_defaults(&v);
    assert_true(v.max_tokens == 100 && v.temperature == 1 && v.top_k == 0 && v.top_p == 1);
    PARSE(cero_generate_option_table, &v, W("--model"), W("m"), W("--prompt"), W(""),
          W("--max-tokens"), W("9"), W("--temperature"), W("0"), W("--top-k"), W("5"), W("--top-p"),
          W("0.9"), W("--seed"), W("3"), W("--threads"), W("1"), W("--tokenizer"), W("t"),
          W("--no-special"), W("--json"));
    assert_string_equal(v.prompt, "");
    assert_true(v.max_tokens == 9 && v.temperature == 0 && v.top_k == 5 && v.top_p == 0.9);
    assert_true(v.seed == 3 && v.threads == 1 && v.no_special && v.json);
    assert_string_equal(v.model, "m");
    assert_string_equal(v.tokenizer, "t");
}

static void test_plan(void **state)
{
    cero_plan_options v = {0};
    cero_args_table table = {.options = cero_plan_option_table};
    (void)state;

    PARSE(cero_plan_option_table, &v, W("--model"), W("m"), W("--config"), W("c"), W("--seq-len"),
          W("128"), W("--set"), W("a=b"), W("--eval"), W("--dump"), W("--json"));
    assert_true(v.seq_len == 128 && v.eval && v.dump && v.json);
    assert_int_equal(v.set.count, 1);
    cero_args_cleanup(&table, &v);
}

static void test_what_is_required(void **state)
{
    static const struct {
        const cero_option *options;
        const char *name;
    } cases[] = {
        {cero_train_option_table, "--config FILE is missing"},
        {cero_generate_option_table, "--model DIR is missing"},
        {cero_plan_option_table, "--model DIR|NAME is missing"},
    };
    (void)state;

    for (size_t i = 0; i < CERO_COUNT_OF(cases); i++) {
        cero_args_table table = {.options = cases[i].options};
        max_align_t values[32] = {{0}};
        assert_fails(cero_args_check(&table, values), CERO_ERR_INVALID, cases[i].name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_train),
        cmocka_unit_test(test_generate),
        cmocka_unit_test(test_plan),
        cmocka_unit_test(test_what_is_required),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
