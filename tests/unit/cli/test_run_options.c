/* SPDX-License-Identifier: Apache-2.0 */
/* Every flag of train, generate and plan reaches the field of its name, and defaults are what is said. */
#include "harness.h"

#include "cli/run_options.h"

enum {
    MAX_WORDS = 48
};

/* Parses words separated by spaces, "''" being an empty one; `line` is cut in place and viewed. */
static void parse(const cero_option *options, char *line, void *values)
{
    cero_args_table table = {.options = options};
    char *argv[MAX_WORDS];
    int argc = 0;

    for (char *word = strtok(line, " "); word != NULL; word = strtok(NULL, " ")) {
        assert_true(argc < MAX_WORDS);
        argv[argc++] = strcmp(word, "''") == 0 ? word + 2 : word;
    }
    assert_ok(cero_args_parse(&table, argc, argv, values, NULL));
    assert_ok(cero_args_check(&table, values));
}

static void test_train(void **state)
{
    cero_train_options v = {0};
    cero_args_table table = {.options = cero_train_option_table};
    char line[] = "--config c.json --model=gpt2 --data a b --out o --steps 7 --seq-len 32 "
                  "--order sequential --seed 5 --no-weights --eval-data e --eval-every 4 "
                  "--set x=1 --set y=2 --tokenizer t --threads 2 --no-eod --no-special "
                  "--print-config";
    (void)state;

    cero_train_options_set_defaults(&v);
    assert_int_equal(v.seed, -1);
    assert_int_equal(v.order, CERO_CLI_ORDER_SHUFFLED);
    parse(cero_train_option_table, line, &v);
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
    char line[] = "--model m --prompt '' --max-tokens 9 --temperature 0 --top-k 5 --top-p "
                  "0.9 --seed 3 --threads 1 --tokenizer t --no-special --json";
    (void)state;

    cero_generate_options_set_defaults(&v);
    assert_true(v.max_tokens == 100 && v.temperature == 1 && v.top_k == 0 && v.top_p == 1);
    parse(cero_generate_option_table, line, &v);
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
    char line[] = "--model m --config c --seq-len 128 --set a=b --eval --dump --json";
    (void)state;

    parse(cero_plan_option_table, line, &v);
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
