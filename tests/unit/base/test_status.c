/* SPDX-License-Identifier: Apache-2.0 */
/* A message is one line that drives no terminal, whatever its arguments hold; reports about ranks have their lines. */
#include "harness.h"

static void test_control_characters(void **state)
{
    CERO_UNUSED(state);
    assert_int_equal(CERO_FAIL(CERO_ERR_CORRUPT, "key \"%s\"", "a\x1b[31m\n\tb\x7f\r"),
                     CERO_ERR_CORRUPT);
    assert_string_equal(cero_error_message(), "key \"a?[31m??b??\"");
    // U+009B is another way to begin a control sequence; U+00E9 and U+1F600 are letters and the like.
    (void)CERO_FAIL(CERO_ERR_INVALID, "%s", "\xC2\x9B[2J caf\xC3\xA9 \xF0\x9F\x98\x80 \xC2\xA0");
    assert_string_equal(cero_error_message(), "?"
                                              "?[2J caf\xC3\xA9 \xF0\x9F\x98\x80 \xC2\xA0");
    (void)CERO_FAIL(CERO_ERR_INVALID, "a%cb, cut %.1s", '\0', "\xC2\x9B");
    assert_string_equal(cero_error_message(), "a?b, cut \xC2");
}

static void test_prefix(void **state)
{
    CERO_UNUSED(state);
    cero_status st = CERO_FAIL(CERO_ERR_IO, "cannot open");
    assert_int_equal(cero_error_prefix(st, "reading %s: ", "a\nb"), CERO_ERR_IO);
    assert_string_equal(cero_error_message(), "reading a?b: cannot open");
}

static void test_reports_have_lines(void **state)
{
    CERO_UNUSED(state);
    (void)CERO_FAIL(CERO_ERR_COMM, "rank 1 was waited for%s", "\n  rank 0: \x1b x\n  rank 1");
    assert_string_equal(cero_error_message(), "rank 1 was waited for\n  rank 0: ? x\n  rank 1");
    (void)CERO_FAIL(CERO_ERR_REMOTE, "a%s", "\nb");
    assert_string_equal(cero_error_message(), "a\nb");
}

static void test_long_message(void **state)
{
    CERO_UNUSED(state);
    static char text[20000];
    memset(text, '\n', sizeof(text) - 1);
    (void)CERO_FAIL(CERO_ERR_INVALID, "%s", text);
    size_t length = strlen(cero_error_message());
    assert_true(length > 1000 && length < sizeof(text));
    assert_int_equal(strspn(cero_error_message(), "?"), length);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_control_characters),
        cmocka_unit_test(test_prefix),
        cmocka_unit_test(test_reports_have_lines),
        cmocka_unit_test(test_long_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
