/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines mean what their tables say, and a wrong one is refused with the word that is wrong. */
#include "harness.h"

#include "cli/args.h"

typedef struct values {
    bool json;
    const char *out;
    int64_t steps;
    double rate;
    int order;
    cero_words set;
    cero_words data;
    cero_words files;
    bool verbose;
} values;

static const cero_option options[] = {
    {.name = "json", .letter = 'j', .kind = CERO_OPTION_FLAG, .offset = offsetof(values, json)},
    {.name = "out",
     .letter = 'o',
     .is_required = true,
     .kind = CERO_OPTION_TEXT,
     .offset = offsetof(values, out),
     .value = "DIR",
     .help = "where"},
    {.name = "steps",
     .kind = CERO_OPTION_INT,
     .offset = offsetof(values, steps),
     .value = "N",
     .min = 1,
     .max = 1000},
    {.name = "rate", .kind = CERO_OPTION_REAL, .offset = offsetof(values, rate), .value = "X"},
    {.name = "order",
     .kind = CERO_OPTION_CHOICE,
     .offset = offsetof(values, order),
     .value = "O",
     .choices = "shuffled|sequential"},
    {.name = "set", .kind = CERO_OPTION_LIST, .offset = offsetof(values, set), .value = "K=V"},
    {.name = "data", .kind = CERO_OPTION_WORDS, .offset = offsetof(values, data), .value = "P…"},
    {0},
};

static const cero_option common[] = {
    {.name = "verbose",
     .letter = 'v',
     .kind = CERO_OPTION_FLAG,
     .offset = offsetof(values, verbose)},
    {0},
};

static const cero_args_table table = {
    .options = options,
    .common = common,
    .operands = {.name = "FILE", .min = 1, .max = 3, .offset = offsetof(values, files)},
};

enum {
    MAX_WORDS = 16
};

/* Parses words separated by spaces; `line` is cut in place. */
static cero_status parse(char *line, values *v)
{
    char *argv[MAX_WORDS];
    int argc = 0;

    for (char *word = strtok(line, " "); word != NULL; word = strtok(NULL, " ")) {
        assert_true(argc < MAX_WORDS);
        argv[argc++] = word;
    }
    *v = (values){0};
    return cero_args_parse(&table, argc, argv, v, v);
}

static void test_good_lines(void **state)
{
    values v;
    char line[] =
        "a -jv --set x=1 --steps=12 --data p q --set=y=2 --rate -2.5e-3 --order sequential "
        "-oDIR b";
    (void)state;

    assert_ok(parse(line, &v));
    assert_true(v.json && v.verbose);
    assert_string_equal(v.out, "DIR");
    assert_int_equal(v.steps, 12);
    assert_true(v.rate == -2.5e-3);
    assert_int_equal(v.order, 1);
    assert_int_equal(v.set.count, 2);
    assert_string_equal(v.set.word[0], "x=1");
    assert_string_equal(v.set.word[1], "y=2");
    assert_int_equal(v.data.count, 2);
    assert_string_equal(v.data.word[1], "q");
    assert_int_equal(v.files.count, 2);
    assert_string_equal(v.files.word[1], "b");
    assert_ok(cero_args_check(&table, &v));
    cero_args_cleanup(&table, &v);
}

static void test_operands_after_two_dashes(void **state)
{
    values v;
    char line[] = "--data p -- --steps -x -";
    (void)state;

    assert_ok(parse(line, &v));
    assert_int_equal(v.data.count, 1);
    assert_int_equal(v.files.count, 3);
    assert_string_equal(v.files.word[0], "--steps");
    assert_string_equal(v.files.word[2], "-");
    cero_args_cleanup(&table, &v);
}

static void test_bad_lines(void **state)
{
    static const struct {
        const char *line;
        const char *text;
    } cases[] = {
        {"--stesp 3", "unknown option --stesp; did you mean --steps?"},
        {"--verbsoe", "did you mean --verbose?"},
        {"--entirely-else", "unknown option --entirely-else; --help lists them"},
        {"-jx", "unknown option -x in '-jx'"},
        {"--steps", "--steps needs a value: --steps N"},
        {"--steps --json", "--steps needs a value"},
        {"--steps 1x", "--steps: '1x' is not a whole number"},
        {"--steps 0", "--steps: 0 is outside 1 … 1000"},
        {"--steps 99999999999999999999", "is outside 1 … 1000"},
        {"--rate nan", "--rate: 'nan' is not a number"},
        {"--rate=", "--rate: '' is not a number"},
        {"--order up", "--order: 'up' is not one of shuffled|sequential"},
        {"--order s", "--order: 's' is not one of"},
        {"--json=1", "--json takes no value, found '1'"},
    };
    (void)state;

    for (size_t i = 0; i < CERO_COUNT_OF(cases); i++) {
        values v;
        char line[128];
        (void)snprintf(line, sizeof(line), "%s", cases[i].line);
        assert_fails(parse(line, &v), CERO_ERR_INVALID, cases[i].text);
        cero_args_cleanup(&table, &v);
    }
}

static void test_what_is_missing_or_too_much(void **state)
{
    values v;
    char none[] = "a";
    char no_file[] = "--out d";
    char many[] = "a b c d --out d";
    (void)state;

    assert_ok(parse(none, &v));
    assert_fails(cero_args_check(&table, &v), CERO_ERR_INVALID, "--out DIR is missing");
    cero_args_cleanup(&table, &v);
    assert_ok(parse(no_file, &v));
    assert_fails(cero_args_check(&table, &v), CERO_ERR_INVALID, "FILE is missing");
    cero_args_cleanup(&table, &v);
    assert_ok(parse(many, &v));
    assert_fails(cero_args_check(&table, &v), CERO_ERR_INVALID, "unexpected word 'd'");
    cero_args_cleanup(&table, &v);
}

static void test_no_operands(void **state)
{
    static const cero_args_table bare = {.options = options, .common = common};
    char word[] = "stray";
    char *argv[] = {word};
    values v = {0};
    (void)state;

    assert_fails(cero_args_parse(&bare, 1, argv, &v, &v), CERO_ERR_INVALID,
                 "unexpected word 'stray'");
    cero_args_cleanup(&bare, &v);
}

static void test_every_failed_allocation(void **state)
{
    (void)state;

    for (uint64_t n = 1; n <= 3; n++) {
        values v;
        char line[] = "a --set x=1 --data p";
        cero_mem_fail_at(n);
        assert_fails(parse(line, &v), CERO_ERR_NOMEM, "command line");
        cero_mem_fail_at(0);
        cero_args_cleanup(&table, &v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_lines),  cmocka_unit_test(test_operands_after_two_dashes),
        cmocka_unit_test(test_bad_lines),   cmocka_unit_test(test_what_is_missing_or_too_much),
        cmocka_unit_test(test_no_operands), cmocka_unit_test(test_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
