/* SPDX-License-Identifier: Apache-2.0 */
/* Words stay what they are on every way: split, quoted for a shell, in an environment. */
#include "harness.h"

#include "cli/launch/launch.h"

#include <unistd.h>

static void expect_words(const cero_vector *v, const char *const *words)
{
    int64_t n = 0;

    while (words[n] != NULL) {
        assert_true(n < v->count);
        assert_string_equal(v->word[n], words[n]);
        n++;
    }
    assert_int_equal(v->count, n);
    assert_null(v->word[n]);
}

static void test_split(void **state)
{
    static const struct {
        const char *text;
        const char *words[6];
    } cases[] = {
        {"", {NULL}},
        {"  \t\n", {NULL}},
        {"--mca btl self,tcp", {"--mca", "btl", "self,tcp"}},
        {" a  b ", {"a", "b"}},
        {"'a b' \"c d\" e\\ f", {"a b", "c d", "e f"}},
        {"x'y z'\"w\"", {"xy zw"}},
        {"'' \"\"", {"", ""}},
        {"'$HOME `id` \\'", {"$HOME `id` \\"}},
        {"\"\\\"\\$\\a\"", {"\"$\\a"}},
        {"a\\", {"a\\"}},
    };
    (void)state;

    for (size_t i = 0; i < CERO_COUNT_OF(cases); i++) {
        cero_vector v = {0};
        assert_ok(cero_vector_split(&v, cases[i].text));
        assert_ok(cero_vector_finish(&v));
        expect_words(&v, cases[i].words);
        cero_vector_cleanup(&v);
    }
}

static void test_open_quotes(void **state)
{
    static const char *const texts[] = {"'a", "\"a", "a 'b", "\"a\\\""};
    (void)state;

    for (size_t i = 0; i < CERO_COUNT_OF(texts); i++) {
        cero_vector v = {0};
        assert_fails(cero_vector_split(&v, texts[i]), CERO_ERR_INVALID, "a quote stays open in");
        cero_vector_cleanup(&v);
    }
}

static void test_quoted(void **state)
{
    static const struct {
        const char *word;
        const char *quoted;
    } cases[] = {
        {"plain", "plain"},
        {"--host=a:2,b:2", "--host=a:2,b:2"},
        {"", "''"},
        {"a b", "'a b'"},
        {"it's", "'it'\\''s'"},
        {"'", "''\\'''"},
        {"$HOME", "'$HOME'"},
        {"a\nb", "'a\nb'"},
        {"2(x2)", "'2(x2)'"},
        {"*", "'*'"},
        {"~", "'~'"},
        {"#", "'#'"},
        {"\xff", "'\xff'"},
    };
    (void)state;

    for (size_t i = 0; i < CERO_COUNT_OF(cases); i++) {
        cero_text text = {0};
        cero_vector v = {0};
        const char *words[] = {cases[i].word, NULL};
        cero_text_append_quoted(&text, cases[i].word);
        assert_string_equal(text.data, cases[i].quoted);
        assert_ok(cero_vector_split(&v, text.data));
        expect_words(&v, words);
        cero_vector_cleanup(&v);
        cero_text_cleanup(&text);
    }
}

/* Which names go to the ranks. */
static void test_names(void **state)
{
    char *environment[] = {(char *)(uintptr_t) "PATH=/bin",
                           (char *)(uintptr_t) "OMP_PLACES=cores",
                           (char *)(uintptr_t) "CERO_LOG=a=b",
                           (char *)(uintptr_t) "CERO_ODD%%=() { x; }",
                           (char *)(uintptr_t) "SECRET=\n'2(x2)'",
                           (char *)(uintptr_t) "EMPTY=",
                           NULL};
    const char *exported[] = {"SECRET", "EMPTY", "CERO_LOG"};
    const cero_words exports = {.word = exported, .count = 3};
    const char *const expected[] = {"CERO_LOG",   "EMPTY",  "OMP_NUM_THREADS",
                                    "OMP_PLACES", "SECRET", NULL};
    cero_launch_job job = {.sets_threads = true, .threads = 4};
    (void)state;

    assert_ok(cero_launch_collect_names(environment, &exports, &job));
    expect_words(&job.forwarded, expected);
    cero_launch_job_cleanup(&job);
}

static void test_bad_names(void **state)
{
    static const struct {
        const char *name;
        const char *message;
    } cases[] = {
        {"ABSENT", "--export: ABSENT is not set"},
        {"PAT", "--export: PAT is not set"},
        {"PATH=/x", "'PATH=/x' is not the name of a variable; values come from the environment"},
        {"A B", "'A B' is not the name"},
        {"1A", "'1A' is not the name"},
        {"", "'' is not the name"},
    };
    char *environment[] = {(char *)(uintptr_t) "PATH=/bin", NULL};
    (void)state;

    for (size_t i = 0; i < CERO_COUNT_OF(cases); i++) {
        const char *exported[] = {cases[i].name};
        const cero_words exports = {.word = exported, .count = 1};
        cero_launch_job job = {0};
        assert_fails(cero_launch_collect_names(environment, &exports, &job), CERO_ERR_INVALID,
                     cases[i].message);
        cero_launch_job_cleanup(&job);
    }
}

/* Our thread count replaces an empty one, and leaves the user's alone. */
static void test_environment(void **state)
{
    char *environment[] = {
        (char *)(uintptr_t) "OMP_NUM_THREADS=", (char *)(uintptr_t) "OMP_NUM_THREADS_X=1",
        (char *)(uintptr_t) "A=\n b", NULL};
    const char *const ours[] = {"OMP_NUM_THREADS_X=1", "A=\n b", "OMP_NUM_THREADS=4", NULL};
    const char *const theirs[] = {"OMP_NUM_THREADS=", "OMP_NUM_THREADS_X=1", "A=\n b", NULL};
    cero_launch_job job = {.sets_threads = true, .threads = 4};
    cero_vector v = {0};
    (void)state;

    assert_ok(cero_launch_build_environment(environment, &job, &v));
    expect_words(&v, ours);
    cero_vector_cleanup(&v);
    job.sets_threads = false;
    assert_ok(cero_launch_build_environment(environment, &job, &v));
    expect_words(&v, theirs);
    cero_vector_cleanup(&v);
}

static void test_no_memory(void **state)
{
    int failures = 0;
    (void)state;

    for (uint64_t n = 1; n < 20; n++) {
        cero_vector v = {0};
        cero_mem_fail_at(n);
        cero_vector_add(&v, "a");
        cero_vector_printf(&v, "%d", 7);
        cero_status st = cero_vector_split(&v, "b c");
        st = st == CERO_OK ? cero_vector_finish(&v) : st;
        cero_mem_fail_at(0);
        assert_true(st == CERO_OK || st == CERO_ERR_NOMEM);
        assert_true(st != CERO_OK || v.count == 4);
        failures += st == CERO_ERR_NOMEM ? 1 : 0;
        cero_vector_cleanup(&v);
    }
    assert_true(failures >= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split),     cmocka_unit_test(test_open_quotes),
        cmocka_unit_test(test_quoted),    cmocka_unit_test(test_names),
        cmocka_unit_test(test_bad_names), cmocka_unit_test(test_environment),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
