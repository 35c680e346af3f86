/* SPDX-License-Identifier: Apache-2.0 */
/* What is bound by memory: triad, AdamW, and head with loss; bench_memory [seconds for each]. */
#include "device/bench.h"

#include <stdio.h>
#include <stdlib.h>

static cero_status measure(cero_device *device, double seconds)
{
    static const cero_dtype dtypes[] = {CERO_DTYPE_F32, CERO_DTYPE_BF16};
    const int64_t n = 32 << 20;
    double rate = 0;

    CERO_TRY(cero_device_bench_triad(device, n, seconds, &rate));
    printf("triad             %7.2f GB/s\n", rate * 1e-9);
    for (size_t i = 0; i < CERO_COUNT_OF(dtypes); i++) {
        // Master and moments are read and written, the gradient read, the copy written.
        double bytes = 24.0 + 2.0 * (double)cero_dtype_size(dtypes[i]);
        CERO_TRY(cero_device_bench_adamw(device, dtypes[i], n, seconds, &rate));
        printf("adamw %-4s        %7.2f GB/s, %.0f million parameters a second\n",
               cero_dtype_name(dtypes[i]), bytes * rate * 1e-9, rate * 1e-6);
    }
    for (size_t i = 0; i < CERO_COUNT_OF(dtypes); i++) {
        // Three products of 2 * 768 * 50257 operations a row.
        CERO_TRY(cero_device_bench_head_loss(device, dtypes[i], 1024, 768, 50257, seconds, &rate));
        printf("head, loss %-4s   %7.1f GFLOP/s, %.0f rows a second\n", cero_dtype_name(dtypes[i]),
               rate * 6.0 * 768.0 * 50257.0 * 1e-9, rate);
    }
    return CERO_OK;
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 1.0;
    cero_device *device = NULL;

    if (cero_device_create(NULL, &device) != CERO_OK || measure(device, seconds) != CERO_OK) {
        fprintf(stderr, "%s\n", cero_error_string());
        cero_device_destroy(&device);
        return 1;
    }
    cero_device_destroy(&device);
    return 0;
}
