/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text grows or fails as a whole, doubles read back, JSON strings are well formed for any bytes, and the
 * nearest name is the one that was meant.
 */
#include "harness.h"

#include "base/rng.h"
#include "base/text.h"

#include <locale.h>
#include <math.h>

static void test_grows(void **state)
{
    CERO_UNUSED(state);
    cero_text text = {0};
    for (int i = 0; i < 1000; i++) {
        cero_text_printf(&text, "%d,", i % 10);
    }
    cero_text_append(&text, "", 0);
    cero_text_append(&text, "a\0b", 3);
    assert_ok(cero_text_finish(&text));
    assert_int_equal(text.length, 2003);
    assert_memory_equal(text.data + 1998, "9,a\0b", 6);
    cero_text_cleanup(&text);
    assert_null(text.data);
}

static void test_fails_as_a_whole(void **state)
{
    CERO_UNUSED(state);
    cero_text text = {0};
    cero_text_append(&text, "kept", 4);
    cero_mem_fail_at(1);
    for (int i = 0; i < 100; i++) {
        cero_text_append(&text, "0123456789", 10);
    }
    assert_fails(cero_text_finish(&text), CERO_ERR_NOMEM, "no memory");
    assert_memory_equal(text.data, "kept", 4);
    assert_true(text.length < 64);
    cero_text_cleanup(&text);
}

static void check_double(double x, const char *expected)
{
    cero_text text = {0};
    cero_text_append_double(&text, x);
    assert_string_equal(text.data, expected);
    cero_text_cleanup(&text);
}

static void test_doubles(void **state)
{
    CERO_UNUSED(state);
    check_double(0.1, "0.1");
    check_double(1e-8, "1e-08");
    check_double(3, "3");
    check_double(-0.0, "-0");
    check_double(1.0 / 3, "0.3333333333333333");
    check_double(5e-324, "5e-324");
    check_double((double)NAN, "null");
    check_double(-(double)INFINITY, "null");
    // Only where such a locale is installed: the point stays a point.
    if (setlocale(LC_NUMERIC, "de_DE.UTF-8") != NULL) {
        check_double(0.1, "0.1");
        assert_non_null(setlocale(LC_NUMERIC, "C"));
    }
}

static void test_json_strings(void **state)
{
    CERO_UNUSED(state);
    static const struct {
        const char *bytes;
        size_t length;
        const char *expected;
    } cases[] = {
        {"", 0, "\"\""},
        {"a\"b\\c\n\t\r\x7f", 9, "\"a\\\"b\\\\c\\n\\t\\u000d\\u007f\""},
        {"\0", 1, "\"\\u0000\""},
        {"\xC3\xA9\xF0\x9F\x98\x80", 6, "\"\xC3\xA9\xF0\x9F\x98\x80\""},
        {"a\xFF\xC3", 3, "\"a\xEF\xBF\xBD\xEF\xBF\xBD\""},
        {"\xED\xA0\x80", 3, "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""},
        {"\xE2\x82", 2, "\"\xEF\xBF\xBD\xEF\xBF\xBD\""},
    };
    for (size_t i = 0; i < CERO_COUNT_OF(cases); i++) {
        cero_text text = {0};
        cero_text_append_json_string(&text, cases[i].bytes, cases[i].length);
        assert_string_equal(text.data, cases[i].expected);
        cero_text_cleanup(&text);
    }
}

static const char *next_name(const void *context, int i)
{
    const char *const *names = context;
    return names[i];
}

static void test_nearest(void **state)
{
    CERO_UNUSED(state);
    static const char *const names[] = {"gelu", "relu", "gradient_clipping", "silu", NULL};
    static const char *const cases[][2] = {
        {"gleu", "gelu"},    {"gradient_clipp1ng", "gradient_clipping"},
        {"reluu", "relu"},   {"gradientclipping", "gradient_clipping"},
        {"gelu", "gelu"},    {"completely_different", NULL},
        {"optimizer", NULL},
    };
    for (size_t i = 0; i < CERO_COUNT_OF(cases); i++) {
        const char *found = cero_text_nearest(cases[i][0], next_name, names);
        if (cases[i][1] == NULL) {
            assert_null(found);
        } else {
            assert_non_null(found);
            assert_string_equal(found, cases[i][1]);
        }
    }
    char longer[500];
    memset(longer, 'a', sizeof(longer) - 1);
    longer[499] = '\0';
    assert_null(cero_text_nearest(longer, next_name, names));
}

static void test_match(void **state)
{
    CERO_UNUSED(state);
    static const struct {
        const char *pattern;
        const char *name;
        bool matches;
    } cases[] = {
        {"*", "", true},
        {"*", "anything", true},
        {"", "", true},
        {"", "a", false},
        {"*.bias", "h.0.ln_1.bias", true},
        {"*.bias", "h.0.ln_1.weight", false},
        {"h.*.ln_?.*", "h.11.ln_2.weight", true},
        {"h.?.x", "h.10.x", false},
        {"*ab*ab", "abab", true},
        {"*ab*ab", "ab", false},
        {"a**b", "ab", true},
        {"wte", "wte.weight", false},
        {"*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
    };
    for (size_t i = 0; i < CERO_COUNT_OF(cases); i++) {
        assert_int_equal(cero_text_match(cases[i].pattern, cases[i].name), cases[i].matches);
    }
}

static void test_bytes(void **state)
{
    char text[32];
    CERO_UNUSED(state);
    assert_string_equal(cero_text_bytes(0, text, sizeof(text)), "0 bytes");
    assert_string_equal(cero_text_bytes(1023, text, sizeof(text)), "1023 bytes");
    assert_string_equal(cero_text_bytes(1536, text, sizeof(text)), "1.50 KiB");
    assert_string_equal(cero_text_bytes(0x1p60, text, sizeof(text)), "1024.00 PiB");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grows),   cmocka_unit_test(test_fails_as_a_whole),
        cmocka_unit_test(test_doubles), cmocka_unit_test(test_json_strings),
        cmocka_unit_test(test_nearest), cmocka_unit_test(test_match),
        cmocka_unit_test(test_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
