/* SPDX-License-Identifier: Apache-2.0 */
/* Makes devices and splits work over their threads. With data/, the only users of OpenMP. */
#include "device/device.h"

#include "base/log.h"
#include "device/cpu/dnnl_shim.h"
#include "device/device_impl.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const cero_device_backend *const backends[] = {&cero_device_cpu, &cero_device_meta};

static const cero_device_backend *backend_find(const char *name)
{
    for (size_t i = 0; i < CERO_COUNT_OF(backends); i++) {
        if (strcmp(name, backends[i]->name) == 0) {
            return backends[i];
        }
    }
    return NULL;
}

int cero_device_cores(uint64_t *set)
{
    char line[1024];
    FILE *file = set != NULL ? fopen("/proc/self/status", "r") : NULL;

    if (set != NULL) {
        *set = 0;
    }
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "Cpus_allowed:", strlen("Cpus_allowed:")) == 0) {
            *set = cero_rng_hash(line);
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return omp_get_num_procs();
}

bool cero_device_has_thread_setting(void)
{
    const char *setting = getenv("OMP_NUM_THREADS");

    return setting != NULL && setting[0] != '\0';
}

/* More threads than cores wait for each other in every operation. */
static void warn_of_threads(const cero_device *device)
{
    int cores = omp_get_num_procs();

    if (device->threads > cores) {
        cero_log(CERO_LOG_WARN, "device",
                 "%d threads for %d core(s) that this process may use; ask for %d threads, or bind "
                 "the process to more cores (mpirun --bind-to none, taskset)",
                 device->threads, cores, cores);
    }
}

cero_status cero_device_create(const cero_device_params *params, cero_device **out)
{
    static const cero_device_params defaults = {0};
    const cero_device_params *p = params != NULL ? params : &defaults;
    const char *name = p->name != NULL ? p->name : "cpu";
    const cero_device_backend *backend = backend_find(name);
    cero_status st = CERO_OK;

    CERO_CHECK(backend != NULL, CERO_ERR_INVALID, "device '%s' is unknown; known are cpu and meta",
               name);
    CERO_CHECK(p->threads >= 0, CERO_ERR_INVALID,
               "device %s: %d threads asked for; give 1 or more, or 0 for all allowed cores", name,
               p->threads);
    cero_device *device = cero_new(1, sizeof(*device));
    CERO_CHECK(device != NULL, CERO_ERR_NOMEM, "no memory for device %s", name);
    device->backend = backend;
    // The runtime asked for the allowed cores (sched_getaffinity) and OMP_NUM_THREADS at start.
    device->threads = p->threads > 0 ? p->threads : omp_get_max_threads();
    CERO_TRY_GOTO(cero_kernels_get(&device->kernels), fail);
    CERO_TRY_GOTO(cero_dnnl_create(&device->dnnl), fail);
    if (!device->backend->is_meta && !p->is_quiet) {
        warn_of_threads(device);
    }
    *out = device;
    return CERO_OK;

fail:
    cero_device_destroy(&device);
    return st;
}

void cero_device_destroy(cero_device **device)
{
    if (device == NULL || *device == NULL) {
        return;
    }
    cero_head_loss_destroy((*device)->head_losses);
    for (int i = 0; i < CERO_MATMUL_BUCKETS; i++) {
        cero_matmul_destroy((*device)->matmuls[i]);
    }
    cero_dnnl_destroy(&(*device)->dnnl);
    cero_delete(*device);
    *device = NULL;
}

const char *cero_device_name(const cero_device *device)
{
    return device->backend->name;
}

bool cero_device_is_meta(const cero_device *device)
{
    return device->backend->is_meta;
}

int cero_device_threads(const cero_device *device)
{
    return device->threads;
}

const cero_kernels *cero_device_kernels(const cero_device *device)
{
    return device->kernels;
}

const char *cero_device_matmul_library(void)
{
    return cero_dnnl_version();
}

int64_t cero_device_row_parts(int64_t rows)
{
    const int64_t rows_per_part = 64;
    const int64_t most = 64;
    int64_t parts = (rows + rows_per_part - 1) / rows_per_part;

    return parts < most ? parts : most;
}

int cero_device_threads_begin(const cero_device *device)
{
    int saved = omp_get_max_threads();

    if (saved != device->threads) {
        omp_set_num_threads(device->threads);
    }
    return saved;
}

void cero_device_threads_end(int saved)
{
    if (saved != omp_get_max_threads()) {
        omp_set_num_threads(saved);
    }
}

void cero_device_parallel_for(const cero_device *device, int64_t count, cero_task task,
                              void *context)
{
    CERO_ASSERT(!device->backend->is_meta);
    if (count <= 0) {
        return;
    }
    if (count == 1 || device->threads == 1) {
        task(context, 0, count, 0);
        return;
    }
    // Always the full team: a smaller one would make the runtime end threads and start them again.
#pragma omp parallel num_threads(device->threads) default(none) shared(count, task, context)
    {
        int thread = omp_get_thread_num();
        int team = omp_get_num_threads();
        int64_t begin = cero_part_begin(count, team, thread);
        int64_t end = cero_part_begin(count, team, thread + 1);

        if (begin < end) {
            task(context, begin, end, thread);
        }
    }
}

void cero_device_parallel_dynamic(const cero_device *device, int64_t count, cero_task task,
                                  void *context)
{
    CERO_ASSERT(!device->backend->is_meta);
    if (count <= 0) {
        return;
    }
    if (count == 1 || device->threads == 1) {
        for (int64_t i = 0; i < count; i++) {
            task(context, i, i + 1, 0);
        }
        return;
    }
#pragma omp parallel for schedule(dynamic, 1) num_threads(device->threads) default(none) \
    shared(count, task, context)
    for (int64_t i = 0; i < count; i++) {
        task(context, i, i + 1, omp_get_thread_num());
    }
}
