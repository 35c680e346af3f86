/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When the n-th allocation of one rank fails in a save or a load, that rank says NOMEM and the others REMOTE; a save
 * leaves nothing behind and the engine as it was, a load the engine as it was or of no further use.
 */
// RUN: np=1,2,3
#include "mpi/checkpoint_cases.h"

static const char *const sets[] = {"zero_optimization.stage=2", "bf16.enabled=true",
                                   "cero.frozen=[\"*.bias\"]", NULL};

/* A model of few tensors: what is asked for grows with their number, and its kinds do not. */
static cero_model_spec small(void)
{
    cero_model_spec spec = case_g2();

    spec.vocab_size = 29;
    spec.hidden = 4;
    spec.heads = spec.kv_heads = spec.head_dim = 2;
    spec.inner = 8;
    return spec;
}

/* Which allocations fail, of all that a call makes on the victim: about a hundred, the first ones each. */
static uint64_t next_place(uint64_t n)
{
    return n + 1 + n / 24;
}

/* True when a call failed by the victim's lack of memory, on all ranks. Collective. */
static bool has_failed(const job *j, cero_status st, bool is_victim)
{
    int64_t worst = st;

    cero_mem_fail_at(0);
    if (st != CERO_OK) {
        if (st != (is_victim ? CERO_ERR_NOMEM : CERO_ERR_REMOTE)) {
            fail_msg("%s: %s", cero_status_name(st), cero_error_message());
        }
    }
    assert_ok(cero_comm_all_reduce_i64(j->context->comm, CERO_COMM_MAX, &worst, 1));
    assert_int_equal(worst != CERO_OK, st != CERO_OK);
    return st != CERO_OK;
}

/* The victim's number, on all ranks. Collective. */
static uint64_t count_calls(const job *j, int victim, uint64_t calls)
{
    (void)MPI_Bcast(&calls, 1, MPI_UINT64_T, victim, j->comm);
    return calls;
}

static void check_save(int victim)
{
    static states before;
    static states after;
    job j;
    int failures = 0;

    make_dir();
    job_open(&j, MPI_COMM_WORLD, small(), sets);
    job_train(&j, 0, 1);
    states_get(&j, &before);
    assert_ok(cero_engine_save(j.engine, dir, "good"));
    uint64_t count = count_calls(&j, victim, cero_mem_calls());
    assert_ok(cero_engine_save(j.engine, dir, "good"));
    count = count_calls(&j, victim, cero_mem_calls()) - count;
    for (uint64_t n = 1; n <= count; n = next_place(n)) {
        bool is_victim = j.rank == victim;
        equiv_meet();
        cero_mem_fail_at(is_victim ? n : 0);
        bool is_bad = has_failed(&j, cero_engine_save(j.engine, dir, "bad"), is_victim);
        failures += is_bad ? 1 : 0;
        equiv_meet();
        assert_int_equal(count_entries(), is_bad ? 1 : 2);
        equiv_meet();                 // all have counted before one removes
        if (!is_bad && j.rank == 0) { // it was for a hint, or for what was left over
            char path[256];
            assert_same_digest("good", "bad");
            (void)snprintf(path, sizeof(path), "%s/bad", dir);
            remove_tree(path);
        }
        equiv_meet();
    }
    assert_true(failures > 30);
    states_get(&j, &after);
    states_assert_same(&before, &after);
    job_close(&j);
    remove_dir();
}

static void check_load(int victim)
{
    static states saved;
    static states after;
    job j;
    int failures = 0;

    make_dir();
    job_open(&j, MPI_COMM_WORLD, small(), sets);
    job_train(&j, 0, 1);
    states_get(&j, &saved);
    assert_ok(cero_engine_save(j.engine, dir, NULL));
    uint64_t count = count_calls(&j, victim, cero_mem_calls());
    assert_ok(cero_engine_load(j.engine, dir, NULL, NULL));
    count = count_calls(&j, victim, cero_mem_calls()) - count;
    for (uint64_t n = 1; n <= count; n = next_place(n)) {
        bool is_victim = j.rank == victim;
        equiv_meet();
        cero_mem_fail_at(is_victim ? n : 0);
        bool is_bad = has_failed(&j, cero_engine_load(j.engine, dir, NULL, NULL), is_victim);
        failures += is_bad ? 1 : 0;
        if (cero_engine_can_checkpoint(j.engine) == CERO_OK) {
            states_get(&j, &after);
            states_assert_same(&saved, &after);
        } else {
            job_close(&j);
            job_open(&j, MPI_COMM_WORLD, small(), sets);
            job_train(&j, 0, 1);
        }
    }
    assert_true(failures > 30);
    job_close(&j);
    remove_dir();
}

static void test_save(void **state)
{
    int size = 0;

    CERO_UNUSED(state);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &size);
    check_save(0);
    if (size > 1) {
        check_save(size - 1);
    }
}

static void test_load(void **state)
{
    int size = 0;

    CERO_UNUSED(state);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &size);
    check_load(0);
    if (size > 1) {
        check_load(size - 1);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_save), cmocka_unit_test(test_load)};

    return checkpoint_run(tests, CERO_COUNT_OF(tests), argc, argv);
}
