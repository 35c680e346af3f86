/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weights are streamed: whatever the stage and the number of ranks, a rank reads the bytes of what it keeps, of
 * a tied copy over the same ranges, of headers, and of sixteen elements a tensor by which ranks see that they
 * read the same; and the account of its memory does not grow by a byte.
 */
// RUN: np=1,2,3,4
#include "mpi/equivalence.h"
#include "unit/ckpt/files.h"
#include "unit/ckpt/models.h"

#include "train/train.h"

enum {
    SEQ = 8,
    SAMPLE = 16 /* elements of each tensor that all ranks read */
};

/* GPT-2 type that nothing divides: 3 layers of width 63, vocabulary 257. */
static cero_model_spec odd_model(void)
{
    cero_model_spec spec = case_g2();

    spec.layers = 3;
    spec.hidden = 63;
    spec.head_dim = 21;
    spec.inner = 252;
    return spec;
}

/* How the weights lie in their directory. */
typedef enum layout {
    SINGLE = 0,
    SHARDED = 1,   /* of 40,000 bytes */
    WITH_HEAD = 2, /* the tied head is stored beside the embedding */
    HALF = 3,      /* bf16 */
    LAYOUTS
} layout;

static void write_model(const char *to, const cero_model_spec *spec, layout l)
{
    if (l == WITH_HEAD) {
        assert_ok(cero_file_make_dir(to));
        models_write(to, spec, &(models_twist){.head = 1});
        return;
    }
    assert_ok(cero_hf_export(
        to,
        &(cero_hf_export_params){.spec = spec,
                                 .dtype = l == HALF ? CERO_DTYPE_BF16 : CERO_DTYPE_F32,
                                 .max_shard_bytes = l == SHARDED ? 40000 : 0,
                                 .source = models_values},
        NULL));
}

/* Lengths and headers of all files: what opening reads. */
static int64_t header_bytes(const char *where)
{
    int64_t total = 0;
    cero_file_list list = {0};

    assert_ok(cero_file_list_dir(where, false, &list));
    for (int64_t i = 0; i < list.count; i++) {
        cero_safetensors *file = NULL;
        if (strstr(list.path[i], ".safetensors") != NULL && strstr(list.path[i], ".json") == NULL) {
            assert_ok(cero_safetensors_open(list.path[i], &file));
            total += cero_safetensors_data_offset(file);
            cero_safetensors_close(&file);
        }
    }
    cero_file_list_cleanup(&list);
    return total;
}

/* Elements that this rank keeps of parameters, and reads as the sample of them. */
static int64_t count_read(const cero_engine *engine, int64_t i, int size)
{
    int64_t begin = 0;
    int64_t held = 0;
    cero_param_info info = cero_engine_param_info(engine, i);
    int64_t numel = cero_shape_numel(&info.shape);

    cero_engine_held_param(engine, i, &begin, &held);
    return held + (size == 1 ? 0 : numel < SAMPLE ? numel : SAMPLE);
}

/* At stage 3 no rank keeps more than its part; borders of shards are multiples of 256 elements. */
static void check_held(const cero_engine *engine, int size)
{
    int64_t total = 0;
    int64_t numel = 0;

    for (int64_t i = 0; i < cero_engine_param_count(engine); i++) {
        cero_param_info info = cero_engine_param_info(engine, i);
        total += cero_shape_numel(&info.shape);
        numel += count_read(engine, i, 1);
    }
    assert_in_range(numel, 1, total / size + 256 * 8);
}

static void check_bytes(cero_context *context, cero_trainer *trainer, const char *where, layout l)
{
    cero_engine *engine = cero_trainer_engine(trainer);
    int size = cero_context_size(context);
    int64_t numel = 0;

    for (int64_t i = 0; i < cero_engine_param_count(engine); i++) {
        numel += count_read(engine, i, size);
    }
    if (l == WITH_HEAD) {
        int64_t wte = cero_engine_find_param(engine, "transformer.wte.weight");
        numel += count_read(engine, wte, size);
    }
    assert_int_equal(cero_trainer_import_bytes(trainer),
                     header_bytes(where) + numel * (l == HALF ? 2 : 4));
}

/* Every weight, gathered, is that of the files. */
static void check_values(cero_trainer *trainer, layout l)
{
    cero_engine *engine = cero_trainer_engine(trainer);

    for (int64_t i = 0; i < cero_engine_param_count(engine); i++) {
        cero_param_info info = cero_engine_param_info(engine, i);
        int64_t n = cero_shape_numel(&info.shape);
        float *wanted = cero_new((size_t)n, sizeof(float));
        float *found = cero_new((size_t)n, sizeof(float));
        assert_ok(models_values(NULL, info.name, 0, n, wanted));
        assert_ok(cero_engine_get_param(engine, i, 0, n, found));
        for (int64_t k = 0; k < n; k++) {
            float near = l == HALF ? fabsf(wanted[k]) / 256 : 0;
            assert_true(fabsf(found[k] - wanted[k]) <= near);
        }
        cero_delete(wanted);
        cero_delete(found);
    }
}

typedef struct fixture {
    char dir[64];
    cero_model_spec spec;
    cero_token_stream *data;
} fixture;

static void check_stage(fixture *f, int stage)
{
    char set[64];
    const char *sets[] = {set, "zero_optimization.stage3_param_persistence_threshold=0",
                          "train_micro_batch_size_per_gpu=1", NULL};
    cero_context *context = NULL;
    cero_config *config = NULL;
    cero_trainer *trainer = NULL;

    (void)snprintf(set, sizeof(set), "zero_optimization.stage=%d", stage);
    assert_ok(cero_context_create(&(cero_context_params){.threads = 1}, &context));
    assert_ok(case_config(context, sets, &config));
    assert_ok(cero_trainer_create(&(cero_trainer_params){.context = context,
                                                         .config = config,
                                                         .model = &f->spec,
                                                         .data = f->data,
                                                         .seq_len = SEQ,
                                                         .has_weights = true},
                                  &trainer));
    if (stage == 3) {
        check_held(cero_trainer_engine(trainer), cero_context_size(context));
    }
    for (int l = SINGLE; l < LAYOUTS; l++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "model-%d", l);
        const char *where = files_in(f->dir, name);
        cero_mem_usage before = cero_mem_total(context->mem);
        assert_ok(cero_trainer_import(trainer, where));
        cero_mem_usage after = cero_mem_total(context->mem);
        assert_int_equal(after.current, before.current);
        assert_int_equal(after.peak, before.peak);
        check_bytes(context, trainer, where, (layout)l);
        check_values(trainer, (layout)l);
    }
    cero_trainer_destroy(&trainer);
    cero_config_destroy(&config);
    cero_context_destroy(&context);
}

static void test_import_share(void **state)
{
    static const unsigned char tokens[2 * 64];
    fixture f = {.spec = odd_model()};
    bool is_first = cero_comm_rank(world) == 0;

    CERO_UNUSED(state);
    if (is_first) {
        files_make_dir(f.dir, sizeof(f.dir));
        files_write(files_in(f.dir, "train.u16"), tokens, sizeof(tokens));
        for (int l = SINGLE; l < LAYOUTS; l++) {
            char name[16];
            (void)snprintf(name, sizeof(name), "model-%d", l);
            write_model(files_in(f.dir, name), &f.spec, (layout)l);
        }
    }
    assert_ok(cero_comm_broadcast(world, f.dir, sizeof(f.dir), 0));
    const char *path = files_in(f.dir, "train.u16");
    assert_ok(cero_token_stream_open(
        &(cero_token_stream_params){.path = &path, .path_count = 1, .vocab_size = 257}, &f.data));
    for (int stage = 0; stage <= 3; stage++) {
        check_stage(&f, stage);
    }
    cero_token_stream_close(&f.data);
    assert_ok(cero_comm_barrier(world));
    if (is_first) {
        files_remove(f.dir);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_import_share)};

    return run_in_world(NULL, tests, CERO_COUNT_OF(tests));
}
