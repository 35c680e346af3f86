/* SPDX-License-Identifier: Apache-2.0 */
/* What a stage on a number of ranks saved, another loads bit for bit, and reads no byte twice. */
// RUN: np=1,2,3,4
#include "mpi/checkpoint_layouts.h"

static void check(const char *dtype)
{
    static layouts l;
    int size = 0;

    (void)MPI_Comm_size(MPI_COMM_WORLD, &size);
    memset(&l, 0, sizeof(l));
    l.dtype = dtype;
    l.sizes[l.count++] = 1;
    if (size > 1) {
        l.sizes[l.count++] = size;
    }
    layouts_check(&l);
}

static void test_fp32(void **state)
{
    CERO_UNUSED(state);
    check("bf16.enabled=false");
}

static void test_bf16(void **state)
{
    CERO_UNUSED(state);
    check("bf16.enabled=true");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fp32), cmocka_unit_test(test_bf16)};

    return checkpoint_run(tests, CERO_COUNT_OF(tests), argc, argv);
}
