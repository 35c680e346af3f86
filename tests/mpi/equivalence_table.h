/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of layouts: every combination of model, dtype, number of ranks, stage, bucket, overlap and activation
 * checkpointing is a row, and all rows of one model and dtype have the same bits.
 */
#ifndef CERO_TESTS_MPI_EQUIVALENCE_TABLE_H
#define CERO_TESTS_MPI_EQUIVALENCE_TABLE_H

#include "mpi/equivalence.h"

typedef enum table_factor {
    TABLE_MODEL = 0,
    TABLE_DTYPE = 1,
    TABLE_SIZE = 2,
    TABLE_STAGE = 3,
    TABLE_BUCKET = 4,
    TABLE_OVERLAP = 5,
    TABLE_UNITS = 6,
    TABLE_FACTORS = 7
} table_factor;

enum {
    TABLE_MAX_LEVELS = 5,
    TABLE_ROWS = 2 * 2 * 5 * 4 * 3 * 2 * 3,
    TABLE_MODELS = 2,
    TABLE_DTYPES = 2,
    TABLE_STEPS = 20
};

static const int table_levels[TABLE_FACTORS] = {2, 2, 5, 4, 3, 2, 3};
static const int table_sizes[] = {1, 2, 3, 4, 6};
/* One block of each rank at a time; a prime; more than the model. */
static const int table_buckets[] = {1, 1009, 1000000};
static const char *const table_model_names[] = {"gpt2", "llama"};
static const char *const table_dtype_names[] = {"fp32", "bf16"};

/* Level of a factor in a row: the row's number is written with one digit for each factor. */
static inline int table_level(int row, table_factor factor)
{
    for (int f = TABLE_FACTORS - 1; f > (int)factor; f--) {
        row /= table_levels[f];
    }
    return row % table_levels[factor];
}

static inline equiv_run table_run(int row)
{
    bool is_gpt2 = table_level(row, TABLE_MODEL) == 0;
    equiv_run run = equiv_run_of(is_gpt2 ? equiv_gpt2() : equiv_llama(), 12, TABLE_STEPS);

    equiv_set(&run, "bf16.enabled=%s", table_level(row, TABLE_DTYPE) == 0 ? "false" : "true");
    equiv_set(&run, "zero_optimization.stage=%d", table_level(row, TABLE_STAGE));
    equiv_set(&run, "zero_optimization.reduce_bucket_size=%d",
              table_buckets[table_level(row, TABLE_BUCKET)]);
    equiv_set(&run, "zero_optimization.overlap_comm=%s",
              table_level(row, TABLE_OVERLAP) == 0 ? "false" : "true");
    equiv_set(&run, "cero.checkpoint_units=%d", table_level(row, TABLE_UNITS));
    return run;
}

static inline void table_describe(int row, char *text, size_t size)
{
    (void)snprintf(
        text, size, "%s %s, %d ranks, stage %d, bucket %d, overlap %s, units %d",
        table_model_names[table_level(row, TABLE_MODEL)],
        table_dtype_names[table_level(row, TABLE_DTYPE)], table_sizes[table_level(row, TABLE_SIZE)],
        table_level(row, TABLE_STAGE), table_buckets[table_level(row, TABLE_BUCKET)],
        table_level(row, TABLE_OVERLAP) == 0 ? "off" : "on", table_level(row, TABLE_UNITS));
}

/* Weights that never moved, or a clip that never bit, would prove little. */
static inline void table_check_reference(const equiv_outcome *o)
{
    for (int s = 0; s < o->steps; s++) {
        assert_true(o->stats[s].is_applied);
        assert_true(o->stats[s].clip_coef < 1);
        assert_true(o->stats[s].loss > 0);
        assert_true(s == 0 || !equiv_is_same(o->stats[s].loss, o->stats[s - 1].loss));
    }
}

/* The run of one rank that a row is held against: made when first asked for. */
static inline const equiv_outcome *table_reference(int row)
{
    static equiv_outcome known[TABLE_MODELS][TABLE_DTYPES];
    int model = table_level(row, TABLE_MODEL);
    int dtype = table_level(row, TABLE_DTYPE);
    equiv_outcome *o = &known[model][dtype];

    if (o->steps == 0) {
        // The first row with this model and dtype has one rank, and all else as low as it goes.
        int first = (model * TABLE_DTYPES + dtype) * (TABLE_ROWS / TABLE_MODELS / TABLE_DTYPES);
        equiv_run run = table_run(first);
        equiv_train_alone(&run, o);
        table_check_reference(o);
    }
    return o;
}

/* The layout is the one that was asked for: a row that quietly ran as another one would prove nothing. */
static inline void table_check_layout(int row, const cero_zero_summary *zero)
{
    int size = table_sizes[table_level(row, TABLE_SIZE)];

    assert_int_equal(zero->size, size);
    assert_int_equal(zero->stage, size > 1 ? table_level(row, TABLE_STAGE) : 0);
    assert_string_equal(zero->order, "global");
    assert_int_equal(zero->whole_units == 0, zero->stage == 3);
}

/* Trains a row in this world and compares it. Collective over the world. */
static inline void table_do(const equiv_world *w, equiv_tally *tally, int row)
{
    const equiv_outcome *expected = table_reference(row);
    equiv_run run = table_run(row);
    char name[128];

    table_describe(row, name, sizeof(name));
    cero_zero_summary zero = equiv_row(w, tally, name, &run, expected);
    table_check_layout(row, &zero);
}

/* Does the rows that are chosen; is_done [TABLE_ROWS] says which were done, by any rank. */
static inline void table_do_all(const unsigned char *is_chosen, unsigned char *is_done)
{
    equiv_tally tally = {0};
    int rows = 0;

    memset(is_done, 0, TABLE_ROWS);
    for (int k = 0; k < (int)CERO_COUNT_OF(table_sizes); k++) {
        equiv_world w;
        int count = 0;
        equiv_open(&w, table_sizes[k], NULL);
        for (int row = 0; row < TABLE_ROWS; row++) {
            if (!is_chosen[row] || table_level(row, TABLE_SIZE) != k) {
                continue;
            }
            if (equiv_is_mine(&w, count++)) {
                table_do(&w, &tally, row);
                is_done[row] = 1;
            }
        }
        rows += count;
        equiv_close(&w);
    }
    equiv_finish(&tally, rows);
    (void)MPI_Allreduce(MPI_IN_PLACE, is_done, TABLE_ROWS, MPI_UNSIGNED_CHAR, MPI_MAX,
                        MPI_COMM_WORLD);
}

#endif
