/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One arithmetic, many layouts: losses, gradient norms and weights have the bits of a run on one rank, whatever
 * the number of ranks, stage, bucket, overlap and activation checkpointing. Here every three levels of three
 * factors meet in a row; test_equivalence_full.c has all rows.
 */
// RUN: np=6
#include "mpi/equivalence_table.h"

/* Combinations of three factors, each with at most so many levels. */
enum {
    TRIPLES = 35,
    TRIPLE_LEVELS = TABLE_MAX_LEVELS * TABLE_MAX_LEVELS * TABLE_MAX_LEVELS
};

/* Which levels of three factors a set of rows has together. */
typedef struct triples {
    unsigned char has[TRIPLES][TRIPLE_LEVELS];
} triples;

/* Triples of this row that are not there yet; `add` puts them there. */
static int new_triples(triples *t, int row, bool add)
{
    int count = 0;
    int triple = 0;

    for (int f = 0; f < TABLE_FACTORS; f++) {
        for (int g = f + 1; g < TABLE_FACTORS; g++) {
            for (int h = g + 1; h < TABLE_FACTORS; h++) {
                int level = (table_level(row, (table_factor)f) * TABLE_MAX_LEVELS +
                             table_level(row, (table_factor)g)) *
                                TABLE_MAX_LEVELS +
                            table_level(row, (table_factor)h);
                unsigned char *has = &t->has[triple++][level];
                count += *has == 0 ? 1 : 0;
                *has = add ? 1 : *has;
            }
        }
    }
    return count;
}

static int all_triples(void)
{
    int count = 0;

    for (int f = 0; f < TABLE_FACTORS; f++) {
        for (int g = f + 1; g < TABLE_FACTORS; g++) {
            for (int h = g + 1; h < TABLE_FACTORS; h++) {
                count += table_levels[f] * table_levels[g] * table_levels[h];
            }
        }
    }
    return count;
}

/* Greedy: the row with most new triples, the first in a mixed order, until nothing is new. */
static void choose(unsigned char *is_chosen)
{
    static triples t;
    int best = 0;

    memset(is_chosen, 0, TABLE_ROWS);
    do {
        int best_row = 0;
        best = 0;
        for (int i = 0; i < TABLE_ROWS; i++) {
            int row = i * 997 % TABLE_ROWS; // 997 is prime, and no factor of the number of rows
            int count = new_triples(&t, row, false);
            if (count > best) {
                best = count;
                best_row = row;
            }
        }
        (void)new_triples(&t, best_row, true);
        is_chosen[best_row] = best > 0 ? 1 : is_chosen[best_row];
    } while (best > 0);
}

static void test_all_triples(void **state)
{
    static unsigned char is_chosen[TABLE_ROWS];
    static unsigned char is_done[TABLE_ROWS];
    static triples t;
    int count = 0;

    CERO_UNUSED(state);
    choose(is_chosen);
    table_do_all(is_chosen, is_done);
    for (int row = 0; row < TABLE_ROWS; row++) {
        count += is_done[row] ? new_triples(&t, row, true) : 0;
    }
    assert_int_equal(count, all_triples());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_triples),
    };
    return run_in_world(NULL, tests, CERO_COUNT_OF(tests));
}
