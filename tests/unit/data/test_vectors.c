/* Published tokenizer files give the reference's ids on every stored text, and the texts back. */
#include "harness.h"

#include "base/file.h"
#include "base/json.h"
#include "data/tokenizer.h"

static void check_line(cero_tokenizer *tokenizer, const cero_json *line, int number)
{
    const cero_json *text = cero_json_find(line, "text");
    const cero_json *decoded = cero_json_find(line, "decoded");
    const cero_json *ids = cero_json_find(line, "ids");
    cero_token_ids out = {0};
    cero_text back = {0};

    assert_ok(cero_tokenizer_encode(tokenizer, text->text, text->text_length, 0, &out));
    int64_t i = 0;
    for (const cero_json *id = ids->child; id != NULL; id = id->next, i++) {
        int64_t expected;
        assert_ok(cero_json_int(id, &expected));
        if (i >= out.count || out.id[i] != expected) {
            fail_msg("line %d, id %d: expected %d of %d, got %d of %d", number, (int)i,
                     (int)expected, (int)ids->count, i < out.count ? out.id[i] : -1,
                     (int)out.count);
        }
    }
    assert_int_equal(out.count, ids->count);
    // The long excerpts have no "decoded": it is the text.
    const cero_json *expected = decoded != NULL ? decoded : text;
    assert_ok(cero_tokenizer_decode(tokenizer, out.id, out.count, 0, &back));
    assert_int_equal(back.length, expected->text_length);
    if (back.length > 0) {
        assert_memory_equal(back.data, expected->text, back.length);
    }
    cero_text_cleanup(&back);
    cero_token_ids_cleanup(&out);
}

static void check_file(const char *tokenizer_dir, const char *vectors)
{
    char path[512];
    cero_tokenizer *tokenizer = NULL;
    char *bytes = NULL;
    size_t length;
    int number = 0;

    (void)shared_path(vectors, path, sizeof(path));
    assert_ok(cero_file_read(path, 1 << 24, &bytes, &length));
    (void)shared_path(tokenizer_dir, path, sizeof(path));
    assert_ok(cero_tokenizer_open(path, &tokenizer));
    for (char *line = bytes; *line != '\0';) {
        size_t n = strcspn(line, "\n");
        cero_json_document *document = NULL;
        number++;
        assert_ok(cero_json_parse(vectors, line, n, NULL, &document));
        check_line(tokenizer, cero_json_root(document), number);
        cero_json_destroy(&document);
        line += n + (line[n] == '\n');
    }
    assert_int_equal(number, 60);
    cero_delete(bytes);
    cero_tokenizer_destroy(&tokenizer);
}

static void test_gpt2(void **state)
{
    CERO_UNUSED(state);
    check_file("data/gpt2", "data/tokenizer_vectors/gpt2.jsonl");
}

static void test_qwen3(void **state)
{
    CERO_UNUSED(state);
    check_file("data/qwen3", "data/tokenizer_vectors/qwen3.jsonl");
}

static void test_shakespeare(void **state)
{
    CERO_UNUSED(state);
    char path[512];
    cero_tokenizer *tokenizer = NULL;
    cero_file_map map;
    cero_token_ids ids = {0};
    cero_text back = {0};

    assert_ok(cero_tokenizer_open(shared_path("data/gpt2/tokenizer.json", path, sizeof(path)),
                                  &tokenizer));
    assert_ok(
        cero_file_map_open(shared_path("data/tinyshakespeare.txt", path, sizeof(path)), &map));
    assert_ok(cero_tokenizer_encode(tokenizer, map.data, map.length, 0, &ids));
    assert_int_equal(ids.count, 338025);
    assert_int_equal(cero_tokenizer_vocab_size(tokenizer), 50257);
    assert_int_equal(cero_tokenizer_eos(tokenizer), 50256);
    assert_ok(cero_tokenizer_decode(tokenizer, ids.id, ids.count, 0, &back));
    assert_int_equal(back.length, map.length);
    assert_memory_equal(back.data, map.data, map.length);
    cero_text_cleanup(&back);
    cero_token_ids_cleanup(&ids);
    cero_file_map_close(&map);
    cero_tokenizer_destroy(&tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt2),
        cmocka_unit_test(test_qwen3),
        cmocka_unit_test(test_shakespeare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
