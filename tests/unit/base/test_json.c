/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON reader accepts RFC 8259 and nothing else (plus comments when asked), keeps places and exact
 * integers, and is linear in size: no input crashes it or makes it slow.
 */
#include "harness.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/rng.h"
#include "base/text.h"

static cero_json_document *parse(const char *text)
{
    cero_json_document *document = NULL;
    assert_ok(cero_json_parse("t.json", text, strlen(text), NULL, &document));
    return document;
}

static void refuse_options(const char *text, size_t length, const cero_json_options *options,
                           const char *message)
{
    cero_json_document *document = NULL;
    assert_fails(cero_json_parse("t.json", text, length, options, &document), CERO_ERR_CORRUPT,
                 message);
    assert_null(document);
}

static void refuse(const char *text, const char *message)
{
    refuse_options(text, strlen(text), NULL, message);
}

static void test_values(void **state)
{
    CERO_UNUSED(state);
    cero_json_document *d =
        parse("{\"a\": [1, -2.5e3, true, false, null, \"x\"],\n  \"b\" : {\"c\":{}, \"d\":[]}}\n");
    const cero_json *root = cero_json_root(d);
    assert_int_equal(root->type, CERO_JSON_OBJECT);
    assert_int_equal(root->count, 2);
    const cero_json *a = cero_json_find(root, "a");
    assert_int_equal(a->count, 6);
    const cero_json *v = a->child;
    assert_int_equal(v->type, CERO_JSON_NUMBER);
    assert_string_equal(v->text, "1");
    v = v->next;
    assert_string_equal(v->text, "-2.5e3");
    assert_true(v->number == -2500.0);
    v = v->next;
    assert_true(v->type == CERO_JSON_BOOL && v->boolean);
    v = v->next;
    assert_true(v->type == CERO_JSON_BOOL && !v->boolean);
    v = v->next;
    assert_int_equal(v->type, CERO_JSON_NULL);
    v = v->next;
    assert_string_equal(v->text, "x");
    assert_null(v->next);
    assert_null(v->key);
    const cero_json *b = a->next;
    assert_string_equal(b->key, "b");
    assert_int_equal(cero_json_find(b, "c")->type, CERO_JSON_OBJECT);
    assert_int_equal(cero_json_find(b, "d")->count, 0);
    assert_null(cero_json_find(b, "e"));
    assert_null(cero_json_find(v, "e"));
    cero_json_destroy(&d);
    assert_null(d);
    cero_json_destroy(&d);
}

static void test_places(void **state)
{
    CERO_UNUSED(state);
    cero_json_document *d = parse("\n {\n  \"key\": 7,\r\n\t\"list\": [1,\n   22]}");
    const cero_json *root = cero_json_root(d);
    assert_int_equal(root->line, 2);
    assert_int_equal(root->column, 2);
    assert_int_equal(root->child->line, 3);
    assert_int_equal(root->child->column, 3);
    assert_int_equal(root->child->next->line, 4);
    assert_int_equal(root->child->next->column, 2);
    assert_int_equal(root->child->next->child->next->line, 5);
    assert_int_equal(root->child->next->child->next->column, 4);
    cero_status st = CERO_JSON_FAIL(root->child, "bad %d", 5);
    assert_int_equal(st, CERO_ERR_INVALID);
    assert_string_equal(cero_error_message(), "t.json:3:3: bad 5");
    cero_json_destroy(&d);
}

static void test_strings(void **state)
{
    CERO_UNUSED(state);
    cero_json_document *d = parse("[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\", \"\\u0041\\u00e9\\u20AC\\uD83D"
                                  "\\uDE00\", \"\xC3\xA9\xF0\x9F\x98\x80\", \"a\\u0000b\", \"\"]");
    const cero_json *v = cero_json_root(d)->child;
    assert_string_equal(v->text, "\"\\/\b\f\n\r\t");
    v = v->next;
    assert_string_equal(v->text, "A\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
    v = v->next;
    assert_string_equal(v->text, "\xC3\xA9\xF0\x9F\x98\x80");
    v = v->next;
    assert_int_equal(v->text_length, 3);
    assert_memory_equal(v->text, "a\0b", 4);
    v = v->next;
    assert_int_equal(v->text_length, 0);
    cero_json_destroy(&d);
}

static void test_refused(void **state)
{
    CERO_UNUSED(state);
    static const char *const cases[][2] = {
        {"", "t.json:1:1: expected a value"},
        {"  \n ", "t.json:2:2: expected a value (object, list, \"string\", number, true, false, "
                  "null), found the end of the file"},
        {"{", "t.json:1:2: expected a key in double quotes, found the end of the file"},
        {"[1,2", "expected ',' or ']', found the end of the file"},
        {"{\"a\":1 \"b\":2}", "t.json:1:8: expected ',' or '}'"},
        {"{\"a\" 1}", "expected ':' after a key, found '1'"},
        {"{a: 1}", "t.json:1:2: expected a key in double quotes, found 'a'"},
        {"{'a': 1}", "a key in double quotes"},
        {"['a']", "a string in double quotes"},
        {"[1,]", "t.json:1:4: expected a value"},
        {"{\"a\":1,}", "t.json:1:8: expected a key"},
        {"[,1]", "t.json:1:2"},
        {"[1] 2", "t.json:1:5: expected nothing after the value, found '2'"},
        {"[1] // c", "nothing after the value"},
        {"tru", "found 'tru'"},
        {"True", "found 'True'"},
        {"NaN", "found 'NaN'"},
        {"-Infinity", "a number as JSON writes it"},
        {"01", "a number as JSON writes it"},
        {"+1", "expected a value"},
        {"-", "a number as JSON writes it"},
        {"1.", "a number as JSON writes it"},
        {".5", "expected a value"},
        {"1e", "a number as JSON writes it"},
        {"1e+", "a number as JSON writes it"},
        {"0x10", "a number as JSON writes it"},
        {"1.2.3", "a number as JSON writes it"},
        {"1e999", "fits into a double"},
        {"\"abc", "t.json:1:1: expected a string that ends before the file does"},
        {"\"a\nb\"", "t.json:1:3: expected a closing quote"},
        {"\"a\tb\"", "a closing quote or an escaped control character, found the byte 0x09"},
        {"\"\\x\"", "expected an escape"},
        {"\"\\", "expected an escape"},
        {"\"\\u12g4\"", "four hexadecimal digits"},
        {"\"\\u12", "four hexadecimal digits"},
        {"\"\\ud800\"", "both halves of a surrogate pair"},
        {"\"\\ud800\\u0041\"", "both halves of a surrogate pair"},
        {"\"\\udc00\"", "both halves of a surrogate pair"},
        {"\"\\ud800\\ud", "both halves of a surrogate pair"},
        {"\"\xC0\xAF\"", "UTF-8"},
        {"\"\xED\xA0\x80\"", "UTF-8"},
        {"\"\xF4\x90\x80\x80\"", "UTF-8"},
        {"\"\xE2\x82\"", "UTF-8"},
        {"\"\xFF\"", "UTF-8"},
        {"{\"a\\u0000\":1}", "\\u0000"},
        {"\xEF\xBB\xBF[]", "found the byte 0xef"},
    };
    for (size_t i = 0; i < CERO_COUNT_OF(cases); i++) {
        refuse(cases[i][0], cases[i][1]);
    }
    refuse_options("[1\0]", 4, NULL, "found the byte 0x00");
    refuse_options("\"\0\"", 3, NULL, "found the byte 0x00");
}

static void test_duplicates(void **state)
{
    CERO_UNUSED(state);
    refuse("{\"a\": 1,\n \"b\": 2,\n \"\\u0061\": 3}",
           "t.json:3:2: the key \"a\" stands here for the second time (first at 1:2)");
    cero_text text = {0};
    cero_text_printf(&text, "{");
    for (int i = 0; i < 100; i++) {
        cero_text_printf(&text, "\"k%d\": {\"k\": 1},\n", i);
    }
    cero_text_printf(&text, "\"k37\": 1}");
    refuse(text.data, "t.json:101:1: the key \"k37\" stands here for the second time (first at 38");
    cero_text_cleanup(&text);
}

static void test_comments(void **state)
{
    CERO_UNUSED(state);
    static const char source[] = "\xEF\xBB\xBF// one\n{ # two\n \"a\": /* three\n */ [1, 2, ], "
                                 "\"u\": \"http://x#y\", } // end";
    cero_json_options options = {.allow_comments = true};
    cero_json_document *d = NULL;
    assert_ok(cero_json_parse("t.json", source, strlen(source), &options, &d));
    const cero_json *root = cero_json_root(d);
    assert_int_equal(root->count, 2);
    assert_int_equal(root->child->count, 2);
    assert_int_equal(root->child->child->line, 4);
    assert_string_equal(root->child->next->text, "http://x#y");
    cero_json_destroy(&d);
    refuse_options("[1,,]", 5, &options, "t.json:1:4");
    refuse_options("[,]", 3, &options, "t.json:1:2");
    refuse_options("{} /* x", 7, &options, "t.json:1:4: the comment that starts here never ends");
    refuse_options("{} /", 4, &options, "nothing after the value");
    refuse("/* x */ {}", "t.json:1:1");
}

static void test_depth(void **state)
{
    CERO_UNUSED(state);
    char deep[256];
    memset(deep, '[', 64);
    memset(deep + 64, ']', 64);
    deep[128] = '\0';
    cero_json_document *d = parse(deep);
    cero_json_destroy(&d);
    memset(deep, '[', 65);
    memset(deep + 65, ']', 65);
    deep[130] = '\0';
    refuse(deep, "t.json:1:65: more than 64 lists and objects are nested");
    cero_json_options options = {.max_depth = 2};
    refuse_options("[[[]]]", 6, &options, "more than 2");
}

static void test_integers(void **state)
{
    CERO_UNUSED(state);
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {
        {"16", 16},
        {"5e8", 500000000},
        {"2.0", 2},
        {"-3", -3},
        {"0", 0},
        {"-0.0e5", 0},
        {"1.5e1", 15},
        {"100e-2", 1},
        {"0.5e1", 5},
        {"1200.00", 1200},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
        {"9.223372036854775807e18", INT64_MAX},
        {"0e99999999999999999999", 0},
        {"9007199254740993", 9007199254740993},
    };
    for (size_t i = 0; i < CERO_COUNT_OF(good); i++) {
        cero_json_document *d = parse(good[i].text);
        int64_t value = 77;
        assert_ok(cero_json_int(cero_json_root(d), &value));
        assert_true(value == good[i].value);
        cero_json_destroy(&d);
    }
    static const char *const bad[][2] = {
        {"2.5", "t.json:1:1: expected an integer, found 2.5"},
        {"1e-1", "expected an integer"},
        {"9223372036854775808", "does not fit into 64 bits"},
        {"-9223372036854775809", "does not fit into 64 bits"},
        {"1e300", "does not fit into 64 bits"},
        {"true", "expected an integer, found true"},
        {"\"3\"", "expected an integer, found the string \"3\""},
        {"[]", "expected an integer, found a list"},
        {"null", "expected an integer, found null"},
    };
    for (size_t i = 0; i < CERO_COUNT_OF(bad); i++) {
        cero_json_document *d = parse(bad[i][0]);
        int64_t value = 77;
        assert_fails(cero_json_int(cero_json_root(d), &value), CERO_ERR_INVALID, bad[i][1]);
        assert_int_equal(value, 77);
        cero_json_destroy(&d);
    }
}

static void test_doubles_read_back(void **state)
{
    CERO_UNUSED(state);
    cero_rng_key key = cero_rng_make_key(3, CERO_RNG_TEST, 0, 0);
    for (uint64_t i = 0; i < 2000; i++) {
        uint32_t w[4];
        cero_rng_block(key, 0, i, w);
        uint64_t bits = ((uint64_t)w[0] << 32) | w[1];
        double x;
        memcpy(&x, &bits, sizeof(x));
        if (((bits >> 52) & 0x7FF) == 0x7FF) {
            continue;
        }
        cero_text text = {0};
        cero_text_append_double(&text, x);
        cero_json_document *d = parse(text.data);
        assert_true(cero_json_root(d)->number == x);
        cero_json_destroy(&d);
        cero_text_cleanup(&text);
    }
}

/* Every truncation of a document, and every byte of it changed, is parsed or refused cleanly. */
static void test_mutants(void **state)
{
    CERO_UNUSED(state);
    static const char source[] =
        "{\"a\": [1.5e-3, \"x\\u20ac\\ud83d\\ude00\\n\"], // c\n \"b\": "
        "{\"c\": null, \"d\": [true, false,], }, /* e */ \"\xC3\xA9\": -0}";
    cero_json_options options = {.allow_comments = true};
    size_t n = strlen(source);
    for (size_t length = 0; length < n; length++) {
        refuse_options(source, length, &options, "t.json:");
    }
    for (size_t at = 0; at < n; at++) {
        for (int byte = 0; byte < 256; byte++) {
            char mutant[sizeof(source)];
            memcpy(mutant, source, sizeof(source));
            mutant[at] = (char)byte;
            cero_json_document *d = NULL;
            if (cero_json_parse("m", mutant, n, &options, &d) == CERO_OK) {
                assert_non_null(cero_json_root(d));
            } else {
                assert_null(d);
            }
            cero_json_destroy(&d);
        }
    }
}

static void test_memory_runs_out(void **state)
{
    CERO_UNUSED(state);
    cero_text text = {0};
    cero_text_printf(&text, "{\"k\": 0");
    for (int i = 0; i < 40; i++) {
        cero_text_printf(&text, ", \"k%d\": [%d, \"s\"]", i, i);
    }
    cero_text_printf(&text, "}");
    for (uint64_t n = 1;; n++) {
        cero_json_document *d = NULL;
        cero_mem_fail_at(n);
        cero_status st = cero_json_parse("t.json", text.data, text.length, NULL, &d);
        cero_mem_fail_at(0);
        if (st == CERO_OK) {
            cero_json_destroy(&d);
            assert_true(n > 4);
            break;
        }
        assert_int_equal(st, CERO_ERR_NOMEM);
        assert_null(d);
    }
    cero_text_cleanup(&text);
}

/* Seconds to parse {"vocab": {count tokens}, "merges": [count pairs]}. */
static double time_tokenizer(int count, size_t *nbytes)
{
    cero_text text = {0};
    cero_text_printf(&text, "{\"vocab\": {\n");
    for (int i = 0; i < count; i++) {
        cero_text_printf(&text, "      \"\xC4\xA0token%d\": %d,\n", i, i);
    }
    cero_text_printf(&text, "\"\": 0}, \"merges\": [\"a b\"");
    for (int i = 0; i < count; i++) {
        cero_text_printf(&text, ",\n      [\"\xC4\xA0%d\", \"x%d\"]", i, i + 1);
    }
    cero_text_printf(&text, "]}");
    cero_json_document *d = NULL;
    double start = cero_clock_now();
    assert_ok(cero_json_parse("t.json", text.data, text.length, NULL, &d));
    double seconds = cero_clock_now() - start;
    assert_int_equal(cero_json_find(cero_json_root(d), "vocab")->count, count + 1);
    cero_json_destroy(&d);
    *nbytes = text.length;
    cero_text_cleanup(&text);
    return seconds;
}

static void test_big_objects_are_linear(void **state)
{
    CERO_UNUSED(state);
    size_t nbytes;
    (void)time_tokenizer(1000, &nbytes);
    double small = time_tokenizer(15000, &nbytes);
    double big = time_tokenizer(150000, &nbytes);
    print_message("%zu bytes in %.3f s (a tenth: %.3f s)\n", nbytes, big, small);
    assert_true(big < 40 * small + 0.5);
}

static void test_shared_tokenizer(void **state)
{
    CERO_UNUSED(state);
    char path[512];
    cero_json_document *d = NULL;
    (void)shared_path("reference/gpt2-tiny/expected.json", path, sizeof(path));
    assert_ok(cero_json_read(path, NULL, 0, &d));
    assert_int_equal(cero_json_root(d)->type, CERO_JSON_OBJECT);
    cero_json_destroy(&d);
    assert_fails(cero_json_read(path, NULL, 10, &d), CERO_ERR_IO, "more than the 10");
    assert_fails(cero_json_read("/nonexistent.json", NULL, 0, &d), CERO_ERR_IO,
                 "/nonexistent.json");
}

/* As it stood, or in one form for all that mean the same. */
static void values_are_written(void **state)
{
    static const char text[] = "{ \"b\" : [1, 2.50, -3e+2, [ ], {}], \"a\":\"\\u0041\\n\\\"\",\n"
                               " \"c\": {\"z\": null, \"y\": true, \"x\": false} }";
    static const char *const expected[] = {
        "{\"b\":[1,2.50,-3e+2,[],{}],\"a\":\"A\\n\\\"\",\"c\":{\"z\":null,\"y\":true,\"x\":false}}",
        "{\"a\":\"A\\n\\\"\",\"b\":[1,2.50,-3e+2,[],{}],\"c\":{\"x\":false,\"y\":true,\"z\":null}}"};
    cero_json_document *document = NULL;

    CERO_UNUSED(state);
    assert_ok(cero_json_parse("x.json", text, strlen(text), NULL, &document));
    for (int sorted = 0; sorted < 2; sorted++) {
        cero_text out = {0};
        assert_ok(cero_json_write(cero_json_root(document), sorted == 1, &out));
        assert_string_equal(out.data, expected[sorted]);
        cero_text_cleanup(&out);
        cero_mem_fail_at(2);
        assert_fails(cero_json_write(cero_json_root(document), sorted == 1, &out), CERO_ERR_NOMEM,
                     "no memory");
        cero_mem_fail_at(0);
        cero_text_cleanup(&out);
    }
    cero_json_destroy(&document);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_duplicates),
        cmocka_unit_test(test_comments),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_doubles_read_back),
        cmocka_unit_test(test_mutants),
        cmocka_unit_test(test_memory_runs_out),
        cmocka_unit_test(test_big_objects_are_linear),
        cmocka_unit_test(test_shared_tokenizer),
        cmocka_unit_test(values_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
