/* SPDX-License-Identifier: Apache-2.0 */
/* A load brings back what was saved, whatever came between; what does not fit or verify is refused by name. */
// RUN: np=1,2,3,4
#include "mpi/checkpoint_cases.h"

static void open_stage(job *j, cero_model_spec spec, int stage, const char *more, const char *most,
                       const char *last)
{
    char text[64];

    (void)snprintf(text, sizeof(text), "zero_optimization.stage=%d", stage);
    job_open(j, MPI_COMM_WORLD, spec, (const char *const[]){text, more, most, last, NULL});
}

/* A model, its dtype and optimizer. */
typedef struct kind {
    const char *dtype;
    const char *more;
    const char *most;
    int ranks_per_node;
} kind;

static const kind kinds[] = {
    {"bf16.enabled=true", "optimizer.type=Muon", NULL, 0},
    {"fp16.enabled=true", "optimizer.type=Lamb", NULL, 0},
    {"bf16.enabled=true", "cero.frozen=[\"transformer.wte.weight\", \"transformer.h.0.ln*\"]", NULL,
     0},
    {"bf16.enabled=false", "cero.frozen=[\"*.bias\"]", NULL, 0},
    {"fp16.enabled=true", "cero.frozen=[\"transformer.wpe.weight\"]", NULL, 0},
    {"bf16.enabled=true", "cero.frozen=[\"*.mlp.*\"]", "cero.share_within_node=true", 0},
    {"bf16.enabled=false", "cero.frozen=[\"*.mlp.*\"]", "cero.share_within_node=true", 2},
};

/* RS-11: five more steps in the same process are forgotten, at another stage as well as at the same. */
static void test_kinds(void **state)
{
    static states saved;
    static states now;

    CERO_UNUSED(state);
    make_dir();
    for (size_t k = 0; k < CERO_COUNT_OF(kinds); k++) {
        for (int stage = 0; stage < 4; stage++) {
            char tag[32];
            job j;
            (void)snprintf(tag, sizeof(tag), "kind%d-stage%d", (int)k, stage);
            ranks_per_node = kinds[k].ranks_per_node;
            open_stage(&j, case_g2(), stage, kinds[k].dtype, kinds[k].more, kinds[k].most);
            job_train(&j, 0, 2);
            states_get(&j, &saved);
            double loss = job_evaluate(&j);
            assert_ok(cero_engine_save(j.engine, dir, tag));
            job_train(&j, 2, 5);
            assert_ok(cero_engine_load(j.engine, dir, tag, NULL));
            states_get(&j, &now);
            states_assert_same(&saved, &now);
            double again = job_evaluate(&j);
            assert_memory_equal(&loss, &again, sizeof(loss));
            if (stage > 0) {
                (void)snprintf(tag, sizeof(tag), "kind%d-stage%d", (int)k, stage - 1);
                job_spoil(&j);
                assert_ok(cero_engine_load(j.engine, dir, tag, NULL));
                states_get(&j, &now);
                states_assert_same(&saved, &now);
                again = job_evaluate(&j);
                assert_memory_equal(&loss, &again, sizeof(loss));
            }
            job_close(&j);
        }
    }
    ranks_per_node = 0;
    remove_dir();
}

/* RS-08: masters are those that were loaded, not what training had: a step of nothing does not bring the old ones back. */
static void test_weights_only(void **state)
{
    static states saved;
    static states now;

    CERO_UNUSED(state);
    make_dir();
    for (int stage = 0; stage < 4; stage++) {
        job j;
        open_stage(&j, case_g2(), stage, "bf16.enabled=true", NULL, NULL);
        job_train(&j, 0, 3);
        states_get(&j, &saved);
        assert_ok(cero_engine_save(j.engine, dir, "weights"));
        job_close(&j);

        job_open(&j, MPI_COMM_WORLD, case_g2(),
                 (const char *const[]){
                     "bf16.enabled=true", "optimizer.params.lr=0", "optimizer.type=Lion",
                     "optimizer.params.eps=-",
                     stage == 3 ? "zero_optimization.stage=1" : "zero_optimization.stage=3", NULL});
        job_train(&j, 7, 2);
        assert_ok(cero_engine_load_weights(j.engine, dir, "weights", false));
        for (int step = 0; step < 2; step++) {
            int64_t at = 0;
            int64_t other = 0;
            states_get(&j, &now);
            assert_int_equal(now.counters.step, step);
            assert_int_equal(now.counters.zero.applied, step);
            for (int64_t i = 0; i < cero_engine_param_count(j.engine); i++) {
                cero_param_info info = cero_engine_param_info(j.engine, i);
                int64_t n = cero_shape_numel(&info.shape);
                assert_memory_equal(saved.values + at, now.values + other,
                                    (size_t)n * sizeof(float));
                for (int64_t e = 0; e < n && step == 0; e++) {
                    assert_true(now.values[other + n + e] == 0.0f);
                }
                at += 3 * n;    // AdamW has two moments
                other += 2 * n; // and Lion one
            }
            job_train(&j, 0, 1);
        }
        job_close(&j);
    }
    remove_dir();
}

/* Another model: a layer more, and a vocabulary of one more. */
static cero_model_spec other_model(void)
{
    cero_model_spec spec = case_g2();

    spec.layers = 2;
    spec.vocab_size = 258;
    return spec;
}

static void test_partial(void **state)
{
    static states before;
    job j;
    int64_t first = -1;
    int64_t layer = -1;
    float values[2];
    float saved[2];

    CERO_UNUSED(state);
    make_dir();
    open_stage(&j, case_g2(), 2, "bf16.enabled=true", NULL, NULL);
    job_train(&j, 0, 2);
    assert_ok(cero_engine_save(j.engine, dir, "small"));
    first = cero_engine_find_param(j.engine, "transformer.h.0.mlp.c_fc.weight");
    assert_true(first >= 0);
    assert_ok(cero_engine_get_param(j.engine, first, 100, 2, saved));
    job_close(&j);

    open_stage(&j, other_model(), 3, "bf16.enabled=true", NULL, NULL);
    states_get(&j, &before);
    first = cero_engine_find_param(j.engine, "transformer.h.0.mlp.c_fc.weight");
    layer = cero_engine_find_param(j.engine, "transformer.h.1.mlp.c_fc.weight");
    assert_true(first >= 0 && layer >= 0);
    cero_status st = cero_engine_load(j.engine, dir, NULL, NULL);
    assert_fails_on_all(st, CERO_ERR_INVALID, "is of another model");
    assert_fails_on_all(st, CERO_ERR_INVALID,
                        "tensor transformer.wte.weight is [257, 21]; expected [258, 21]");
    assert_fails_on_all(st, CERO_ERR_INVALID,
                        "tensor optim.exp_avg.transformer.wte.weight is [257, 21]");
    assert_fails_on_all(st, CERO_ERR_INVALID, "is not there; ");
    assert_fails_on_all(cero_engine_load_weights(j.engine, dir, NULL, false), CERO_ERR_INVALID,
                        "tensor transformer.h.1.mlp.c_fc.weight is not there");
    float kept[2];
    assert_ok(cero_engine_get_param(j.engine, layer, 100, 2, kept));
    assert_ok(cero_engine_load_weights(j.engine, dir, NULL, true));
    assert_ok(cero_engine_get_param(j.engine, layer, 100, 2, values));
    assert_memory_equal(values, kept, sizeof(values));
    assert_ok(cero_engine_get_param(j.engine, first, 100, 2, values));
    assert_memory_equal(values, saved, sizeof(values));
    job_train(&j, 0, 1);
    // The other way round the checkpoint has more than the model.
    assert_ok(cero_engine_save(j.engine, dir, "large"));
    job_close(&j);
    open_stage(&j, case_g2(), 0, "bf16.enabled=true", NULL, NULL);
    assert_fails_on_all(cero_engine_load(j.engine, dir, "large", NULL), CERO_ERR_INVALID,
                        "tensor \"transformer.h.1.ln_1.weight\" is in no place of this model");
    cero_loader_result result;
    assert_ok(cero_loader_load(
        j.engine, &(cero_loader_params){.dir = dir, .tag = "large", .is_partial = true}, &result));
    assert_int_equal(result.step, 1);
    job_train(&j, 0, 1);
    job_close(&j);
    remove_dir();
}

/* Flips a bit of a file of DIR/TAG; at -1 from its end, else from its start. */
static void flip(const char *tag, const char *name, long at)
{
    char path[512];

    (void)snprintf(path, sizeof(path), "%s/%s/%s", dir, tag, name);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    int byte = fgetc(f);
    assert_int_equal(fseek(f, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    assert_int_equal(fputc(byte ^ 4, f), byte ^ 4);
    assert_int_equal(fclose(f), 0);
}

static void cut(const char *tag, const char *name)
{
    char path[512];
    int64_t nbytes = 0;

    (void)snprintf(path, sizeof(path), "%s/%s/%s", dir, tag, name);
    assert_int_equal(cero_file_stat(path, &nbytes), CERO_FILE_REGULAR);
    assert_int_equal(truncate(path, nbytes - 1), 0);
}

static const char *last_file(const job *j)
{
    static char name[64];

    (void)snprintf(name, sizeof(name), "rank-%05d.safetensors", j->size - 1);
    return name;
}

/* The newest that verifies, with each way in which a newer one does not. */
static void test_newest_that_verifies(void **state)
{
    static states saved[6];
    static states now;
    job j;

    CERO_UNUSED(state);
    make_dir();
    open_stage(&j, case_g2(), 1, NULL, NULL, NULL);
    for (int step = 1; step <= 5; step++) {
        job_train(&j, step - 1, 1);
        states_get(&j, &saved[step]);
        assert_ok(cero_engine_save(j.engine, dir, NULL));
    }
    if (j.rank == 0) {
        flip("step-00000005", last_file(&j), -1);           // contents
        flip("step-00000004", "manifest.json", 40);         // the manifest
        cut("step-00000003", "rank-00000.safetensors");     // a file's length
        flip("step-00000002", "rank-00000.safetensors", 9); // a header
    }
    equiv_meet();
    cero_loader_result result;
    job_spoil(&j);
    assert_ok(cero_loader_load(j.engine, &(cero_loader_params){.dir = dir}, &result));
    assert_int_equal(result.step, 1);
    assert_int_equal(result.skipped, 4);
    assert_string_equal(result.tag, "step-00000001");
    states_get(&j, &now);
    states_assert_same(&saved[1], &now);
    // By name there is no other to take.
    assert_fails_on_all(cero_engine_load(j.engine, dir, "step-00000004", NULL), CERO_ERR_CORRUPT,
                        "step-00000004");
    assert_fails_on_all(cero_engine_load(j.engine, dir, "step-00000003", NULL), CERO_ERR_CORRUPT,
                        "rank-00000.safetensors");
    assert_fails_on_all(cero_engine_load(j.engine, dir, "step-00000002", NULL), CERO_ERR_CORRUPT,
                        "rank-00000.safetensors");
    states_get(&j, &now);
    states_assert_same(&saved[1], &now);
    assert_fails_on_all(cero_engine_load(j.engine, dir, "absent", NULL), CERO_ERR_IO,
                        "absent: there is no such checkpoint");
    // None left: all are named, and what was half loaded is of no use.
    if (j.rank == 0) {
        flip("step-00000001", last_file(&j), -1);
    }
    equiv_meet();
    cero_status st = cero_engine_resume(j.engine, dir, NULL);
    assert_fails_on_all(st, CERO_ERR_CORRUPT, "none of the checkpoints in ");
    for (int step = 1; step <= 5 && j.rank == 0; step++) { // others hear the beginning
        char tag[CERO_FOLDER_MAX_TAG];
        assert_fails_on_all(st, CERO_ERR_CORRUPT, cero_folder_step_tag(step, tag));
    }
    assert_fails_on_all(cero_engine_save(j.engine, dir, NULL), CERO_ERR_INVALID, "failed before");
    job_close(&j);
    remove_dir();
}

/* What a caller says of a manifest: one is bad, one ends the load. */
static cero_status refuse(void *context, const cero_manifest *manifest)
{
    const cero_status *statuses = context;

    CERO_CHECK(manifest->step > 2 || statuses[manifest->step] == CERO_OK, statuses[manifest->step],
               "the caller does not like step %lld", (long long)manifest->step);
    return CERO_OK;
}

static void test_check_of_caller(void **state)
{
    cero_status statuses[3] = {CERO_OK, CERO_OK, CERO_ERR_CORRUPT};
    cero_loader_params params = {.dir = dir, .check = refuse, .context = statuses};
    cero_loader_result result;
    job j;

    CERO_UNUSED(state);
    make_dir();
    open_stage(&j, case_g2(), 2, NULL, NULL, NULL);
    params.may_be_absent = true;
    assert_ok(cero_loader_load(j.engine, &params, &result));
    assert_false(result.is_loaded);
    params.may_be_absent = false;
    assert_fails_on_all(cero_loader_load(j.engine, &params, &result), CERO_ERR_IO,
                        "has no checkpoint to load");
    for (int step = 0; step < 2; step++) {
        job_train(&j, step, 1);
        assert_ok(cero_engine_save(j.engine, dir, NULL));
    }
    assert_ok(cero_loader_load(j.engine, &params, &result));
    assert_int_equal(result.step, 1);
    assert_int_equal(result.skipped, 1);
    // On one rank alone is enough.
    statuses[2] = j.rank == j.size - 1 ? CERO_ERR_INVALID : CERO_OK;
    assert_fails_on_all(cero_loader_load(j.engine, &params, &result), CERO_ERR_INVALID,
                        "does not like step 2");
    job_train(&j, 1, 1);
    job_close(&j);
    remove_dir();
}

/* A table of several blocks of a checkpoint: of those that ranks' borders cut both have to read all, of no others. */
static void test_blocks(void **state)
{
    enum {
        MIB = 1 << 20
    };
    static const char frozen[] = "cero.frozen=[\"transformer.wte.weight\"]";
    cero_model_spec spec = case_g2();
    cero_loader_result result;
    job j;
    int rank = -1;

    CERO_UNUSED(state);
    make_dir();
    spec.vocab_size = 60000;
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        job_open(&j, MPI_COMM_SELF, spec, (const char *const[]){"bf16.enabled=true", frozen, NULL});
        assert_ok(cero_engine_save(j.engine, dir, "alone"));
        job_close(&j);
    }
    equiv_meet();
    open_stage(&j, spec, 2, "bf16.enabled=true", frozen, NULL);
    int64_t wte = cero_engine_find_param(j.engine, "transformer.wte.weight");
    static float zeros[21 * 60000];
    assert_ok(cero_engine_set_param(j.engine, wte, 0, 21 * 60000, zeros));
    assert_ok(cero_loader_load(j.engine, &(cero_loader_params){.dir = dir}, &result));
    int64_t sum = result.bytes_read;
    (void)MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    assert_in_range(sum, result.bytes_all, result.bytes_all + (j.size - 1) * (MIB + MIB / 4));
    assert_ok(cero_engine_save(j.engine, dir, "together"));
    if (j.rank == 0) {
        assert_same_digest("alone", "together");
    }
    job_close(&j);
    remove_dir();
}

static void test_other_optimizer(void **state)
{
    static states before;
    static states after;
    job j;

    CERO_UNUSED(state);
    make_dir();
    open_stage(&j, case_g2(), 1, NULL, NULL, NULL);
    assert_ok(cero_engine_save(j.engine, dir, NULL));
    job_close(&j);
    open_stage(&j, case_g2(), 1, "optimizer.type=Lamb", NULL, NULL);
    states_get(&j, &before);
    assert_fails_on_all(cero_engine_load(j.engine, dir, NULL, NULL), CERO_ERR_INVALID,
                        "was saved with optimizer.type AdamW, and the config has Lamb");
    states_get(&j, &after);
    states_assert_same(&before, &after);
    job_close(&j);
    open_stage(&j, case_g2(), 1, "cero.frozen=[\"transformer.wpe.weight\"]", NULL, NULL);
    assert_fails_on_all(
        cero_engine_load(j.engine, dir, NULL, NULL), CERO_ERR_INVALID,
        "tensor \"optim.exp_avg.transformer.wpe.weight\" is in no place of this model");
    job_close(&j);
    remove_dir();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),           cmocka_unit_test(test_weights_only),
        cmocka_unit_test(test_partial),         cmocka_unit_test(test_newest_that_verifies),
        cmocka_unit_test(test_check_of_caller), cmocka_unit_test(test_other_optimizer),
        cmocka_unit_test(test_blocks),
    };

    return checkpoint_run(tests, CERO_COUNT_OF(tests), argc, argv);
}
