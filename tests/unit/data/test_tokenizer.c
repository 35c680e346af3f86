/* The pipeline a tokenizer.json declares is what runs; unknown or broken parts are named errors. */
#include "small_tokenizer.h"

#include "base/file.h"
#include "base/rng.h"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define SPLIT(pattern, behavior)                                                               \
    "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": " pattern \
    ", \"behavior\": \"" behavior "\", \"invert\": false}, {\"type\": \"ByteLevel\", "         \
    "\"add_prefix_space\": false, \"use_regex\": false}]}"

/* TK-01 */
static void test_special_text(void **state)
{
    CERO_UNUSED(state);
    char path[512];
    cero_tokenizer *t = NULL;
    const char *text = "a<|endoftext|>b";
    cero_token_ids ids = {0};

    assert_ok(cero_tokenizer_open(shared_path("data/gpt2/tokenizer.json", path, sizeof(path)), &t));
    CHECK_IDS(t, text, 0, 64, 50256, 65);
    assert_ok(cero_tokenizer_encode(t, text, strlen(text), CERO_ENCODE_PLAIN_SPECIAL, &ids));
    for (int64_t i = 0; i < ids.count; i++) {
        assert_int_not_equal(ids.id[i], 50256);
    }
    cero_text back = {0};
    assert_ok(cero_tokenizer_decode(t, ids.id, ids.count, 0, &back));
    assert_string_equal(back.data, text);
    back.length = 0;
    const int32_t with_special[] = {64, 50256, 65};
    assert_ok(cero_tokenizer_decode(t, with_special, 3, CERO_DECODE_SKIP_SPECIAL, &back));
    assert_string_equal(back.data, "ab");
    // TK-13: line ends are not touched.
    CHECK_IDS(t, "a\r\nb\r\n", 0, 64, 201, 198, 65, 201, 198);
    // TK-17: nothing, spaces, a byte-order mark.
    check_ids(t, "", 0, CERO_ENCODE_ADD_SPECIAL, NULL, 0);
    check_ids(t, NULL, 0, 0, NULL, 0);
    CHECK_IDS(t, "     ", 0, 220, 220, 220, 220, 220);
    CHECK_IDS(t, "\xEF\xBB\xBF", 0, 171, 119, 123);
    check_round_trip(t, "\xEF\xBB\xBF", 3);
    cero_text_cleanup(&back);
    cero_token_ids_cleanup(&ids);
    cero_tokenizer_destroy(&t);
}

/* Llama's kind: <unk> <s> </s>, 256 byte tokens, then these. */
static cero_tokenizer *llama(const char *scheme)
{
    static const char *const tokens[] = {
        "\xE2\x96\x81", "H", "e", "l", "o", "He", "ll", "Hell", "Hello", "\xE2\x96\x81Hello"};
    cero_text json = {0};
    cero_tokenizer *t = NULL;
    cero_text_printf(&json, "{\"version\": \"1.0\", \"added_tokens\": [");
    static const char *const special[] = {"<unk>", "<s>", "</s>"};
    for (int i = 0; i < 3; i++) {
        cero_text_printf(&json,
                         "%s{\"id\": %d, \"content\": \"%s\", \"normalized\": false, "
                         "\"special\": true}",
                         i > 0 ? ", " : "", i, special[i]);
    }
    cero_text_printf(
        &json,
        "], \"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"\xE2\x96\x81\", "
        "\"prepend_scheme\": \"%s\", \"split\": false}, \"post_processor\": {\"type\": "
        "\"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"<s>\", \"type_id\": "
        "0}}, {\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}], \"pair\": [], \"special_tokens\": "
        "{\"<s>\": {\"id\": \"<s>\", \"ids\": [1], \"tokens\": [\"<s>\"]}}}, \"decoder\": "
        "{\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Replace\", \"pattern\": "
        "{\"String\": \"\xE2\x96\x81\"}, \"content\": \" \"}, {\"type\": \"ByteFallback\"}, "
        "{\"type\": \"Fuse\"}, {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": "
        "0}]}, \"model\": {\"type\": \"BPE\", \"unk_token\": \"<unk>\", \"fuse_unk\": true, "
        "\"byte_fallback\": true, \"vocab\": {\"<unk>\": 0, \"<s>\": 1, \"</s>\": 2",
        scheme);
    for (unsigned byte = 0; byte < 256; byte++) {
        cero_text_printf(&json, ", \"<0x%02X>\": %u", byte, byte + 3);
    }
    for (size_t i = 0; i < CERO_COUNT_OF(tokens); i++) {
        cero_text_printf(&json, ", \"%s\": %d", tokens[i], (int)i + 259);
    }
    cero_text_printf(&json, "}, \"merges\": [[\"H\", \"e\"], [\"l\", \"l\"], [\"He\", \"ll\"], "
                            "[\"Hell\", \"o\"], [\"\xE2\x96\x81\", \"Hello\"]]}}");
    assert_ok(cero_tokenizer_parse("llama.json", json.data, json.length, NULL, &t));
    cero_text_cleanup(&json);
    return t;
}

/* TK-02: ids of the reference library. */
static void test_prepend_schemes(void **state)
{
    CERO_UNUSED(state);
    cero_tokenizer *t = llama("first");
    CHECK_IDS(t, "Hello", 0, 268);
    CHECK_IDS(t, " Hello", 0, 268);
    CHECK_IDS(t, "<s>Hello", 0, 1, 267);
    cero_tokenizer_destroy(&t);
    t = llama("always");
    CHECK_IDS(t, "Hello", 0, 268);
    CHECK_IDS(t, " Hello", 0, 268);
    CHECK_IDS(t, "<s>Hello", 0, 1, 268);
    // TK-12: the post-processor adds one BOS, and only when asked.
    CHECK_IDS(t, "Hello", CERO_ENCODE_ADD_SPECIAL, 1, 268);
    cero_tokenizer_destroy(&t);
    t = llama("never");
    CHECK_IDS(t, "Hello", 0, 267);
    CHECK_IDS(t, " Hello", 0, 268);
    CHECK_IDS(t, "<s>Hello", 0, 1, 267);
    assert_int_equal(cero_tokenizer_eos(t), 2);
    cero_tokenizer_destroy(&t);
}

/* TK-19: byte tokens, and what a stream may print after each. */
static void test_byte_fallback(void **state)
{
    CERO_UNUSED(state);
    cero_tokenizer *t = llama("never");
    const int32_t ids[] = {243, 160, 135, 161}; // F0 9D 84 9E
    cero_text out = {0};
    CHECK_IDS(t, "\xF0\x9D\x84\x9E", 0, 243, 160, 135, 161);
    for (int i = 0; i < 4; i++) {
        unsigned flags = i == 0 ? 0 : CERO_DECODE_CONTINUE;
        assert_ok(cero_tokenizer_decode(t, &ids[i], 1, flags, &out));
        assert_int_equal(cero_tokenizer_printable(out.data, out.length), i < 3 ? 0 : 4);
    }
    assert_string_equal(out.data, "\xF0\x9D\x84\x9E");
    check_round_trip(t, "Hello \xFF\xFE Hello", 15);
    // The leading space is stripped at the start only.
    const int32_t hello[] = {268, 268};
    out.length = 0;
    assert_ok(cero_tokenizer_decode(t, hello, 1, 0, &out));
    assert_ok(cero_tokenizer_decode(t, hello, 1, CERO_DECODE_CONTINUE, &out));
    assert_string_equal(out.data, "Hello Hello");
    cero_text_cleanup(&out);
    cero_tokenizer_destroy(&t);
}

/* TK-04 */
static void test_literal_pattern(void **state)
{
    CERO_UNUSED(state);
    cero_tokenizer *t = small_byte_level(&(small_params){
        .pre_tokenizer = SPLIT("{\"String\": \"a.b\"}", "Isolated"),
        .vocab = ", \"a.b\": 261, \"axb\": 262, \".b\": 263, \"xb\": 264, \"\xC4\xA0"
                 "axb\": 265, "
                 "\"a.b\xC4\xA0\": 266",
        .model = "\"ignore_merges\": true,"});
    CHECK_IDS(t, "a.b axb", 0, 261, 265); // one piece each, found whole
    cero_tokenizer_destroy(&t);
    t = small_byte_level(&(small_params){.pre_tokenizer = SPLIT("{\"Regex\": \"a.b\"}", "Isolated"),
                                         .vocab = ", \"a.b\": 261, \"axb\": 262",
                                         .model = "\"ignore_merges\": true,"});
    CHECK_IDS(t, "a.b axb", 0, 261, ' ', 262);
    cero_tokenizer_destroy(&t);
}

/* TK-05, TK-07 */
static void test_merge_forms(void **state)
{
    CERO_UNUSED(state);
    cero_tokenizer *t = small_byte_level(&(small_params){0});
    CHECK_IDS(t, "abc", 0, 257);
    CHECK_IDS(t, " a bc", 0, 259, ' ', 258);
    cero_tokenizer_destroy(&t);
    t = small_byte_level(&(small_params){
        .merges = "[[\"a\", \"b\"], [\"ab\", \"c\"], [\"b\", \"c\"], [\"\xC4\xA0\", \"a\"]]"});
    CHECK_IDS(t, "abc", 0, 257);
    CHECK_IDS(t, " a bc", 0, 259, ' ', 258);
    cero_tokenizer_destroy(&t);
    // A space inside a token, which the string form could not hold.
    t = small_byte_level(&(small_params){.merges = "[[\"a\", \"b\"], [\"x y\", \"z\"]]",
                                         .vocab = ", \"x y\": 261, \"x yz\": 262"});
    CHECK_IDS(t, "ab", 0, 256);
    cero_tokenizer_destroy(&t);

    cero_text json = {0};
    small_byte_level_json(&(small_params){.merges = "[\"a b\", \"a b c\"]"}, &json);
    assert_fails(cero_tokenizer_parse("x.json", json.data, json.length, NULL, &t), CERO_ERR_CORRUPT,
                 "merge 1 is \"a b c\"");
    json.length = 0;
    small_byte_level_json(&(small_params){.merges = "[\"a b\", \"a q\"]"}, &json);
    assert_fails(cero_tokenizer_parse("x.json", json.data, json.length, NULL, &t), CERO_ERR_CORRUPT,
                 "merge 1 needs the token \"aq\"");
    cero_text_cleanup(&json);
}

/* TK-08 */
static void test_any_bytes(void **state)
{
    CERO_UNUSED(state);
    cero_tokenizer *t = small_byte_level(&(small_params){0});
    CHECK_IDS(t,
              "a\xFF\xFE"
              "b",
              0, 'a', 0xFF, 0xFE, 'b');
    cero_text out = {0};
    assert_ok(cero_tokenizer_decode(t, (const int32_t[]){0xC3}, 1, 0, &out));
    assert_int_equal(out.length, 1);
    assert_int_equal((unsigned char)out.data[0], 0xC3);
    assert_fails(cero_tokenizer_decode(t, (const int32_t[]){97, 261}, 2, 0, &out), CERO_ERR_INVALID,
                 "id 261 at position 1");
    cero_text_cleanup(&out);

    uint8_t bytes[512];
    cero_rng_key key = cero_rng_make_key(5, CERO_RNG_TEST, 0, 0);
    for (uint64_t sample = 0; sample < 2000; sample++) {
        size_t length = sample % sizeof(bytes);
        for (size_t i = 0; i < length; i++) {
            uint32_t word = cero_rng_word(key, sample, i);
            bytes[i] = word % 3 == 0 ? (uint8_t)(word >> 8) : (uint8_t) "ab c\n"[(word >> 8) % 5];
        }
        check_round_trip(t, bytes, length);
    }
    cero_tokenizer_destroy(&t);
}

static double encode_seconds(cero_tokenizer *t, size_t length)
{
    char *text = cero_new(length, 1);
    cero_token_ids ids = {0};
    assert_non_null(text);
    memset(text, 'a', length);
    clock_t begin = clock(); // of the processor: the machine may be busy with other things
    assert_ok(cero_tokenizer_encode(t, text, length, 0, &ids));
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    cero_token_ids_cleanup(&ids);
    cero_delete(text);
    return seconds;
}

/* TK-09. The bounds are wide: what they catch is a quadratic loop. */
static void test_long_piece(void **state)
{
    CERO_UNUSED(state);
    char path[512];
    cero_tokenizer *t = NULL;
    struct rusage usage;
    assert_ok(cero_tokenizer_open(shared_path("data/gpt2", path, sizeof(path)), &t));
    double half = encode_seconds(t, 512 * 1024);
    double whole = encode_seconds(t, 4 * 1024 * 1024);
    (void)getrusage(RUSAGE_SELF, &usage);
    print_message("512 KiB: %.3f s, 4 MiB: %.3f s\n", half, whole);
    assert_true(half < 5.0);
    assert_true(whole < 12.0 * (half > 0.05 ? half : 0.05) + 1.0);
    assert_true(usage.ru_maxrss < 400L * 1024 + 100L * 4 * 1024);
    cero_tokenizer_destroy(&t);
}

/* The scan for short pieces and the heap for long ones agree with the definition. */
static void test_merge_order(void **state)
{
    CERO_UNUSED(state);
    cero_tokenizer *t = small_byte_level(&(small_params){0});
    cero_rng_key key = cero_rng_make_key(6, CERO_RNG_TEST, 0, 0);
    for (uint64_t sample = 0; sample < 500; sample++) {
        char text[400];
        int32_t expected[400];
        int64_t count = 0;
        size_t length = 1 + sample % 399;
        for (size_t i = 0; i < length; i++) {
            text[i] = "abc"[cero_rng_word(key, sample, i) % 3];
        }
        // Merge rank by rank from the left, over the whole text each time: the definition.
        for (size_t i = 0; i < length; i++) {
            expected[count++] = (unsigned char)text[i];
        }
        static const int32_t merges[3][3] = {{'a', 'b', 256}, {256, 'c', 257}, {'b', 'c', 258}};
        for (int m = 0; m < 3; m++) {
            int64_t kept = 0;
            for (int64_t i = 0; i < count; i++) {
                bool is_pair =
                    i + 1 < count && expected[i] == merges[m][0] && expected[i + 1] == merges[m][1];
                expected[kept++] = is_pair ? merges[m][2] : expected[i];
                i += is_pair;
            }
            count = kept;
        }
        check_ids(t, text, length, 0, expected, count);
        check_ids(t, text, length, 0, expected, count); // and from the cache
    }
    cero_tokenizer_destroy(&t);
}

/* TK-15 */
static void test_no_regex(void **state)
{
    CERO_UNUSED(state);
    small_params p = {.vocab = ", \"a\xC4\xA0"
                               "b\": 261",
                      .model = "\"ignore_merges\": true,"};
    p.pre_tokenizer =
        "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}";
    cero_tokenizer *t = small_byte_level(&p);
    CHECK_IDS(t, "a b", 0, 261);
    cero_tokenizer_destroy(&t);
    p.pre_tokenizer = "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": true}";
    t = small_byte_level(&p);
    CHECK_IDS(t, "a b", 0, 'a', ' ', 'b');
    cero_tokenizer_destroy(&t);
    p.pre_tokenizer = "{\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"use_regex\": true}";
    t = small_byte_level(&p);
    CHECK_IDS(t, "a b", 0, 259, ' ', 'b');
    check_ids(t, "", 0, 0, NULL, 0);
    cero_tokenizer_destroy(&t);
}

/* Which pieces a behavior makes is seen through tokens that are whole pieces. */
static void check_behavior(const char *pre_tokenizer, const char *vocab, const int32_t *expected,
                           int64_t count)
{
    cero_tokenizer *t = small_byte_level(&(small_params){.pre_tokenizer = pre_tokenizer,
                                                         .vocab = vocab,
                                                         .merges = "[]",
                                                         .model = "\"ignore_merges\": true,"});
    check_ids(t, "the--final", 10, 0, expected, count);
    cero_tokenizer_destroy(&t);
}

static void test_behaviors(void **state)
{
    CERO_UNUSED(state);
    const char *vocab =
        ", \"the\": 261, \"final\": 262, \"the-\": 263, \"-final\": 264, \"--\": 265";
    check_behavior(SPLIT("{\"String\": \"-\"}", "Isolated"), vocab,
                   (const int32_t[]){261, '-', '-', 262}, 4);
    check_behavior(SPLIT("{\"String\": \"-\"}", "Removed"), vocab, (const int32_t[]){261, 262}, 2);
    check_behavior(SPLIT("{\"String\": \"-\"}", "MergedWithPrevious"), vocab,
                   (const int32_t[]){263, '-', 262}, 3);
    check_behavior(SPLIT("{\"String\": \"-\"}", "MergedWithNext"), vocab,
                   (const int32_t[]){261, '-', 264}, 3);
    check_behavior(SPLIT("{\"String\": \"-\"}", "Contiguous"), vocab,
                   (const int32_t[]){261, 265, 262}, 3);
}

static void test_added_tokens(void **state)
{
    CERO_UNUSED(state);
    cero_tokenizer *t = small_byte_level(&(small_params){
        .added = ", {\"id\": 261, \"content\": \"<m>\", \"lstrip\": true, \"special\": false}"
                 ", {\"id\": 262, \"content\": \"<m>>\", \"rstrip\": true, \"special\": false}"
                 ", {\"id\": 300, \"content\": \"xy\", \"single_word\": true}"});
    CHECK_IDS(t, "b <m>b", 0, 'b', 261, 'b');
    CHECK_IDS(t, "b<m>> \n b", 0, 'b', 262, 'b'); // the longest wins
    CHECK_IDS(t, "axy xy", 0, 'a', 'x', 'y', ' ', 300);
    assert_int_equal(cero_tokenizer_vocab_size(t), 301);
    size_t length;
    assert_null(cero_tokenizer_token(t, 299, &length));
    assert_int_equal(cero_tokenizer_find(t, "<m>"), 261);
    assert_true(cero_tokenizer_is_special(t, 260));
    assert_false(cero_tokenizer_is_special(t, 261));
    cero_tokenizer_destroy(&t);
}

/* NFC, against values of the Unicode standard's examples. */
static void test_nfc(void **state)
{
    CERO_UNUSED(state);
    static const char *const pairs[][2] = {
        {"e\xCC\x81", "\xC3\xA9"},                                // e + acute
        {"\xE2\x84\xAB", "\xC3\x85"},                             // angstrom sign
        {"\xE1\xBA\x9B\xCC\xA3", "\xE1\xBA\x9B\xCC\xA3"},         // long s, dots
        {"D\xCC\x87\xCC\xA3", "\xE1\xB8\x8C\xCC\x87"},            // marks change places
        {"\xE0\xA5\x98", "\xE0\xA4\x95\xE0\xA4\xBC"},             // excluded from composition
        {"\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB", "\xED\x95\x9C"}, // Hangul
        {"a\xCD\x84x", "\xC3\xA4\xCC\x81x"},                      // a mark that decomposes
        {"plain", "plain"},
        {"\xCC\x81"
         "b",
         "\xCC\x81"
         "b"}, // a mark first
    };
    for (size_t i = 0; i < CERO_COUNT_OF(pairs); i++) {
        cero_text out = {0};
        const char *in = pairs[i][0];
        assert_ok(cero_nfc_append((const uint8_t *)in, strlen(in), &out));
        assert_string_equal(out.data, pairs[i][1]);
        bool is_same = strcmp(in, out.data) == 0;
        assert_true(is_same || !cero_nfc_is_plain((const uint8_t *)in, strlen(in)));
        cero_text_cleanup(&out);
    }
}

static void expect_error(const small_params *p, const char *message)
{
    cero_tokenizer *t = NULL;
    cero_text json = {0};
    small_byte_level_json(p, &json);
    cero_status st = cero_tokenizer_parse("bad.json", json.data, json.length, NULL, &t);
    assert_true(st == CERO_ERR_CORRUPT || st == CERO_ERR_UNSUPPORTED);
    assert_null(t);
    if (strstr(cero_error_message(), message) == NULL) {
        fail_msg("the message \"%s\" lacks \"%s\"", cero_error_message(), message);
    }
    cero_text_cleanup(&json);
}

static void test_unknown_parts(void **state)
{
    CERO_UNUSED(state);
    expect_error(&(small_params){.normalizer = "{\"type\": \"NFKC\"}"},
                 "bad.json:3:2: unknown normalizer \"NFKC\"");
    expect_error(&(small_params){.pre_tokenizer = "{\"type\": \"Bert\"}"},
                 "unknown pre-tokenizer \"Bert\"");
    expect_error(
        &(small_params){.pre_tokenizer = "{\"type\": \"ByteLevel\", \"use_regexp\": true}"},
        "unknown field \"use_regexp\" of ByteLevel; did you mean \"use_regex\"?");
    expect_error(&(small_params){.post_processor = "{\"type\": \"X\"}"},
                 "unknown post-processor \"X\"");
    expect_error(&(small_params){.decoder = "{\"type\": \"CTC\"}"}, "unknown decoder \"CTC\"");
    expect_error(&(small_params){.decoder = "null"}, "no decoder");
    expect_error(&(small_params){.model = "\"dropout\": 0.1,"}, "\"dropout\" is not offered");
    expect_error(&(small_params){.model = "\"end_of_word_suffix\": \"</w>\","},
                 "\"end_of_word_suffix\" is not offered");
    expect_error(&(small_params){.model = "\"unk_token\": \"zz\","},
                 "\"unk_token\" is not a token");
    expect_error(&(small_params){.model = "\"mergez\": 1,"}, "unknown field \"mergez\"");
    expect_error(&(small_params){.vocab = ", \"q1\": 7"}, "two tokens have id 7");
    expect_error(&(small_params){.vocab = ", \"q1\": 99999999999"}, "is outside 0..");
    expect_error(&(small_params){.vocab = ", \"q1\": 1.5"}, "bad.json:");
    expect_error(&(small_params){.added = ", {\"id\": 9, \"content\": \"ab\"}"},
                 "added token \"ab\" has id 9");
    expect_error(&(small_params){.added = ", {\"id\": 9, \"content\": \"\"}"}, "added token \"\"");
    expect_error(&(small_params){.pre_tokenizer = SPLIT("{\"Regex\": \"(a\"}", "Isolated")},
                 "no regular expression");
    expect_error(&(small_params){.pre_tokenizer = SPLIT("{\"Regex\": \"a\"}", "Melted")},
                 "unknown behavior \"Melted\"");
}

/* Every prefix of a file is refused, without a leak or a crash. */
static void test_truncated(void **state)
{
    CERO_UNUSED(state);
    cero_text json = {0};
    cero_tokenizer *t = NULL;
    small_byte_level_json(&(small_params){0}, &json);
    size_t whole = strlen(json.data) - 1; // the last byte is a line end
    for (size_t length = 0; length < whole; length++) {
        assert_int_not_equal(cero_tokenizer_parse("cut.json", json.data, length, NULL, &t),
                             CERO_OK);
        assert_null(t);
    }
    // And no byte changed to another makes it crash.
    cero_rng_key key = cero_rng_make_key(9, CERO_RNG_TEST, 0, 0);
    for (uint64_t i = 0; i < 3000; i++) {
        uint32_t word[4];
        cero_rng_block(key, 0, i, word);
        size_t at = word[0] % whole;
        char old = json.data[at];
        json.data[at] = (char)word[1];
        if (cero_tokenizer_parse("flip.json", json.data, whole, NULL, &t) == CERO_OK) {
            cero_token_ids ids = {0};
            (void)!cero_tokenizer_encode(t, "abc abc", 7, 0, &ids);
            cero_token_ids_cleanup(&ids);
            cero_tokenizer_destroy(&t);
        }
        json.data[at] = old;
    }
    cero_text_cleanup(&json);
}

static void test_no_memory(void **state)
{
    CERO_UNUSED(state);
    cero_text json = {0};
    cero_tokenizer *t = NULL;
    small_byte_level_json(&(small_params){.normalizer = "{\"type\": \"NFC\"}"}, &json);
    cero_status st = CERO_ERR_NOMEM;
    for (uint64_t n = 1; st != CERO_OK; n++) {
        cero_token_ids ids = {0};
        cero_mem_fail_at(n);
        st = cero_tokenizer_parse("small.json", json.data, json.length, NULL, &t);
        if (st == CERO_OK) {
            st = cero_tokenizer_encode(t, "e\xCC\x81 abcabc", 10, 0, &ids);
        }
        cero_mem_fail_at(0);
        assert_true(st == CERO_OK || st == CERO_ERR_NOMEM);
        cero_token_ids_cleanup(&ids);
        cero_tokenizer_destroy(&t);
    }
    cero_text_cleanup(&json);
}

static void test_save(void **state)
{
    CERO_UNUSED(state);
    char dir[] = "/tmp/cero-tokenizer-XXXXXX";
    char path[128];
    cero_tokenizer *t = NULL;
    cero_text json = {0};
    assert_non_null(mkdtemp(dir));
    small_byte_level_json(&(small_params){.vocab = ", \"<eod>\": 261"}, &json);
    assert_ok(cero_tokenizer_parse("a", json.data, json.length,
                                   "{\"eos_token\": {\"content\": \"<eod>\"}, \"x\": 1}", &t));
    assert_int_equal(cero_tokenizer_eos(t), 261);
    assert_ok(cero_tokenizer_save(t, dir));
    uint64_t hash = cero_tokenizer_hash(t);
    cero_tokenizer_destroy(&t);
    assert_ok(cero_tokenizer_open(dir, &t));
    assert_int_equal(cero_tokenizer_eos(t), 261);
    assert_true(cero_tokenizer_hash(t) == hash);
    cero_tokenizer_destroy(&t);
    (void)snprintf(path, sizeof(path), "%s/tokenizer.json", dir);
    assert_ok(cero_tokenizer_open(path, &t));
    cero_tokenizer_destroy(&t);
    assert_fails(cero_tokenizer_parse("a", json.data, json.length, "{\"eos_token\": \"<no>\"}", &t),
                 CERO_ERR_CORRUPT, "eos_token \"<no>\" is not a token");
    cero_text_cleanup(&json);
    (void)unlink(path);
    assert_fails(cero_tokenizer_open(dir, &t), CERO_ERR_IO, "tokenizer.json");
    (void)snprintf(path, sizeof(path), "%s/tokenizer_config.json", dir);
    (void)unlink(path);
    (void)rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_special_text),  cmocka_unit_test(test_prepend_schemes),
        cmocka_unit_test(test_byte_fallback), cmocka_unit_test(test_literal_pattern),
        cmocka_unit_test(test_merge_forms),   cmocka_unit_test(test_any_bytes),
        cmocka_unit_test(test_long_piece),    cmocka_unit_test(test_merge_order),
        cmocka_unit_test(test_no_regex),      cmocka_unit_test(test_behaviors),
        cmocka_unit_test(test_added_tokens),  cmocka_unit_test(test_nfc),
        cmocka_unit_test(test_unknown_parts), cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_no_memory),     cmocka_unit_test(test_save),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
