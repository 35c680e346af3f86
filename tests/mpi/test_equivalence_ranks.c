/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Five, seven and eight ranks give the bits of one, also where a unit has fewer blocks of 256 elements than there
 * are ranks, so that some ranks own nothing of it, and some nothing at all.
 */
// RUN: np=8
#include "mpi/equivalence.h"

#include "zero/layout.h"

static const int sizes[] = {5, 7, 8};

/* 1 layer, width 4: units of 168, 244 and 8 elements, one block each; the last rank owns them all. */
static cero_model_spec tiny(void)
{
    cero_model_spec spec = case_g2();

    spec.vocab_size = 29;
    spec.hidden = 4;
    spec.heads = spec.kv_heads = spec.head_dim = 2;
    spec.inner = 16;
    return spec;
}

static equiv_run make_run(bool is_tiny, bool is_bf16, int size)
{
    cero_model_spec spec = is_tiny ? tiny() : case_g2();

    spec.embd_dropout = spec.attn_dropout = spec.resid_dropout = 0.1;
    equiv_run run = equiv_run_of(spec, 2 * size, 10);
    equiv_set(&run, "bf16.enabled=%s", is_bf16 ? "true" : "false");
    return run;
}

/* All stages, with and without overlap, of one model and dtype. Returns the rows. */
static int check(const equiv_world *w, equiv_tally *tally, bool is_tiny, bool is_bf16, int first)
{
    equiv_run run = make_run(is_tiny, is_bf16, w->size);
    equiv_outcome expected;
    int rows = 0;

    if (w->context != NULL) {
        equiv_train_alone(&run, &expected);
    }
    for (int stage = 0; stage < 4; stage++) {
        for (int overlap = 0; overlap < 2; overlap++) {
            char name[96];
            if (!equiv_is_mine(w, first + rows++)) {
                continue;
            }
            (void)snprintf(name, sizeof(name), "%s %s, %d ranks, stage %d, overlap %s",
                           is_tiny ? "tiny" : "G2", is_bf16 ? "bf16" : "fp32", w->size, stage,
                           overlap ? "on" : "off");
            run = make_run(is_tiny, is_bf16, w->size);
            equiv_set(&run, "zero_optimization.stage=%d", stage);
            equiv_set(&run, "zero_optimization.overlap_comm=%s", overlap ? "true" : "false");
            cero_zero_summary zero = equiv_row(w, tally, name, &run, &expected);
            assert_int_equal(zero.stage, stage);
            assert_int_equal(zero.size, w->size);
        }
    }
    if (w->context != NULL) {
        equiv_cleanup(&expected);
    }
    return rows;
}

/* PM-04, and sizes that no number of ranks divides. */
static void test_many_ranks(void **state)
{
    equiv_tally tally = {0};
    int rows = 0;

    CERO_UNUSED(state);
    for (int k = 0; k < (int)CERO_COUNT_OF(sizes); k++) {
        equiv_world w;
        equiv_open(&w, sizes[k], NULL);
        for (int i = 0; i < 4; i++) {
            rows += check(&w, &tally, i % 2 == 1, i / 2 == 1, rows);
        }
        equiv_close(&w);
    }
    equiv_finish(&tally, rows);
    assert_int_equal(rows, 3 * 4 * 4 * 2);
}

/* What the models are for: shards of their units that have nothing in them. */
static void test_shards_are_empty(void **state)
{
    CERO_UNUSED(state);
    for (int k = 0; k < (int)CERO_COUNT_OF(sizes); k++) {
        int last = sizes[k] - 1;
        assert_int_equal(cero_zero_border(168, sizes[k], last), 0); // embedding of tiny
        assert_int_equal(cero_zero_border(244, sizes[k], last), 0); // its block
        assert_int_equal(cero_zero_border(42, sizes[k], last), 0);  // norm of G2
        assert_true(cero_zero_border(5670, sizes[k], 1) > 0);       // embedding of G2
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shards_are_empty),
        cmocka_unit_test(test_many_ranks),
    };
    return run_in_world(NULL, tests, CERO_COUNT_OF(tests));
}
