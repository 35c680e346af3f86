/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weights of other formats end in one error with the file, what it is and how to convert it, and are never
 * unpickled; files that merely look like them do not stand in the way of safetensors.
 */
#include "unit/ckpt/models.h"

#include "base/log.h"
#include "ckpt/foreign.h"
#include "ckpt/shards.h"

static char dir[64];

static int setup(void **state)
{
    (void)state;
    files_make_dir(dir, sizeof(dir));
    cero_log_set_level(CERO_LOG_ERROR);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    files_remove(dir);
    return 0;
}

static const char zip[] = "PK\x03\x04 data.pkl";

/* All the ways in: the files of a directory, the directory as a model, and whether it has weights. */
static void refused(const char *where, const char *name, const char *what, const char *way)
{
    cero_model_spec g = models_gpt2();
    cero_hf_import *import = NULL;
    bool has_weights = false;

    assert_fails(cero_hf_import_open(where, &g, &import), CERO_ERR_UNSUPPORTED, name);
    assert_non_null(strstr(cero_error_message(), what));
    assert_non_null(strstr(cero_error_message(), way));
    assert_fails(cero_foreign_check(where), CERO_ERR_UNSUPPORTED, name);
    assert_fails(cero_shards_look(where, &has_weights), CERO_ERR_UNSUPPORTED, what);
}

static const char save_pretrained[] = "save_pretrained(\"OUT\", safe_serialization=True)";

static void test_every_kind_in_a_directory(void **state)
{
    static const struct {
        const char *name;
        const char *bytes;
        const char *what;
        const char *way;
    } kinds[] = {
        {"pytorch_model.bin", "x", "PyTorch pickled", save_pretrained},
        {"pytorch_model-00001-of-00002.bin", "x", "PyTorch pickled", "from_pretrained"},
        {"pytorch_model.bin.index.json", "{}", "index of weights", save_pretrained},
        {"model.pt", zip, "PyTorch pickled", save_pretrained},
        {"model.bin", "\x80\x02}q", "PyTorch pickled", save_pretrained},
        {"weights.ckpt", zip, "PyTorch pickled", save_pretrained},
        {"consolidated.00.pth", "x", "Meta", "convert_llama_weights_to_hf.py"},
        {"mp_rank_00_model_states.pt", "x", "DeepSpeed", "zero_to_fp32.py"},
        {"zero_pp_rank_0_mp_rank_00_optim_states.pt", "x", "ZeRO checkpoint", "zero_to_fp32.py"},
        {"bf16_zero_pp_rank_3_mp_rank_00_optim_states.pt", "x", "ZeRO", save_pretrained},
        {"zero_to_fp32.py", "import os", "DeepSpeed", "zero_to_fp32.py"},
        {"llama.Q8_0.gguf", "GGUF", "GGUF file, which is not supported", "safetensors"},
        {"tf_model.h5", "x", "TensorFlow", save_pretrained},
        {"flax_model.msgpack", "x", "Flax", save_pretrained},
        {"__0_0.distcp", "x", "torch.distributed", save_pretrained},
    };

    (void)state;
    for (size_t i = 0; i < CERO_COUNT_OF(kinds); i++) {
        const char *path = files_in(dir, kinds[i].name);
        files_write(path, kinds[i].bytes, strlen(kinds[i].bytes));
        refused(dir, kinds[i].name, kinds[i].what, kinds[i].way);
        assert_fails(cero_foreign_check(path), CERO_ERR_UNSUPPORTED, kinds[i].name);
        assert_non_null(strstr(cero_error_message(), kinds[i].way));
        assert_int_equal(unlink(path), 0);
    }
}

/* Of several the one that says most: DeepSpeed's, not the .pt beside it. */
static void test_several(void **state)
{
    (void)state;
    files_write(files_in(dir, "a.pt"), zip, sizeof(zip));
    files_write(files_in(dir, "mp_rank_00_model_states.pt"), zip, sizeof(zip));
    files_write(files_in(dir, "zero_pp_rank_0_mp_rank_00_optim_states.pt"), zip, sizeof(zip));
    refused(dir, "mp_rank_00_model_states.pt", "a checkpoint of DeepSpeed", "zero_to_fp32.py");
}

/* The folder above DeepSpeed's tags has no weights of its own. */
static void test_tag(void **state)
{
    const char *tagged = files_in(dir, "global_step100");

    (void)state;
    assert_ok(cero_file_make_dir(tagged));
    files_write(files_in(tagged, "mp_rank_00_model_states.pt"), zip, sizeof(zip));
    assert_ok(cero_foreign_check(dir));
    files_write(files_in(dir, "latest"), "global_step100\n", 15);
    assert_fails(cero_foreign_check(dir), CERO_ERR_UNSUPPORTED,
                 "global_step100/mp_rank_00_model_states.pt is a checkpoint of DeepSpeed");
    files_write(files_in(dir, "latest"), "../x", 4);
    assert_ok(cero_foreign_check(dir));
    files_write(files_in(dir, "latest"), "", 0);
    assert_ok(cero_foreign_check(dir));
}

/* What stands beside safetensors, or is something else, is left alone. */
static void test_what_is_not_meant(void **state)
{
    cero_model_spec g = models_gpt2();
    cero_hf_import *import = NULL;
    bool has_weights = true;

    (void)state;
    assert_ok(cero_foreign_check(files_in(dir, "absent.pt")));
    assert_ok(cero_foreign_check("gpt2"));
    files_write(files_in(dir, "config.json"), "{}", 2);
    files_write(files_in(dir, "corpus.bin"), "\x01\x00\x02\x00", 4); // tokens
    files_write(files_in(dir, "training_args.bin"), zip, sizeof(zip));
    files_write(files_in(dir, "optimizer.pt"), zip, sizeof(zip));
    files_write(files_in(dir, "rng_state_0.pth"), zip, sizeof(zip));
    assert_ok(cero_foreign_check(files_in(dir, "corpus.bin")));
    assert_ok(cero_foreign_check(files_in(dir, "config.json")));
    assert_ok(cero_foreign_check(dir));
    assert_ok(cero_shards_look(dir, &has_weights));
    assert_false(has_weights);
    files_write(files_in(dir, "pytorch_model.bin"), zip, sizeof(zip));
    assert_fails(cero_shards_look(dir, &has_weights), CERO_ERR_UNSUPPORTED, "pytorch_model.bin");
    models_write(dir, &g, &(models_twist){0});
    assert_ok(cero_foreign_check(dir));
    assert_ok(cero_shards_look(dir, &has_weights));
    assert_true(has_weights);
    assert_ok(cero_hf_import_open(dir, &g, &import));
    cero_hf_import_close(&import);
}

/* Shards whose index is missing are no reason to start from random weights. */
static void test_shards_without_an_index(void **state)
{
    cero_model_spec g = models_gpt2();
    cero_hf_import *import = NULL;
    bool has_weights = false;
    const char *shard = files_in(dir, "model-00001-of-00002.safetensors");

    (void)state;
    models_write(dir, &g, &(models_twist){0});
    assert_int_equal(rename(files_in(dir, "model.safetensors"), shard), 0);
    assert_fails(cero_shards_look(dir, &has_weights), CERO_ERR_CORRUPT,
                 "model-00001-of-00002.safetensors");
    assert_fails(cero_hf_import_open(dir, &g, &import), CERO_ERR_CORRUPT, "would have to name");
}

/* Files whose name lies: told by their first bytes, without a header being read. */
static void test_false_names(void **state)
{
    static const struct {
        const char *bytes;
        const char *what;
    } files[] = {
        {"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n", "Git LFS"},
        {"PK\x03\x04\x14\x01\x01\x01 archive/data.pkl", "torch.save"},
        {"\x80\x04\x95\x01\x01\x01\x01\x01 pickle", "Python pickle"},
        {"GGUF\x03\x01\x01\x01\x01", "GGUF"},
        {"\x89HDF\r\n\x1a\n rest", "HDF5"},
    };
    cero_safetensors *file = NULL;
    const char *path = files_in(dir, "model.safetensors");

    (void)state;
    for (size_t i = 0; i < CERO_COUNT_OF(files); i++) {
        files_write(path, files[i].bytes, strlen(files[i].bytes));
        assert_fails(cero_safetensors_open(path, &file), CERO_ERR_CORRUPT, files[i].what);
        files_write(files_in(dir, "plain"), files[i].bytes, strlen(files[i].bytes));
        assert_fails(cero_foreign_check(files_in(dir, "plain")), CERO_ERR_UNSUPPORTED,
                     files[i].what);
    }
    assert_null(cero_foreign_magic("", 0));
    assert_null(cero_foreign_magic("PK\x03", 3));
    assert_null(cero_foreign_magic("{\"a\":1}", 7));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_kind_in_a_directory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_several, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tag, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_not_meant, setup, teardown),
        cmocka_unit_test_setup_teardown(test_shards_without_an_index, setup, teardown),
        cmocka_unit_test_setup_teardown(test_false_names, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
