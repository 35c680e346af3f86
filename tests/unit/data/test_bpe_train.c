/* Training gives the merges the definition gives, always the same file, and text comes back whole. */
#include "harness.h"

#include "base/file.h"
#include "base/rng.h"
#include "data/bpe_train.h"

#include <time.h>
#include <unistd.h>

static cero_tokenizer *train(const char *text, size_t length, int64_t vocab_size)
{
    cero_bpe_trainer *trainer = NULL;
    cero_tokenizer *tokenizer = NULL;
    assert_ok(
        cero_bpe_trainer_create(&(cero_bpe_train_params){.vocab_size = vocab_size}, &trainer));
    assert_ok(cero_bpe_trainer_add(trainer, text, length));
    assert_ok(cero_bpe_trainer_finish(trainer, &tokenizer));
    cero_bpe_trainer_destroy(&trainer);
    return tokenizer;
}

static void check_token(const cero_tokenizer *t, int64_t id, const char *text)
{
    size_t length = 0;
    const char *bytes = cero_tokenizer_token(t, id, &length);
    assert_non_null(bytes);
    assert_int_equal(length, strlen(text));
    assert_memory_equal(bytes, text, length);
}

/* Counts by hand: pieces "low" 5, "lower" 2, "newest" 6, "widest" 3 (Sennrich's example). */
static void test_example(void **state)
{
    CERO_UNUSED(state);
    cero_text text = {0};
    static const struct {
        const char *piece;
        int count;
    } pieces[] = {{"low", 5}, {"lower", 2}, {"newest", 6}, {"widest", 3}};
    for (size_t i = 0; i < CERO_COUNT_OF(pieces); i++) {
        for (int n = 0; n < pieces[i].count; n++) {
            // The special text separates without being a part of any piece.
            cero_text_printf(&text, "%s<|endoftext|>", pieces[i].piece);
        }
    }
    cero_tokenizer *t = train(text.data, text.length, 256 + 7);
    // es 9 (of es and st the smaller ids), est 9, lo 7, low 7, ew 6 (of ew, ne and w est), new 6.
    check_token(t, 256, "es");
    check_token(t, 257, "est");
    check_token(t, 258, "lo");
    check_token(t, 259, "low");
    check_token(t, 260, "ew");
    check_token(t, 261, "new");
    check_token(t, 262, "<|endoftext|>");
    assert_int_equal(cero_tokenizer_vocab_size(t), 263);
    assert_int_equal(cero_tokenizer_eos(t), 262);
    cero_tokenizer_destroy(&t);
    cero_text_cleanup(&text);
}

enum {
    PIECES = 40,
    LENGTH = 10
};

/* The slow twin: counts all pairs anew for each merge. Symbols are texts in a table. */
typedef struct slow {
    int32_t symbol[PIECES][LENGTH];
    int length[PIECES];
    int left[64];
    int right[64];
    char text[320][LENGTH * LENGTH];
    int count;
} slow;

static bool slow_merge(slow *s)
{
    int best = 1;
    int64_t best_key = -1;
    for (int p = 0; p < PIECES; p++) {
        for (int i = 0; i + 1 < s->length[p]; i++) {
            int64_t key = (int64_t)s->symbol[p][i] << 32 | s->symbol[p][i + 1];
            int count = 0;
            for (int q = 0; q < PIECES; q++) {
                for (int k = 0; k + 1 < s->length[q]; k++) {
                    count += ((int64_t)s->symbol[q][k] << 32 | s->symbol[q][k + 1]) == key;
                }
            }
            if (count > best || (count == best && best_key >= 0 && key < best_key)) {
                best = count;
                best_key = key;
            }
        }
    }
    if (best_key < 0) {
        return false;
    }
    int left = (int)(best_key >> 32);
    int right = (int)(best_key & 0x7FFFFFFF);
    char text[LENGTH * LENGTH];
    (void)snprintf(text, sizeof(text), "%.49s%.49s", s->text[left], s->text[right]);
    int id = -1;
    for (int i = 0; i < s->count && id < 0; i++) {
        id = strcmp(s->text[i], text) == 0 ? i : -1;
    }
    if (id < 0) {
        id = s->count++;
        (void)snprintf(s->text[id], sizeof(s->text[id]), "%s", text);
    }
    for (int p = 0; p < PIECES; p++) {
        int kept = 0;
        for (int i = 0; i < s->length[p]; i++) {
            bool is_pair =
                i + 1 < s->length[p] && s->symbol[p][i] == left && s->symbol[p][i + 1] == right;
            s->symbol[p][kept++] = is_pair ? id : s->symbol[p][i];
            i += is_pair;
        }
        s->length[p] = kept;
    }
    return true;
}

static void test_against_definition(void **state)
{
    CERO_UNUSED(state);
    static slow s;
    for (uint64_t seed = 0; seed < 20; seed++) {
        cero_rng_key key = cero_rng_make_key(seed, CERO_RNG_TEST, 1, 0);
        cero_text text = {0};
        memset(&s, 0, sizeof(s));
        s.count = 256;
        for (int id = 0; id < 94; id++) { // '!' .. '~' come first in the byte alphabet
            s.text[id][0] = (char)('!' + id);
        }
        for (int p = 0; p < PIECES; p++) {
            s.length[p] = 2 + (int)(cero_rng_word(key, (uint64_t)p, 0) % (LENGTH - 2));
            for (int i = 0; i < s.length[p]; i++) {
                char c = "abc"[cero_rng_word(key, (uint64_t)p, (uint64_t)i + 1) % 3];
                s.symbol[p][i] = c - '!';
                cero_text_append(&text, &c, 1);
            }
            cero_text_append(&text, "<|endoftext|>", 13);
        }
        cero_tokenizer *t = train(text.data, text.length, 256 + 31);
        while (s.count < 256 + 30 && slow_merge(&s)) {
        }
        assert_int_equal(cero_tokenizer_vocab_size(t), s.count + 1);
        for (int id = 256; id < s.count; id++) {
            check_token(t, id, s.text[id]);
        }
        cero_tokenizer_destroy(&t);
        cero_text_cleanup(&text);
    }
}

static void test_same_file(void **state)
{
    CERO_UNUSED(state);
    char path[512];
    char dir[] = "/tmp/cero-train-XXXXXX";
    cero_file_map map;
    assert_ok(
        cero_file_map_open(shared_path("data/tinyshakespeare.txt", path, sizeof(path)), &map));
    clock_t begin = clock();
    cero_tokenizer *a = train((const char *)map.data, map.length, 2048);
    print_message("1.1 MB, vocabulary 2048: %.2f s\n", (double)(clock() - begin) / CLOCKS_PER_SEC);
    cero_tokenizer *b = train((const char *)map.data, map.length, 2048);
    assert_true(cero_tokenizer_hash(a) == cero_tokenizer_hash(b));
    assert_int_equal(cero_tokenizer_vocab_size(a), 2048);
    cero_tokenizer_destroy(&b);

    assert_non_null(mkdtemp(dir));
    assert_ok(cero_tokenizer_save(a, dir));
    assert_ok(cero_tokenizer_open(dir, &b));
    assert_int_equal(cero_tokenizer_eos(b), 2047);
    cero_token_ids ids = {0};
    cero_text back = {0};
    assert_ok(cero_tokenizer_encode(b, map.data, map.length, 0, &ids));
    assert_true(ids.count < (int64_t)map.length / 2); // it does compress
    assert_ok(cero_tokenizer_decode(b, ids.id, ids.count, 0, &back));
    assert_int_equal(back.length, map.length);
    assert_memory_equal(back.data, map.data, map.length);
    cero_text_cleanup(&back);
    cero_token_ids_cleanup(&ids);
    cero_tokenizer_destroy(&a);
    cero_tokenizer_destroy(&b);
    cero_file_map_close(&map);
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json"};
    for (int i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        assert_int_equal(unlink(path), 0);
    }
    (void)rmdir(dir);
}

static void test_edges(void **state)
{
    CERO_UNUSED(state);
    cero_bpe_trainer *trainer = NULL;
    cero_tokenizer *t = NULL;
    assert_fails(cero_bpe_trainer_create(&(cero_bpe_train_params){.vocab_size = 256}, &trainer),
                 CERO_ERR_INVALID, "a vocabulary of 256 was asked for, expected 257");
    assert_ok(cero_bpe_trainer_create(&(cero_bpe_train_params){.vocab_size = 300}, &trainer));
    assert_ok(cero_bpe_trainer_add(trainer, "<|endoftext|>", 13));
    assert_fails(cero_bpe_trainer_finish(trainer, &t), CERO_ERR_INVALID, "no text to train");
    cero_bpe_trainer_destroy(&trainer);
    t = train("abab \xFF\xFE \xFF\xFE", 10, 1000); // fewer pairs than asked for, and no UTF-8
    assert_true(cero_tokenizer_vocab_size(t) < 1000);
    cero_tokenizer_destroy(&t);
    t = train("x", 1, 257); // the smallest
    assert_int_equal(cero_tokenizer_vocab_size(t), 257);
    cero_tokenizer_destroy(&t);
}

static void test_no_memory(void **state)
{
    CERO_UNUSED(state);
    cero_status st = CERO_ERR_NOMEM;
    for (uint64_t n = 1; st != CERO_OK; n++) {
        cero_bpe_trainer *trainer = NULL;
        cero_tokenizer *t = NULL;
        cero_mem_fail_at(n);
        st = cero_bpe_trainer_create(&(cero_bpe_train_params){.vocab_size = 270}, &trainer);
        st = st == CERO_OK ? cero_bpe_trainer_add(trainer, "banana bandana", 14) : st;
        st = st == CERO_OK ? cero_bpe_trainer_finish(trainer, &t) : st;
        cero_mem_fail_at(0);
        assert_true(st == CERO_OK || st == CERO_ERR_NOMEM);
        cero_tokenizer_destroy(&t);
        cero_bpe_trainer_destroy(&trainer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_example),   cmocka_unit_test(test_against_definition),
        cmocka_unit_test(test_same_file), cmocka_unit_test(test_edges),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
