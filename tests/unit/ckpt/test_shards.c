/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several files are one model only when index and files agree in everything; what the index names must be
 * a file of the directory itself (SF-04, SF-05).
 */
#include "unit/ckpt/files.h"

#include "base/log.h"
#include "ckpt/shards.h"

static char dir[64];
static char log_lines[4096];

static void keep_line(void *context, cero_log_level level, const char *line)
{
    (void)context;
    (void)level;
    size_t used = strlen(log_lines);
    (void)snprintf(log_lines + used, sizeof(log_lines) - used, "%s\n", line);
}

/* A file with one tensor of three bytes for each letter. */
static void write_shard(const char *where, const char *name, const char *letters)
{
    char json[1024] = "{";
    char bytes[2048];
    size_t n = strlen(letters);

    for (size_t i = 0; i < n; i++) {
        size_t used = strlen(json);
        (void)snprintf(json + used, sizeof(json) - used,
                       "%s\"%c\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[%zu,%zu]}",
                       i > 0 ? "," : "", letters[i], 3 * i, 3 * i + 3);
    }
    strcat(json, "}");
    files_write(files_in(where, name), bytes, files_archive(json, 3 * n, letters[0], bytes));
}

static void write_index(const char *json)
{
    files_write(files_in(dir, CERO_SHARDS_INDEX), json, strlen(json));
}

static int setup(void **state)
{
    (void)state;
    files_make_dir(dir, sizeof(dir));
    cero_log_init();
    cero_log_set_sink(keep_line, NULL);
    log_lines[0] = '\0';
    write_shard(dir, "one.safetensors", "ab");
    write_shard(dir, "two.safetensors", "c");
    write_index("{\"metadata\":{\"total_size\":9},\"weight_map\":{\"a\":\"one.safetensors\","
                "\"c\":\"two.safetensors\",\"b\":\"one.safetensors\"}}");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    files_remove(dir);
    return 0;
}

static void refused(cero_status status, const char *message)
{
    cero_shards *shards = NULL;

    assert_fails(cero_shards_open(dir, &shards), status, message);
    assert_null(shards);
}

static void test_two_files(void **state)
{
    (void)state;
    cero_shards *shards = NULL;
    char bytes[3];

    assert_ok(cero_shards_open(dir, &shards));
    assert_int_equal(cero_shards_file_count(shards), 2);
    assert_int_equal(cero_shards_count(shards), 3);
    for (int i = 0; i < 3; i++) {
        const char name[2] = {(char)('a' + i), '\0'};
        const cero_shards_entry *e = cero_shards_find(shards, name);
        assert_ptr_equal(e, cero_shards_get(shards, i));
        assert_string_equal(e->tensor->name, name);
        assert_ok(cero_safetensors_read_raw(e->file, e->tensor, 0, 3, bytes));
        assert_int_equal(bytes[1], i == 2 ? 'c' : 'a');
    }
    assert_null(cero_shards_find(shards, "d"));
    cero_shards_close(&shards);
    assert_string_equal(log_lines, "");
}

static void test_missing_shard(void **state)
{
    (void)state;
    assert_int_equal(unlink(files_in(dir, "one.safetensors")), 0);
    refused(CERO_ERR_IO, "one.safetensors is not there");
    assert_non_null(strstr(cero_error_message(), "2 of 3 tensors"));
}

static void test_stray_shard(void **state)
{
    (void)state;
    cero_shards *shards = NULL;

    write_shard(dir, "stray.safetensors", "z");
    assert_ok(cero_shards_open(dir, &shards));
    assert_null(cero_shards_find(shards, "z"));
    assert_non_null(strstr(log_lines, "stray.safetensors: the index beside it does not name it"));
    cero_shards_close(&shards);
}

static void test_shards_and_index_disagree(void **state)
{
    (void)state;
    write_shard(dir, "one.safetensors", "a");
    refused(CERO_ERR_CORRUPT, "tensor \"b\" should be in");
    write_shard(dir, "one.safetensors", "abd");
    refused(CERO_ERR_CORRUPT, "holds tensor \"d\"");
    write_shard(dir, "one.safetensors", "abc");
    refused(CERO_ERR_CORRUPT, "holds tensor \"c\"");
    files_write(files_in(dir, "one.safetensors"), "{}", 2);
    refused(CERO_ERR_CORRUPT, "one.safetensors");
}

static void test_bad_indices(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        const char *message;
    } bad[] = {
        {"", "expected"},
        {"[]", "weight_map"},
        {"{}", "weight_map"},
        {"{\"weight_map\":{}}", "weight_map"},
        {"{\"weight_map\":[]}", "weight_map"},
        {"{\"weight_map\":{\"a\":1}}", "found a number"},
        {"{\"weight_map\":{\"a\":\"one.safetensors\",\"a\":\"two.safetensors\"}}", "\"a\""},
        {"{\"weight_map\":{\"a\":\"../one.safetensors\"}}", "is refused"},
        {"{\"weight_map\":{\"a\":\"/etc/one.safetensors\"}}", "is refused"},
        {"{\"weight_map\":{\"a\":\"sub/one.safetensors\"}}", "is refused"},
        {"{\"weight_map\":{\"a\":\"..\\\\one.safetensors\"}}", "is refused"},
        {"{\"weight_map\":{\"a\":\"one.safetensors\\u0000.safetensors\"}}", "is refused"},
        {"{\"weight_map\":{\"a\":\"\"}}", "no name of a safetensors file"},
        {"{\"weight_map\":{\"a\":\".safetensors\"}}", "no name of a safetensors file"},
        {"{\"weight_map\":{\"a\":\"one.bin\"}}", "no name of a safetensors file"},
        {"{\"weight_map\":{\"a\":\"one.safetensors\"},\"extra\":1}", "unknown key \"extra\""},
    };
    for (size_t i = 0; i < CERO_COUNT_OF(bad); i++) {
        write_index(bad[i].json);
        refused(CERO_ERR_CORRUPT, bad[i].message);
        assert_non_null(strstr(cero_error_message(), CERO_SHARDS_INDEX));
    }
}

static void test_links(void **state)
{
    (void)state;
    char outside[64];
    cero_shards *shards = NULL;
    const char *two = files_in(dir, "two.safetensors");

    files_make_dir(outside, sizeof(outside));
    write_shard(outside, "two.safetensors", "c");
    assert_int_equal(unlink(two), 0);
    assert_int_equal(symlink(files_in(outside, "two.safetensors"), two), 0);
    refused(CERO_ERR_CORRUPT, "is a link to a file outside");
    assert_int_equal(unlink(two), 0);
    write_shard(dir, "real", "c");
    assert_int_equal(symlink("real", two), 0);
    assert_ok(cero_shards_open(dir, &shards));
    cero_shards_close(&shards);
    assert_int_equal(unlink(two), 0);
    assert_int_equal(symlink("nowhere", two), 0);
    refused(CERO_ERR_IO, "is not there");
    files_remove(outside);
}

/* hub/snapshots/X/two.safetensors -> ../../blobs/hash, as Hugging Face's cache keeps files. */
static void test_links_of_the_hub(void **state)
{
    (void)state;
    cero_shards *shards = NULL;
    static const char index[] = "{\"weight_map\":{\"c\":\"two.safetensors\"}}";
    const char *snapshot = files_in(dir, "snapshots/x");
    const char *blobs = files_in(dir, "blobs");

    assert_ok(cero_file_make_dir(snapshot));
    assert_ok(cero_file_make_dir(blobs));
    write_shard(blobs, "hash", "c");
    files_write(files_in(snapshot, CERO_SHARDS_INDEX), index, strlen(index));
    assert_int_equal(symlink("../../blobs/hash", files_in(snapshot, "two.safetensors")), 0);
    assert_ok(cero_shards_open(snapshot, &shards));
    cero_shards_close(&shards);
    assert_int_equal(unlink(files_in(snapshot, "two.safetensors")), 0);
    assert_int_equal(symlink("../../one.safetensors", files_in(snapshot, "two.safetensors")), 0);
    assert_fails(cero_shards_open(snapshot, &shards), CERO_ERR_CORRUPT, "outside");
}

static void test_single_file_wins(void **state)
{
    (void)state;
    cero_shards *shards = NULL;

    write_shard(dir, CERO_SHARDS_SINGLE, "xyz");
    assert_ok(cero_shards_open(dir, &shards));
    assert_int_equal(cero_shards_count(shards), 3);
    assert_non_null(cero_shards_find(shards, "x"));
    assert_non_null(strstr(log_lines, "ignored model.safetensors.index.json"));
    cero_shards_close(&shards);
}

static void test_split(void **state)
{
    (void)state;
    static const int64_t nbytes[] = {4, 4, 3, 20, 0, 1, 9, INT64_MAX, 0, 1};
    static const int64_t wanted[] = {0, 0, 1, 2, 2, 3, 3, 4, 4, 5};
    int64_t shard_of[10];
    int64_t count;
    char name[64];

    cero_shards_split(nbytes, 10, 10, shard_of, &count);
    assert_int_equal(count, 6);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(shard_of[i], wanted[i]);
    }
    cero_shards_split(nbytes, 0, 10, shard_of, &count);
    assert_int_equal(count, 1);
    assert_string_equal(cero_shards_name(0, 1, name, sizeof(name)), "model.safetensors");
    assert_string_equal(cero_shards_name(1, 3, name, sizeof(name)),
                        "model-00002-of-00003.safetensors");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_two_files, setup, teardown),
        cmocka_unit_test_setup_teardown(test_missing_shard, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stray_shard, setup, teardown),
        cmocka_unit_test_setup_teardown(test_shards_and_index_disagree, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_indices, setup, teardown),
        cmocka_unit_test_setup_teardown(test_links, setup, teardown),
        cmocka_unit_test_setup_teardown(test_links_of_the_hub, setup, teardown),
        cmocka_unit_test_setup_teardown(test_single_file_wins, setup, teardown),
        cmocka_unit_test(test_split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
