/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contents on their way from a checkpoint into the engine: into place where they are kept as f32, through one room
 * elsewhere. Pieces end where blocks of the checkpoint do, so that no block is read twice.
 */
#include "train/checkpoint/loader_impl.h"

enum {
    MAX_PIECE = 1 << 24 /* elements between two signs of life */
};

cero_status cero_loader_check_files(cero_loader *loader, cero_reader *reader)
{
    int64_t count = cero_reader_manifest(reader)->file_count;

    for (int64_t i = cero_comm_rank(loader->comm); i < count; i += cero_comm_size(loader->comm)) {
        CERO_TRY(cero_reader_check_file(reader, i));
        cero_comm_poll(loader->comm);
    }
    return CERO_OK;
}

/* Elements from `at` on, at most `limit` and before `end`, that end with a block of the file if they can. */
static int64_t piece_at(const cero_manifest *manifest, const cero_manifest_tensor *tensor,
                        int64_t at, int64_t end, int64_t limit)
{
    int64_t block = manifest->block_nbytes / (int64_t)sizeof(float);
    int64_t stop = end - at < limit ? end : at + limit;

    for (int64_t r = 0; stop < end && r < tensor->range_count; r++) {
        const cero_manifest_range *range = &tensor->ranges[r];
        if (at < range->begin || at >= range->end) {
            continue;
        }
        int64_t border = (stop - range->begin) / block * block + range->begin;
        border = stop >= range->end ? range->end : border;
        return (border > at ? border : stop) - at;
    }
    return stop - at;
}

/* This rank's part of tensor k of the list. */
static cero_status read_tensor(cero_loader *loader, cero_reader *reader, int64_t k)
{
    cero_engine *engine = loader->engine;
    const cero_manifest *manifest = cero_reader_manifest(reader);
    const cero_tensor_source *to = &loader->list.sources[k];
    int64_t stored = loader->stored[k];
    int64_t begin = 0;
    int64_t n = 0;
    int64_t piece = 0;

    cero_engine_load_range(engine, to->param, to->moment, &begin, &n);
    for (int64_t at = begin; at < begin + n; at += piece) {
        float *memory = cero_engine_load_memory(engine, to->param, to->moment, at);
        float *values = memory != NULL ? memory : loader->room;
        piece = piece_at(manifest, &manifest->tensors[stored], at, begin + n,
                         memory != NULL ? MAX_PIECE : CERO_LOADER_ROOM);
        CERO_TRY(cero_reader_read(reader, stored, at, piece, values));
        cero_engine_load_values(engine, to->param, to->moment, at, piece, values);
        cero_comm_poll(loader->comm);
    }
    return CERO_OK;
}

cero_status cero_loader_read(cero_loader *loader, cero_reader *reader)
{
    for (int64_t k = 0; k < loader->list.count; k++) {
        if (loader->stored[k] >= 0) {
            CERO_TRY(read_tensor(loader, reader, k));
        }
    }
    return CERO_OK;
}
