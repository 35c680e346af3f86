/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a checkpoint that one rank writes: which ranges, from where, and a copy of them. */
#include "train/checkpoint/saver_impl.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

enum {
    COPY_SPAN = 1 << 18 /* elements that a thread copies at once */
};

static cero_status create_ranges(cero_saver *saver)
{
    size_t count = (size_t)saver->list.count;

    saver->ranges = cero_new(count, sizeof(cero_rank_file_range));
    saver->places = cero_new(count, sizeof(cero_saver_place));
    CERO_CHECK(saver->ranges != NULL && saver->places != NULL, CERO_ERR_NOMEM,
               "no memory for the ranges of %zu tensors", count);
    for (int64_t t = 0; t < saver->list.count; t++) {
        const cero_tensor_source *source = &saver->list.sources[t];
        int64_t begin;
        int64_t n;
        cero_engine_own_range(saver->engine, source->param, source->moment, &begin, &n);
        if (n > 0) {
            saver->ranges[saver->range_count++] =
                (cero_rank_file_range){.tensor = t, .begin = begin, .end = begin + n};
        }
    }
    return CERO_OK;
}

static int compare_places(const void *a, const void *b)
{
    const cero_saver_place *first = a;
    const cero_saver_place *second = b;

    return (first->at > second->at) - (first->at < second->at);
}

/* Element of the file's data where a range begins. */
static int64_t place_of(const cero_saver *saver, int64_t range)
{
    return cero_rank_file_data_offset(saver->file, range) / (int64_t)sizeof(float);
}

static void sort_ranges(cero_saver *saver)
{
    for (int64_t i = 0; i < saver->range_count; i++) {
        saver->places[i] = (cero_saver_place){.at = place_of(saver, i), .range = i};
    }
    qsort(saver->places, (size_t)saver->range_count, sizeof(cero_saver_place), compare_places);
}

/* The engine's values of elements begin .. begin + n of a range. */
static const float *engine_values(const cero_saver *saver, int64_t range, int64_t begin, int64_t n,
                                  float *room)
{
    const cero_tensor_source *source = &saver->list.sources[saver->ranges[range].tensor];

    return cero_engine_own_values(saver->engine, source->param, source->moment, begin, n, room);
}

/* The last place that is at this element of the data or before. */
static int64_t find_place(const cero_saver *saver, int64_t at)
{
    int64_t low = 0;
    int64_t high = saver->range_count;

    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (saver->places[middle].at <= at) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

static void copy_spans(void *context, int64_t first, int64_t last, int thread)
{
    const cero_saver *saver = context;
    int64_t total = cero_rank_file_data_bytes(saver->file) / (int64_t)sizeof(float);
    int64_t at = first * COPY_SPAN;
    int64_t end = last * COPY_SPAN < total ? last * COPY_SPAN : total;

    CERO_UNUSED(thread);
    for (int64_t k = find_place(saver, at); at < end; k++) {
        int64_t range = saver->places[k].range;
        const cero_rank_file_range *r = &saver->ranges[range];
        int64_t begin = r->begin + at - saver->places[k].at;
        int64_t n = r->end - begin < end - at ? r->end - begin : end - at;
        const float *values = engine_values(saver, range, begin, n, saver->snapshot + at);
        if (values != saver->snapshot + at) {
            memcpy(saver->snapshot + at, values, (size_t)n * sizeof(float));
        }
        at += n;
    }
}

void cero_saver_part_copy(cero_saver *saver)
{
    double start = cero_clock_now();
    int64_t total = cero_rank_file_data_bytes(saver->file) / (int64_t)sizeof(float);

    cero_device_parallel_for(cero_engine_context(saver->engine)->device,
                             (total + COPY_SPAN - 1) / COPY_SPAN, copy_spans, saver);
    saver->stats.seconds_snapshot = cero_clock_now() - start;
}

cero_status cero_saver_part_create(cero_saver *saver)
{
    CERO_TRY(cero_tensor_list_create(saver->engine, &saver->list));
    CERO_TRY(create_ranges(saver));
    cero_rank_file_params params = {.tensors = saver->list.tensors,
                                    .tensor_count = saver->list.count,
                                    .ranges = saver->ranges,
                                    .range_count = saver->range_count,
                                    .rank = cero_comm_rank(saver->comm)};
    CERO_TRY(cero_rank_file_create(&params, &saver->file));
    sort_ranges(saver);
    if (saver->params.is_background) {
        CERO_TRY(cero_mem_alloc(cero_engine_context(saver->engine)->mem,
                                (size_t)cero_rank_file_data_bytes(saver->file), CERO_MEM_IO,
                                "copy for background saves", (void **)&saver->snapshot));
        cero_saver_part_copy(saver); // pages are there before a step waits for them
    }
    return CERO_OK;
}

void cero_saver_part_destroy(cero_saver *saver)
{
    cero_mem_free(cero_engine_context(saver->engine)->mem, saver->snapshot);
    cero_rank_file_destroy(&saver->file);
    cero_delete(saver->places);
    cero_delete(saver->ranges);
    cero_tensor_list_cleanup(&saver->list);
}

static cero_status give(void *context, int64_t range, int64_t begin, int64_t n, float *room,
                        const float **out)
{
    cero_saver *saver = context;

    if (saver->snapshot != NULL) {
        cero_saver_work_rest(saver);
        *out = saver->snapshot + place_of(saver, range) + (begin - saver->ranges[range].begin);
    } else {
        *out = engine_values(saver, range, begin, n, room);
    }
    return CERO_OK;
}

cero_status cero_saver_part_write(cero_saver *saver)
{
    cero_rank_file_seconds seconds = {0};
    double start = cero_clock_now();

    CERO_TRY(cero_rank_file_write(saver->file, saver->path, saver->id, give, saver, &seconds));
    saver->stats.seconds_write = cero_clock_now() - start;
    saver->stats.seconds_hash = seconds.hash;
    return CERO_OK;
}

cero_status cero_saver_part_verify(cero_saver *saver)
{
    double start = cero_clock_now();
    cero_status st = CERO_OK;
    cero_text path = {0};

    cero_text_printf(&path, "%s/%s", saver->params.dir, saver->stats.tag);
    CERO_TRY_GOTO(cero_text_finish(&path), out);
    CERO_TRY_GOTO(cero_rank_file_check(saver->file, path.data), out);
    saver->stats.seconds_verify = cero_clock_now() - start;
out:
    cero_text_cleanup(&path);
    return st == CERO_OK ? CERO_OK
                         : cero_error_prefix(st, "what was just written reads back otherwise, and "
                                                 "older checkpoints stay: ");
}
