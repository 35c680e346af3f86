/* The hand-written matchers cut random text exactly where PCRE2 cuts it with the same pattern. */
#include "harness.h"

#include "base/rng.h"
#include "data/tokenizer/pattern.h"
#include "data/tokenizer/piece.h"
#include "data/unicode/unicode.h"

/* A newer PCRE2 knows letters that the tables do not: these came with Unicode 15 (two) and 16. */
static bool has_same_unicode(void)
{
    static const uint8_t text[] = "\xF0\x96\x84\x82 \xF0\x9E\x93\x90 \xF0\x91\xBC\x82";
    cero_pattern *pattern = NULL;
    size_t begin;
    size_t stop;
    assert_ok(cero_pattern_compile("\\p{L}", 5, false, &pattern));
    assert_ok(cero_pattern_find(pattern, text, sizeof(text) - 1, 0, &begin, &stop));
    cero_pattern_destroy(&pattern);
    return begin == stop;
}

static const char *const patterns[] = {
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
};

/* Characters that meet the special cases, and any code point now and then. */
static size_t random_text(cero_rng_key key, uint64_t sample, bool any_code_point, uint8_t *out,
                          size_t count)
{
    static const uint32_t usual[] = {'a',  'b',   'S',    's',    't',    'r',     'e',    'v',
                                     'L',  'l',   'd',    'M',    ' ',    ' ',     ' ',    '\n',
                                     '\r', '\t',  '\'',   '\'',   '\'',   '1',     '2',    '3',
                                     '.',  '!',   0x17F,  0xE9,   0x4E00, 0x85,    0xA0,   0x3000,
                                     0xB2, 0x300, 0x2028, 0x212A, 0x6F1,  0x1F642, 0x200D, 0x00};
    size_t length = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t word[4];
        cero_rng_block(key, sample, i, word);
        uint32_t cp = usual[word[0] % CERO_COUNT_OF(usual)];
        if (word[1] % 16 == 0 && any_code_point) {
            cp = word[2] % 0x110000;
            cp = cp >= 0xD800 && cp < 0xE000 ? 'x' : cp;
        }
        length += (size_t)cero_utf8_put(cp, out + length);
    }
    return length;
}

static void compare(const char *text_of_pattern, uint64_t samples)
{
    cero_pattern *pattern = NULL;
    cero_piece_match match = cero_piece_find(text_of_pattern, strlen(text_of_pattern));
    cero_rng_key key = cero_rng_make_key(11, CERO_RNG_TEST, 0, 0);
    uint8_t text[256];
    bool is_same = has_same_unicode();

    assert_non_null(match);
    assert_ok(cero_pattern_compile(text_of_pattern, strlen(text_of_pattern), false, &pattern));
    for (uint64_t sample = 0; sample < samples; sample++) {
        size_t length = random_text(key, sample, is_same, text, 3 + sample % 40);
        for (size_t i = 0; i < length;) {
            size_t begin;
            size_t stop;
            assert_ok(cero_pattern_find(pattern, text, length, i, &begin, &stop));
            size_t mine = match(text, i, length);
            if (begin != i || stop != mine) {
                fail_msg("sample %d at byte %d: expression %d..%d, matcher up to %d", (int)sample,
                         (int)i, (int)begin, (int)stop, (int)mine);
            }
            i = stop;
        }
    }
    cero_pattern_destroy(&pattern);
}

static void test_same_cuts(void **state)
{
    CERO_UNUSED(state);
    for (size_t i = 0; i < CERO_COUNT_OF(patterns); i++) {
        compare(patterns[i], 20000);
    }
}

/* Every code point has the class PCRE2 gives it. */
static void test_classes(void **state)
{
    CERO_UNUSED(state);
    static const char *const of_class[] = {"[^\\s\\p{L}\\p{N}]", "\\p{L}", "\\p{N}", "\\s"};
    cero_pattern *pattern[4];
    bool is_same = has_same_unicode();
    for (int class = 0; class < 4; class ++) {
        assert_ok(
            cero_pattern_compile(of_class[class], strlen(of_class[class]), false, &pattern[class]));
    }
    for (uint32_t cp = 0; cp < 0x110000; cp++) {
        if (cp == 0xD800) {
            cp = 0xE000;
        }
        uint8_t utf8[4];
        size_t length = (size_t)cero_utf8_put(cp, utf8);
        size_t begin;
        size_t stop;
        uint32_t class = cero_unicode_get(cp) & CERO_UNICODE_CLASS;
        assert_ok(cero_pattern_find(pattern[class], utf8, length, 0, &begin, &stop));
        bool is_compared = class != CERO_UNICODE_OTHER || is_same;
        if (is_compared && (begin != 0 || stop != length)) {
            fail_msg("U+%04X has class %d here and not in PCRE2", cp, (int)class);
        }
    }
    for (int class = 0; class < 4; class ++) {
        cero_pattern_destroy(&pattern[class]);
    }
}

static void expect_refused(const char *text, cero_status status, const char *message)
{
    cero_pattern *pattern = NULL;
    assert_fails(cero_pattern_compile(text, strlen(text), false, &pattern), status, message);
    assert_null(pattern);
}

static void test_refused(void **state)
{
    CERO_UNUSED(state);
    expect_refused("a\\hb", CERO_ERR_UNSUPPORTED, "\\h at offset 1");
    expect_refused("[a\\S]", CERO_ERR_UNSUPPORTED, "\\S inside a class at offset 2");
    expect_refused("[a&&b]", CERO_ERR_UNSUPPORTED, "&& inside a class at offset 2");
    expect_refused("[a[b]]", CERO_ERR_UNSUPPORTED, "a class inside a class at offset 2");
    expect_refused("a{1,2}+", CERO_ERR_UNSUPPORTED, "}+ at offset 5");
    expect_refused("(?m)a", CERO_ERR_UNSUPPORTED, "(?m at offset 0");
    expect_refused("(*UCP)a", CERO_ERR_UNSUPPORTED, "(* at offset 0");
    expect_refused("a\\", CERO_ERR_CORRUPT, "ends with a backslash");
    expect_refused("(a", CERO_ERR_CORRUPT, "no regular expression");
    expect_refused("", CERO_ERR_CORRUPT, "empty");
}

/* A hostile expression stops at a limit instead of running for ever. */
static void test_limits(void **state)
{
    CERO_UNUSED(state);
    cero_pattern *pattern = NULL;
    char text[64];
    size_t begin;
    size_t stop;
    memset(text, 'a', sizeof(text));
    text[63] = 'b';
    assert_ok(cero_pattern_compile("(a+)+c|(a|aa)+c", 15, false, &pattern));
    cero_status st = cero_pattern_find(pattern, (uint8_t *)text, 64, 0, &begin, &stop);
    assert_true(st == CERO_OK || st == CERO_ERR_UNSUPPORTED);
    cero_pattern_destroy(&pattern);
    memset(text, 'a', sizeof(text));
    assert_ok(cero_pattern_compile("(a+)+$(?<=b)", 12, false, &pattern));
    assert_fails(cero_pattern_find(pattern, (uint8_t *)text, 64, 0, &begin, &stop),
                 CERO_ERR_UNSUPPORTED, "gave up at byte 0");
    cero_pattern_destroy(&pattern);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_cuts),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
