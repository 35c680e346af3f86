/* Token files of every kind are read whole, with 64-bit offsets and every id checked, or refused. */
#include "harness.h"

#include "base/file.h"
#include "base/rng.h"
#include "data/tokens.h"
#include "small_tokenizer.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64];
static char name_buffer[4][256];

/* A path in the test's folder; four may be in use at a time. */
static const char *in_dir(const char *name)
{
    static int turn;
    char *buffer = name_buffer[turn++ % 4];
    (void)snprintf(buffer, sizeof(name_buffer[0]), "%s/%s", dir, name);
    return buffer;
}

static void put_file(const char *name, const void *bytes, size_t length)
{
    (void)unlink(in_dir(name)); // a file that is cut short and written again is slow on ext4
    FILE *f = fopen(in_dir(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, length, f), length);
    assert_int_equal(fclose(f), 0);
}

static cero_status open_one(const char *path, int64_t vocab_size, cero_token_stream **stream)
{
    const char *const paths[] = {path};
    return cero_token_stream_open(
        &(cero_token_stream_params){.path = paths, .path_count = 1, .vocab_size = vocab_size},
        stream);
}

static void expect_ids(cero_token_stream *stream, const int32_t *expected, int64_t count)
{
    int32_t ids[64];
    assert_int_equal(cero_token_stream_count(stream), count);
    assert_ok(cero_token_stream_read(stream, 0, count, ids));
    assert_memory_equal(ids, expected, (size_t)count * sizeof(ids[0]));
}

static void write_tokens(const char *path, cero_token_format format, int64_t vocab_size,
                         const int32_t *ids, int64_t count)
{
    cero_token_writer *writer = NULL;
    assert_ok(cero_token_writer_open(path, format, vocab_size, &writer));
    assert_ok(cero_token_writer_add(writer, ids, count / 2));
    assert_ok(cero_token_writer_end_document(writer));
    assert_ok(cero_token_writer_add(writer, ids + count / 2, count - count / 2));
    assert_ok(cero_token_writer_commit(writer));
    cero_token_writer_close(&writer);
}

static const struct {
    cero_token_format format;
    const char *path; /* written */
    const char *file; /* read */
} kinds[] = {
    {CERO_TOKENS_MEGATRON, "m", "m"},     {CERO_TOKENS_MEGATRON, "m", "m.bin"},
    {CERO_TOKENS_MEGATRON, "m", "m.idx"}, {CERO_TOKENS_U16, "r.u16", "r.u16"},
    {CERO_TOKENS_U32, "r.u32", "r.u32"},  {CERO_TOKENS_NPY, "n.npy", "n.npy"},
};

static void test_round_trip(void **state)
{
    CERO_UNUSED(state);
    const int32_t ids[] = {0, 1, 65, 300, 50256, 49999, 7};
    for (size_t k = 0; k < CERO_COUNT_OF(kinds); k++) {
        cero_token_stream *stream = NULL;
        write_tokens(in_dir(kinds[k].path), kinds[k].format, 50257, ids, 7);
        assert_ok(open_one(in_dir(kinds[k].file), 50257, &stream));
        expect_ids(stream, ids, 7);
        cero_token_stream_close(&stream);
        // TK-18: the file, the byte, the id and the vocabulary are named.
        int32_t out[8];
        assert_ok(open_one(in_dir(kinds[k].file), 50256, &stream));
        assert_fails(cero_token_stream_read(stream, 0, 7, out), CERO_ERR_CORRUPT,
                     "token 4 at byte ");
        assert_non_null(strstr(cero_error_message(), "is 50256, the vocabulary is 50256"));
        assert_ok(cero_token_stream_read(stream, 5, 2, out));
        assert_fails(cero_token_stream_read(stream, 5, 3, out), CERO_ERR_INVALID, "5 .. 8");
        cero_token_stream_close(&stream);
    }
}

/* DA-01: ids beyond 16 bits are kept; a writer that cannot hold them is refused. */
static void test_wide_ids(void **state)
{
    CERO_UNUSED(state);
    const int32_t ids[] = {65541, 119546, 0};
    cero_token_writer *writer = NULL;
    for (size_t k = 0; k < CERO_COUNT_OF(kinds); k++) {
        cero_token_stream *stream = NULL;
        if (kinds[k].format == CERO_TOKENS_U16) {
            assert_fails(cero_token_writer_open(in_dir("x.u16"), CERO_TOKENS_U16, 119547, &writer),
                         CERO_ERR_INVALID, "119547 does not fit 16 bits");
            continue;
        }
        write_tokens(in_dir(kinds[k].path), kinds[k].format, 119547, ids, 3);
        assert_ok(open_one(in_dir(kinds[k].file), 119547, &stream));
        expect_ids(stream, ids, 3);
        cero_token_stream_close(&stream);
    }
    // Megatron's limit for 16 bits.
    int64_t nbytes;
    write_tokens(in_dir("a"), CERO_TOKENS_MEGATRON, 65499, (const int32_t[]){1, 2}, 2);
    assert_int_equal(cero_file_stat(in_dir("a.bin"), &nbytes), CERO_FILE_REGULAR);
    assert_int_equal(nbytes, 4);
    write_tokens(in_dir("a"), CERO_TOKENS_MEGATRON, 65500, (const int32_t[]){1, 2}, 2);
    assert_int_equal(cero_file_stat(in_dir("a.bin"), &nbytes), CERO_FILE_REGULAR);
    assert_int_equal(nbytes, 8);
    assert_ok(cero_token_writer_open(in_dir("x.u32"), CERO_TOKENS_U32, 100, &writer));
    assert_fails(cero_token_writer_add(writer, (const int32_t[]){5, 100}, 2), CERO_ERR_INVALID,
                 "token 1 is 100, the vocabulary is 100");
    cero_token_writer_close(&writer);
    assert_int_equal(cero_file_stat(in_dir("x.u32"), NULL), CERO_FILE_ABSENT);
}

/* The .idx is what Megatron writes, byte for byte. */
static void test_idx_bytes(void **state)
{
    CERO_UNUSED(state);
    static const unsigned char expected[] = {
        'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 8, // version, u16
        2,   0,   0,   0,   0,   0,   0,   0, 3, 0, 0, 0, 0, 0, 0, 0,       // counts
        1,   0,   0,   0,   2,   0,   0,   0,                               // lengths
        0,   0,   0,   0,   0,   0,   0,   0, 2, 0, 0, 0, 0, 0, 0, 0,       // pointers
        0,   0,   0,   0,   0,   0,   0,   0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0};
    char *bytes = NULL;
    size_t length;
    write_tokens(in_dir("m"), CERO_TOKENS_MEGATRON, 100, (const int32_t[]){7, 8, 9}, 3);
    assert_ok(cero_file_read(in_dir("m.idx"), 1000, &bytes, &length));
    assert_int_equal(length, sizeof(expected));
    assert_memory_equal(bytes, expected, length);
    cero_delete(bytes);
}

/* Every prefix and many changed bytes of a file: a clean error, or ids inside the vocabulary. */
static void harm(const char *name, const char *to_open)
{
    char *bytes = NULL;
    size_t length;
    cero_token_stream *stream = NULL;
    cero_rng_key key = cero_rng_make_key(8, CERO_RNG_TEST, 0, 0);
    assert_ok(cero_file_read(in_dir(name), 100000, &bytes, &length));
    for (size_t cut = 0; cut < length; cut++) {
        put_file(name, bytes, cut);
        cero_status st = open_one(in_dir(to_open), 100, &stream);
        assert_true(st == CERO_ERR_CORRUPT || st == CERO_ERR_INVALID || st == CERO_ERR_UNSUPPORTED);
        assert_null(stream);
    }
    for (uint64_t i = 0; i < 2000; i++) {
        uint32_t word[4];
        cero_rng_block(key, 0, i, word);
        char *place = &bytes[word[0] % length];
        char old = *place;
        *place = (char)word[1];
        put_file(name, bytes, length);
        if (open_one(in_dir(to_open), 100, &stream) == CERO_OK) {
            int32_t out[64];
            int64_t count = cero_token_stream_count(stream);
            assert_true(count <= 64);
            if (cero_token_stream_read(stream, 0, count, out) == CERO_OK) {
                for (int64_t k = 0; k < count; k++) {
                    assert_true(out[k] >= 0 && out[k] < 100);
                }
            }
            cero_token_stream_close(&stream);
        }
        *place = old;
    }
    put_file(name, bytes, length);
    cero_delete(bytes);
}

static void test_harmed(void **state)
{
    CERO_UNUSED(state);
    const int32_t ids[] = {1, 2, 3, 4, 5, 6};
    write_tokens(in_dir("m"), CERO_TOKENS_MEGATRON, 100, ids, 6);
    write_tokens(in_dir("n.npy"), CERO_TOKENS_NPY, 100, ids, 6);
    harm("m.idx", "m");
    harm("m.bin", "m");
    harm("n.npy", "n.npy");
    put_file("r.u32", "12345", 5);
    cero_token_stream *stream = NULL;
    assert_fails(open_one(in_dir("r.u32"), 0, &stream), CERO_ERR_CORRUPT,
                 "5 bytes found, expected a multiple of 4");
    put_file("lone.bin", "1234", 4);
    assert_fails(open_one(in_dir("lone.bin"), 0, &stream), CERO_ERR_IO, "lone.idx is not there");
    assert_fails(open_one(in_dir("nothing"), 0, &stream), CERO_ERR_IO, "nothing is not there");
    // DA-06
    put_file("empty.u16", "", 0);
    assert_fails(open_one(in_dir("empty.u16"), 0, &stream), CERO_ERR_INVALID, "empty (0 bytes)");
}

/* An index that promises more than memory can hold, in the 64-bit fields that could overflow. */
static void test_hostile_idx(void **state)
{
    CERO_UNUSED(state);
    static const uint64_t huge[] = {UINT64_MAX, UINT64_C(1) << 63, UINT64_C(1) << 62,
                                    UINT64_MAX / 12 + 1, UINT64_C(1) << 32};
    char *bytes = NULL;
    size_t length;
    cero_token_stream *stream = NULL;
    write_tokens(in_dir("m"), CERO_TOKENS_MEGATRON, 100, (const int32_t[]){1, 2, 3}, 3);
    assert_ok(cero_file_read(in_dir("m.idx"), 1000, &bytes, &length));
    for (size_t field = 18; field + 8 <= length; field += 4) {
        char old[8];
        memcpy(old, bytes + field, 8);
        for (size_t i = 0; i < CERO_COUNT_OF(huge); i++) {
            if (memcmp(old, &huge[i], 8) == 0) {
                continue;
            }
            memcpy(bytes + field, &huge[i], 8);
            put_file("m.idx", bytes, length);
            assert_fails(open_one(in_dir("m"), 100, &stream), CERO_ERR_CORRUPT, ".idx");
        }
        memcpy(bytes + field, old, 8);
    }
    cero_delete(bytes);
}

static void put_npy(const char *head, const void *data, size_t length, unsigned char version)
{
    cero_text file = {0};
    size_t n = strlen(head);
    unsigned char size[4] = {(unsigned char)n, (unsigned char)(n >> 8), 0, 0};
    cero_text_append(&file, "\x93NUMPY", 6);
    cero_text_append(&file, (const char *)&version, 1);
    cero_text_append(&file, "", 1);
    cero_text_append(&file, (const char *)size, version == 1 ? 2 : 4);
    cero_text_append(&file, head, n);
    cero_text_append(&file, data, length);
    put_file("v.npy", file.data, file.length);
    cero_text_cleanup(&file);
}

static void test_npy_forms(void **state)
{
    CERO_UNUSED(state);
    const int64_t wide[] = {3, 1, 2};
    const int32_t expected[] = {3, 1, 2};
    cero_token_stream *stream = NULL;
    for (unsigned char version = 1; version <= 3; version++) {
        put_npy("{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }   \n", wide, 24,
                version);
        assert_ok(open_one(in_dir("v.npy"), 10, &stream));
        expect_ids(stream, expected, 3);
        cero_token_stream_close(&stream);
    }
    put_npy("{\"shape\":(3,),\"fortran_order\":True,\"descr\":\"<i8\"}\n", wide, 24, 1);
    assert_ok(open_one(in_dir("v.npy"), 10, &stream));
    expect_ids(stream, expected, 3);
    cero_token_stream_close(&stream);
    put_npy("{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }\n", "\x03\x01\x02", 3, 1);
    assert_ok(open_one(in_dir("v.npy"), 10, &stream));
    expect_ids(stream, expected, 3);
    cero_token_stream_close(&stream);

    static const struct {
        const char *head;
        const char *message;
    } refused[] = {
        {"{'descr': '|O', 'fortran_order': False, 'shape': (3,), }\n", "the type is \"|O\""},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }\n", "the type is \"<f8\""},
        {"{'descr': '>i8', 'fortran_order': False, 'shape': (3,), }\n", "the type is \">i8\""},
        {"{'descr': '<i8', 'fortran_order': False, 'shape': (1, 3), }\n", "one dimension"},
        {"{'descr': '<i8', 'fortran_order': False, 'shape': (), }\n", "one dimension"},
        {"{'descr': '<i8', 'fortran_order': False, 'shape': (4,), }\n",
         "4 ids of 8 bytes expected"},
        {"{'descr': '<i8', 'fortran_order': False, 'shape': (99999999999999999999,), }\n",
         "smaller shape"},
        {"{'descr': '<i8', 'shape': (3,), }\n", "descr, fortran_order and shape"},
        {"{'descr': [('a', '<i8')], 'fortran_order': False, 'shape': (3,), }\n", "a string"},
        {"{'descr': '<i8', 'fortran_order': False, 'shape': (3,), } x\n", "a line end"},
        {"{'descr': '<i8', 'descr': '<i8', 'shape': (3,), }\n", "once each"},
        {"{'descr': '<i8", "short string"},
        {"", "{ at byte"},
    };
    for (size_t i = 0; i < CERO_COUNT_OF(refused); i++) {
        put_npy(refused[i].head, wide, 24, 1);
        cero_status st = open_one(in_dir("v.npy"), 10, &stream);
        assert_true(st == CERO_ERR_CORRUPT || st == CERO_ERR_UNSUPPORTED);
        if (strstr(cero_error_message(), refused[i].message) == NULL) {
            fail_msg("\"%s\" lacks \"%s\"", cero_error_message(), refused[i].message);
        }
    }
    put_npy(refused[0].head, wide, 24, 4);
    assert_fails(open_one(in_dir("v.npy"), 10, &stream), CERO_ERR_UNSUPPORTED, "version 4.0");
}

/* Negative and enormous ids of wide types. */
static void test_wild_ids(void **state)
{
    CERO_UNUSED(state);
    int32_t out[1];
    cero_token_stream *stream = NULL;
    const uint32_t high[] = {UINT32_MAX};
    const int64_t negative[] = {-1};
    put_file("h.u32", high, 4);
    assert_ok(open_one(in_dir("h.u32"), 0, &stream));
    assert_fails(cero_token_stream_read(stream, 0, 1, out), CERO_ERR_CORRUPT, "is 4294967295");
    cero_token_stream_close(&stream);
    put_npy("{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }\n", negative, 8, 1);
    assert_ok(open_one(in_dir("v.npy"), 0, &stream));
    assert_fails(cero_token_stream_read(stream, 0, 1, out), CERO_ERR_CORRUPT, "is -1");
    cero_token_stream_close(&stream);
    put_npy("{'descr': '<u8', 'fortran_order': False, 'shape': (1,), }\n", negative, 8, 1);
    assert_ok(open_one(in_dir("v.npy"), 0, &stream));
    assert_fails(cero_token_stream_read(stream, 0, 1, out), CERO_ERR_CORRUPT, "v.npy: token 0");
    cero_token_stream_close(&stream);
}

/* DA-03 */
static void test_sparse(void **state)
{
    CERO_UNUSED(state);
    int64_t nbytes = INT64_C(5) << 30;
    uint16_t last[4] = {11, 22, 33, 44};
    int32_t out[5];
    cero_token_stream *stream = NULL;
    struct rusage before;
    struct rusage after;
    int fd = open(in_dir("sparse.u16"), O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    if (ftruncate(fd, nbytes) != 0 ||
        pwrite(fd, last, sizeof(last), nbytes - 8) != (ssize_t)sizeof(last)) {
        (void)close(fd);
        skip(); // a file system without sparse files
    }
    (void)close(fd);
    (void)getrusage(RUSAGE_SELF, &before);
    assert_ok(open_one(in_dir("sparse.u16"), 100, &stream));
    int64_t count = cero_token_stream_count(stream);
    assert_int_equal(count, nbytes / 2);
    assert_ok(cero_token_stream_read(stream, count - 5, 5, out));
    const int32_t expected[] = {0, 11, 22, 33, 44};
    assert_memory_equal(out, expected, sizeof(expected));
    (void)getrusage(RUSAGE_SELF, &after);
    assert_true(after.ru_maxrss - before.ru_maxrss < 100 * 1024);
    cero_token_stream_close(&stream);
    (void)unlink(in_dir("sparse.u16"));
}

static void test_several_sources(void **state)
{
    CERO_UNUSED(state);
    cero_token_stream *stream = NULL;
    write_tokens(in_dir("a.u16"), CERO_TOKENS_U16, 100, (const int32_t[]){1, 2, 3}, 3);
    write_tokens(in_dir("b.u32"), CERO_TOKENS_U32, 100, (const int32_t[]){4}, 1);
    write_tokens(in_dir("c.npy"), CERO_TOKENS_NPY, 100, (const int32_t[]){5, 6, 7, 8}, 4);
    const char *const paths[] = {in_dir("a.u16"), in_dir("b.u32"), in_dir("c.npy")};
    assert_ok(cero_token_stream_open(
        &(cero_token_stream_params){.path = paths, .path_count = 3, .vocab_size = 100}, &stream));
    for (int64_t begin = 0; begin < 8; begin++) {
        for (int64_t n = 0; begin + n <= 8; n++) {
            int32_t out[8];
            assert_ok(cero_token_stream_read(stream, begin, n, out));
            for (int64_t i = 0; i < n; i++) {
                assert_int_equal(out[i], begin + i + 1);
            }
        }
    }
    cero_token_stream_close(&stream);
    assert_fails(cero_token_stream_open(&(cero_token_stream_params){0}, &stream), CERO_ERR_INVALID,
                 "no data");
}

static void make_texts(void)
{
    (void)mkdir(in_dir("texts"), 0700);
    (void)mkdir(in_dir("texts/sub"), 0700);
    put_file("texts/b.txt", "abc", 3);
    put_file("texts/a.txt", "b<|endoftext|>", 14);
    put_file("texts/empty.txt", "", 0);
    put_file("texts/sub/z.txt", "\n", 1);
    put_file("texts/.hidden", "xyz", 3);
}

/* A file is a document; the special text and the end-of-document token have their switches. */
static void test_text(void **state)
{
    CERO_UNUSED(state);
    cero_tokenizer *t = small_byte_level(&(small_params){0});
    cero_token_stream *stream = NULL;
    make_texts();
    const char *const paths[] = {in_dir("texts")};
    cero_token_stream_params p = {
        .path = paths, .path_count = 1, .tokenizer = t, .vocab_size = 261};
    for (int pass = 0; pass < 3; pass++) { // in memory, into the cache, out of the cache
        p.cache_dir = pass == 0 ? NULL : in_dir("cache");
        assert_ok(cero_token_stream_open(&p, &stream));
        expect_ids(stream, (const int32_t[]){'b', 260, 260, 257, 260, '\n', 260}, 7);
        assert_int_equal(cero_token_stream_documents(stream), 4);
        assert_int_equal(cero_token_stream_empty_documents(stream), 1);
        cero_token_stream_close(&stream);
    }
    p.no_eod = true;
    assert_ok(cero_token_stream_open(&p, &stream));
    expect_ids(stream, (const int32_t[]){'b', 260, 257, '\n'}, 4);
    cero_token_stream_close(&stream);
    p.no_special = true;
    assert_ok(cero_token_stream_open(&p, &stream));
    assert_int_equal(cero_token_stream_count(stream), 1 + 13 + 1 + 1);
    cero_token_stream_close(&stream);
    // TK-18
    p.vocab_size = 260;
    assert_fails(cero_token_stream_open(&p, &stream), CERO_ERR_INVALID,
                 "ids up to 260, the model's vocabulary is 260");
    p.tokenizer = NULL;
    assert_fails(cero_token_stream_open(&p, &stream), CERO_ERR_INVALID, "a tokenizer is needed");
    cero_tokenizer_destroy(&t);
}

static void test_text_refused(void **state)
{
    CERO_UNUSED(state);
    cero_tokenizer *t = small_byte_level(&(small_params){0});
    cero_token_stream *stream = NULL;
    (void)mkdir(in_dir("none"), 0700);
    (void)mkdir(in_dir("mixed"), 0700);
    put_file("mixed/a.txt", "a", 1);
    put_file("mixed/b.u16", "aa", 2);
    put_file("zero.txt", "", 0);
    put_file("x.txt.gz", "\x1F\x8B", 2);
    static const struct {
        const char *name;
        const char *message;
    } refused[] = {{"none", "holds no file"},
                   {"mixed", "b.u16 is a token file"},
                   {"zero.txt", "hold no token: 1 documents"},
                   {"x.txt.gz", "a .gz file is not text"}};
    for (size_t i = 0; i < CERO_COUNT_OF(refused); i++) {
        const char *const paths[] = {in_dir(refused[i].name)};
        cero_token_stream_params p = {.path = paths, .path_count = 1, .tokenizer = t};
        assert_fails(cero_token_stream_open(&p, &stream), CERO_ERR_INVALID, refused[i].message);
    }
    cero_tokenizer_destroy(&t);
}

/* A damaged cache is made again, and never believed. */
static void test_cache_damage(void **state)
{
    CERO_UNUSED(state);
    cero_tokenizer *t = small_byte_level(&(small_params){0});
    cero_token_stream *stream = NULL;
    cero_file_list list = {0};
    make_texts();
    const char *const paths[] = {in_dir("texts")};
    cero_token_stream_params p = {
        .path = paths, .path_count = 1, .tokenizer = t, .cache_dir = in_dir("cache2")};
    assert_ok(cero_token_stream_open(&p, &stream));
    cero_token_stream_close(&stream);
    assert_ok(cero_file_list_dir(in_dir("cache2"), false, &list));
    assert_int_equal(list.count, 1);
    char *bytes = NULL;
    size_t length;
    assert_ok(cero_file_read(list.path[0], 100000, &bytes, &length));
    (void)setenv("CERO_LOG", "error", 1);
    for (size_t i = 0; i <= length; i += 3) {
        for (int cut = 0; cut < 2; cut++) {
            FILE *f = fopen(list.path[0], "wb");
            assert_non_null(f);
            char old = bytes[i % length];
            bytes[i % length] = (char)(old ^ 0x15);
            assert_int_equal(fwrite(bytes, 1, cut ? i % length : length, f),
                             cut ? i % length : length);
            bytes[i % length] = old;
            (void)fclose(f);
            assert_ok(cero_token_stream_open(&p, &stream));
            expect_ids(stream, (const int32_t[]){'b', 260, 260, 257, 260, '\n', 260}, 7);
            cero_token_stream_close(&stream);
        }
    }
    cero_delete(bytes);
    cero_file_list_cleanup(&list);
    cero_tokenizer_destroy(&t);
}

/* A writer that is not committed, or cannot write, leaves what stood there. */
static void test_writer_failure(void **state)
{
    CERO_UNUSED(state);
    static const char *const faults[] = {"write:1:ENOSPC", "fsync:1:EIO", "rename:1:EACCES"};
    const int32_t old[] = {1, 2, 3};
    cero_token_writer *writer = NULL;
    cero_token_stream *stream = NULL;
    for (size_t k = 2; k < CERO_COUNT_OF(kinds); k++) {
        for (size_t f = 0; f < CERO_COUNT_OF(faults); f++) {
            write_tokens(in_dir(kinds[k].path), kinds[k].format, 100, old, 3);
            assert_ok(cero_token_writer_open(in_dir(kinds[k].path), kinds[k].format, 100, &writer));
            assert_ok(cero_token_writer_add(writer, (const int32_t[]){9}, 1));
            (void)setenv("CERO_FAULT", faults[f], 1);
            assert_int_equal(cero_token_writer_commit(writer), CERO_ERR_IO);
            (void)unsetenv("CERO_FAULT");
            cero_token_writer_close(&writer);
            assert_ok(open_one(in_dir(kinds[k].file), 100, &stream));
            expect_ids(stream, old, 3);
            cero_token_stream_close(&stream);
        }
    }
}

static void test_tokenize_files(void **state)
{
    CERO_UNUSED(state);
    cero_tokenizer *t = small_byte_level(&(small_params){0});
    cero_token_writer *writer = NULL;
    cero_token_stream *stream = NULL;
    cero_token_stats stats = {0};
    make_texts();
    const char *const paths[] = {in_dir("texts/b.txt"), in_dir("texts")};
    assert_ok(cero_token_writer_open(in_dir("out"), CERO_TOKENS_MEGATRON, 261, &writer));
    assert_ok(cero_tokenize_files(
        &(cero_token_stream_params){.path = paths, .path_count = 2, .tokenizer = t}, writer,
        &stats));
    assert_ok(cero_token_writer_commit(writer));
    cero_token_writer_close(&writer);
    assert_int_equal(stats.documents, 5);
    assert_int_equal(stats.empty_documents, 1);
    assert_int_equal(stats.bytes, 3 + 14 + 3 + 1);
    assert_int_equal(stats.tokens, 9);
    assert_ok(open_one(in_dir("out"), 261, &stream));
    expect_ids(stream, (const int32_t[]){257, 260, 'b', 260, 260, 257, 260, '\n', 260}, 9);
    cero_token_stream_close(&stream);
    cero_tokenizer_destroy(&t);
}

/* The writer of files reports a folder it cannot open as IO, whatever the reason. */
static void expect_no_memory(cero_status st, uint64_t n)
{
    bool is_io = st == CERO_ERR_IO && strstr(cero_error_message(), "Cannot allocate") != NULL;
    if ((st != CERO_OK && st != CERO_ERR_NOMEM && !is_io) || n > 10000) {
        fail_msg("allocation %d: %s", (int)n, cero_error_string());
    }
}

/* The n-th allocation fails, for every n: an error and no leak. */
static void test_no_memory(void **state)
{
    CERO_UNUSED(state);
    cero_tokenizer *t = small_byte_level(&(small_params){0});
    make_texts();
    char texts[300];
    char one[300];
    (void)snprintf(texts, sizeof(texts), "%s/texts", dir);
    (void)snprintf(one, sizeof(one), "%s/texts/b.txt", dir);
    const char *const paths[] = {texts, one};
    cero_token_stream_params p = {.path = paths, .path_count = 2, .tokenizer = t};
    for (int pass = 0; pass < 2; pass++) {
        char cache[300];
        (void)snprintf(cache, sizeof(cache), "%s/cache3", dir);
        p.cache_dir = pass == 0 ? NULL : cache;
        cero_status st = CERO_ERR_NOMEM;
        for (uint64_t n = 1; st != CERO_OK; n++) {
            cero_token_stream *stream = NULL;
            cero_mem_fail_at(n);
            st = cero_token_stream_open(&p, &stream);
            cero_mem_fail_at(0);
            expect_no_memory(st, n);
            cero_token_stream_close(&stream);
        }
    }
    for (size_t k = 2; k < CERO_COUNT_OF(kinds); k++) {
        cero_status st = CERO_ERR_NOMEM;
        for (uint64_t n = 1; st != CERO_OK; n++) {
            cero_token_writer *writer = NULL;
            cero_mem_fail_at(n);
            st = cero_token_writer_open(in_dir(kinds[k].path), kinds[k].format, 261, &writer);
            st = st == CERO_OK ? cero_tokenize_files(&p, writer, &(cero_token_stats){0}) : st;
            st = st == CERO_OK ? cero_token_writer_commit(writer) : st;
            cero_mem_fail_at(0);
            expect_no_memory(st, n);
            cero_token_writer_close(&writer);
        }
    }
    cero_tokenizer_destroy(&t);
}

/* The reference runs' tokens. */
static void test_reference(void **state)
{
    CERO_UNUSED(state);
    char path[512];
    int32_t out[33];
    cero_token_stream *stream = NULL;
    (void)shared_path("reference", path, sizeof(path));
    cero_file_list list = {0};
    assert_ok(cero_file_list_dir(path, true, &list));
    int found = 0;
    for (int64_t i = 0; i < list.count; i++) {
        if (strstr(list.path[i], "tokens.u16") != NULL) {
            assert_ok(open_one(list.path[i], 65536, &stream));
            assert_true(cero_token_stream_count(stream) > 33);
            assert_ok(cero_token_stream_read(stream, 0, 33, out));
            cero_token_stream_close(&stream);
            found++;
        }
    }
    assert_true(found > 0);
    cero_file_list_cleanup(&list);
}

static int make_dir(void **state)
{
    CERO_UNUSED(state);
    (void)snprintf(dir, sizeof(dir), "/tmp/cero-tokens-XXXXXX");
    return mkdtemp(dir) == NULL;
}

static int remove_dir(void **state)
{
    CERO_UNUSED(state);
    char command[128];
    (void)snprintf(command, sizeof(command), "rm -r '%s'", dir);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),      cmocka_unit_test(test_wide_ids),
        cmocka_unit_test(test_idx_bytes),       cmocka_unit_test(test_harmed),
        cmocka_unit_test(test_hostile_idx),     cmocka_unit_test(test_npy_forms),
        cmocka_unit_test(test_wild_ids),        cmocka_unit_test(test_sparse),
        cmocka_unit_test(test_several_sources), cmocka_unit_test(test_text),
        cmocka_unit_test(test_text_refused),    cmocka_unit_test(test_cache_damage),
        cmocka_unit_test(test_writer_failure),  cmocka_unit_test(test_tokenize_files),
        cmocka_unit_test(test_no_memory),       cmocka_unit_test(test_reference),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
