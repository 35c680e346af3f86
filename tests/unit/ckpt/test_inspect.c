/* SPDX-License-Identifier: Apache-2.0 */
/* What inspect prints about a file is what is in it, as text and as JSON that parses. */
#include "unit/ckpt/models.h"

#include "base/json.h"
#include "ckpt/inspect.h"

static char dir[64];

static int setup(void **state)
{
    (void)state;
    files_make_dir(dir, sizeof(dir));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    files_remove(dir);
    return 0;
}

static void check_json(const char *path, int64_t files, int64_t tensors, int64_t numel)
{
    cero_text text = {0};
    cero_json_document *document = NULL;
    int64_t value = 0;

    assert_ok(cero_ckpt_inspect_safetensors(path, &text, true));
    assert_ok(cero_json_parse("inspect", text.data, text.length, NULL, &document));
    const cero_json *root = cero_json_root(document);
    assert_string_equal(cero_json_find(root, "path")->text, path);
    assert_ok(cero_json_int(cero_json_find(root, "files"), &value));
    assert_int_equal(value, files);
    assert_int_equal(cero_json_find(root, "tensors")->count, tensors);
    assert_ok(cero_json_int(cero_json_find(root, "tensor_count"), &value));
    assert_int_equal(value, tensors);
    assert_ok(cero_json_int(cero_json_find(root, "numel"), &value));
    assert_int_equal(value, numel);
    const cero_json *total = cero_json_find(cero_json_find(root, "totals"), "F32");
    assert_ok(cero_json_int(cero_json_find(total, "bytes"), &value));
    assert_int_equal(value, 4 * numel);
    cero_json_destroy(&document);
    cero_text_cleanup(&text);
}

static void test_file_and_directory(void **state)
{
    (void)state;
    cero_model_spec g = models_gpt2();
    cero_text text = {0};
    cero_hf_export_stats stats;
    int64_t numel = cero_model_spec_param_count(&g);
    cero_hf_export_params params = {.spec = &g, .max_shard_bytes = 9000, .source = models_values};

    assert_ok(cero_hf_export(dir, &params, &stats));
    check_json(dir, stats.shards, 28, numel);
    assert_ok(cero_ckpt_inspect_safetensors(dir, &text, false));
    assert_non_null(strstr(text.data, "\"transformer.h.1.mlp.c_fc.weight\""));
    assert_non_null(strstr(text.data, "[12, 48]"));
    assert_non_null(strstr(text.data, "model-00001-of-0000"));
    cero_text_cleanup(&text);
    params.max_shard_bytes = 0;
    assert_ok(cero_hf_export(dir, &params, NULL));
    check_json(files_in(dir, "model.safetensors"), 1, 28, numel);
    assert_ok(cero_ckpt_inspect_safetensors(files_in(dir, "model.safetensors"), &text, false));
    assert_non_null(strstr(text.data, "metadata \"format\": \"pt\""));
    char total[64];
    (void)snprintf(total, sizeof(total), "total    28 tensors, %lld elements", (long long)numel);
    assert_non_null(strstr(text.data, total));
    cero_text_cleanup(&text);
}

static void test_hostile_names(void **state)
{
    (void)state;
    char bytes[512];
    cero_text text = {0};
    const char *path = files_in(dir, "x.safetensors");
    size_t n = files_archive("{\"\\u001b[31m\\n\\\"\":{\"dtype\":\"F32\",\"shape\":[],"
                             "\"data_offsets\":[0,4]}}",
                             4, 0, bytes);

    files_write(path, bytes, n);
    check_json(path, 1, 1, 1);
    assert_ok(cero_ckpt_inspect_safetensors(path, &text, false));
    assert_null(strchr(text.data, '\x1b'));
    cero_text_cleanup(&text);
    files_write(path, bytes, n - 1);
    assert_fails(cero_ckpt_inspect_safetensors(path, &text, true), CERO_ERR_CORRUPT, "cut off");
    cero_text_cleanup(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_file_and_directory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hostile_names, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
