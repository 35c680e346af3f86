/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ME-01: weights of 200 MB come in at stage 3 without any rank reading or holding them whole: a rank reads its
 * share and headers, and its resident size stays within the plan and 64 MB.
 */
// RUN: np=4
#include "mpi/equivalence.h"
#include "unit/ckpt/files.h"

#include "ckpt/hf.h"
#include "train/train.h"

#include <fcntl.h>

enum {
    SEQ = 8,
    RESIDENT_SLACK = 64 << 20
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool is_sanitized = true;
#else
static const bool is_sanitized = false;
#endif

/* GPT-2 type, 4 layers of width 1024: 50,660,352 elements. */
static cero_model_spec large(void)
{
    cero_model_spec spec = case_g1();

    spec.layers = 4;
    spec.hidden = 1024;
    spec.heads = spec.kv_heads = 16;
    spec.head_dim = 64;
    spec.inner = 4096;
    return spec;
}

/* model.safetensors with a true header and zeros that take no room. */
static int64_t write_weights(const char *path, const cero_model_spec *spec)
{
    cero_hf_table table = {0};
    cero_text header = {0};
    int64_t nbytes = 0;

    assert_ok(cero_hf_table_init(spec, &table));
    for (int64_t i = 0; i < table.param_count; i++) {
        char shape[64];
        const cero_hf_entry *e = &table.entry[i];
        int64_t n = cero_shape_numel(&e->shape) * (int64_t)sizeof(float);
        cero_text_printf(
            &header, "%c\"%s\":{\"dtype\":\"F32\",\"shape\":%s,\"data_offsets\":[%lld,%lld]}",
            i == 0 ? '{' : ',', e->name, cero_shape_format(&e->shape, shape, sizeof(shape)),
            (long long)nbytes, (long long)(nbytes + n));
        nbytes += n;
    }
    cero_text_printf(&header, "}");
    uint64_t length = header.length;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, &length, sizeof(length)), sizeof(length));
    assert_int_equal(write(fd, header.data, header.length), header.length);
    assert_int_equal(ftruncate(fd, (off_t)(sizeof(length) + length) + nbytes), 0);
    assert_int_equal(close(fd), 0);
    cero_text_cleanup(&header);
    cero_hf_table_cleanup(&table);
    return nbytes;
}

/* The number behind `key` in a file of /proc/self, 0 when there is none. */
static int64_t read_number(const char *path, const char *key)
{
    char line[256];
    long long value = 0;
    FILE *f = fopen(path, "r");

    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        if (strncmp(line, key, strlen(key)) == 0) {
            value = strtoll(line + strlen(key), NULL, 10);
        }
    }
    if (f != NULL) {
        (void)fclose(f);
    }
    return value;
}

static void check_import(cero_context *context, cero_trainer *trainer, const char *dir,
                         int64_t nbytes)
{
    const cero_engine_plan *plan = cero_engine_get_plan(cero_trainer_engine(trainer));
    int64_t share = nbytes / cero_context_size(context);
    int64_t before = read_number("/proc/self/io", "rchar:");

    assert_ok(cero_trainer_import(trainer, dir));
    int64_t read = read_number("/proc/self/io", "rchar:") - before;
    if (before == 0) {
        print_message("skipped: /proc/self/io does not say what was read\n");
    } else if (read < share / 2 || read > share * 12 / 10) {
        fail_msg("%lld bytes were read, the share is %lld", (long long)read, (long long)share);
    }
    int64_t resident = read_number("/proc/self/status", "VmHWM:") * 1024;
    if (is_sanitized) {
        print_message("skipped: resident bytes say nothing with a sanitizer's own\n");
    } else if (resident > (int64_t)plan->total + RESIDENT_SLACK) {
        fail_msg("%lld bytes were resident, %lld are planned", (long long)resident,
                 (long long)plan->total);
    }
    // The plan itself has no room for a copy of the model besides what a step needs.
    assert_true(plan->bytes[CERO_MEM_PARAM] < (size_t)nbytes / 3);
}

static void test_import(void **state)
{
    static const char *const sets[] = {"zero_optimization.stage=3",
                                       "zero_optimization.stage3_param_persistence_threshold=0",
                                       "train_micro_batch_size_per_gpu=1", NULL};
    static const unsigned char tokens[2 * 64];
    cero_model_spec spec = large();
    int64_t nbytes = 0;
    char dir[64];
    cero_context *context = NULL;
    cero_config *config = NULL;
    cero_token_stream *data = NULL;
    cero_trainer *trainer = NULL;

    CERO_UNUSED(state);
    assert_ok(cero_context_create(&(cero_context_params){.threads = 1}, &context));
    bool is_first = cero_context_rank(context) == 0;
    if (is_first) {
        files_make_dir(dir, sizeof(dir));
        nbytes = write_weights(files_in(dir, "model.safetensors"), &spec);
        files_write(files_in(dir, "train.u16"), tokens, sizeof(tokens));
    }
    assert_ok(cero_comm_broadcast(world, dir, sizeof(dir), 0));
    assert_ok(cero_comm_broadcast(world, &nbytes, sizeof(nbytes), 0));
    assert_int_equal(nbytes, cero_model_spec_param_count(&spec) * (int64_t)sizeof(float));
    assert_true(nbytes > 200 * 1000 * 1000);
    const char *path = files_in(dir, "train.u16");
    assert_ok(case_config(context, sets, &config));
    assert_ok(cero_token_stream_open(
        &(cero_token_stream_params){.path = &path, .path_count = 1, .vocab_size = spec.vocab_size},
        &data));
    assert_ok(cero_trainer_create(&(cero_trainer_params){.context = context,
                                                         .config = config,
                                                         .model = &spec,
                                                         .data = data,
                                                         .seq_len = SEQ,
                                                         .has_weights = true},
                                  &trainer));
    check_import(context, trainer, dir, nbytes);
    cero_trainer_destroy(&trainer);
    cero_token_stream_close(&data);
    cero_config_destroy(&config);
    cero_context_destroy(&context);
    assert_ok(cero_comm_barrier(world));
    if (is_first) {
        files_remove(dir);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_import)};

    return run_in_world(NULL, tests, CERO_COUNT_OF(tests));
}
