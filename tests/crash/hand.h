/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tiny checkpoints saved by hand, by the parts below the saver: the files of one to four ranks, a manifest, the
 * commit. One process writes them all, one after the other, so that what happens is the same each time.
 */
#ifndef CERO_TESTS_CRASH_HAND_H
#define CERO_TESTS_CRASH_HAND_H

#include "harness.h"

#include "ckpt/checkpoint/folder.h"
#include "ckpt/checkpoint/rank_file.h"
#include "ckpt/checkpoint/reader.h"

#define HAND_RUN "0123456789abcdef0123456789abcdef"

enum {
    HAND_TENSORS = 4,
    HAND_MAX_RANKS = 4,
    HAND_BLOCK = 64 /* bytes under one hash */
};

static const cero_rank_file_tensor hand_tensors[HAND_TENSORS] = {
    {"layer.weight", {2, {5, 7}}},
    {"layer.bias", {1, {7}}},
    {"optim.exp_avg.layer.weight", {2, {5, 7}}},
    {"optim.exp_avg.layer.bias", {1, {7}}}};

typedef struct hand_save {
    const char *dir;
    const char *tag; /* NULL: by the step */
    const char *run; /* NULL: one that all share */
    int64_t step;    /* and what the values are made of */
    int ranks;
} hand_save;

static inline float hand_value(int64_t step, int64_t tensor, int64_t k)
{
    return (float)(step * 1000 + tensor * 100 + k) * 0.125f;
}

static inline const char *hand_tag(const hand_save *save, char text[CERO_FOLDER_MAX_TAG])
{
    if (save->tag == NULL) {
        return cero_folder_step_tag(save->step, text);
    }
    (void)snprintf(text, CERO_FOLDER_MAX_TAG, "%s", save->tag);
    return text;
}

/* What one rank writes. */
typedef struct hand_part {
    cero_rank_file_range ranges[HAND_TENSORS];
    int64_t count;
    int64_t step;
} hand_part;

static inline cero_status hand_source(void *context, int64_t range, int64_t begin, int64_t n,
                                      float *room, const float **out)
{
    const hand_part *part = context;

    for (int64_t k = 0; k < n; k++) {
        room[k] = hand_value(part->step, part->ranges[range].tensor, begin + k);
    }
    *out = room;
    return CERO_OK;
}

/* Tensors are cut as evenly as they can be; ranks at the end may get nothing of a small one. */
static inline void hand_cut(const hand_save *save, int rank, hand_part *part)
{
    part->count = 0;
    part->step = save->step;
    for (int64_t i = 0; i < HAND_TENSORS; i++) {
        int64_t numel = cero_shape_numel(&hand_tensors[i].shape);
        int64_t each = (numel + save->ranks - 1) / save->ranks;
        int64_t begin = each * rank < numel ? each * rank : numel;
        int64_t end = begin + each < numel ? begin + each : numel;
        if (begin < end) {
            part->ranges[part->count++] = (cero_rank_file_range){i, begin, end};
        }
    }
}

static inline cero_status hand_write_file(const hand_save *save, int rank, const char *path,
                                          const char *id, cero_text *packed)
{
    cero_rank_file *file = NULL;
    cero_status st = CERO_OK;
    hand_part part;

    hand_cut(save, rank, &part);
    CERO_TRY(cero_rank_file_create(&(cero_rank_file_params){.tensors = hand_tensors,
                                                            .tensor_count = HAND_TENSORS,
                                                            .ranges = part.ranges,
                                                            .range_count = part.count,
                                                            .rank = rank,
                                                            .block_nbytes = HAND_BLOCK},
                                   &file));
    st = cero_rank_file_write(file, path, id, hand_source, &part, NULL);
    if (st == CERO_OK) {
        st = cero_rank_file_pack(file, packed);
    }
    cero_rank_file_destroy(&file);
    return st;
}

static inline cero_status hand_manifest(const hand_save *save, const char *id,
                                        const cero_text *packed, cero_text *out)
{
    char state[64];
    cero_manifest manifest = {0};
    const char *texts[HAND_MAX_RANKS];
    size_t lengths[HAND_MAX_RANKS];

    for (int r = 0; r < save->ranks; r++) {
        texts[r] = packed[r].data;
        lengths[r] = packed[r].length;
    }
    CERO_TRY(cero_rank_file_unpack(hand_tensors, HAND_TENSORS, texts, lengths, save->ranks,
                                   HAND_BLOCK, &manifest));
    (void)snprintf(manifest.id, sizeof(manifest.id), "%s", id);
    (void)snprintf(manifest.run, sizeof(manifest.run), "%s",
                   save->run != NULL ? save->run : HAND_RUN);
    manifest.step = save->step;
    manifest.block_nbytes = HAND_BLOCK;
    manifest.mesh = (cero_manifest_mesh){
        .world_size = save->ranks, .dp = save->ranks, .tp = 1, .pp = 1, .sp = 1, .zero_stage = 1};
    (void)snprintf(state, sizeof(state), "{\"step\": %lld}", (long long)save->step);
    const cero_manifest_section sections[] = {{"engine", state}, {"train", "{\"samples\": 7}"}};
    cero_status st = cero_manifest_write(&manifest, sections, 2, out);
    cero_manifest_cleanup(&manifest);
    return st;
}

/* Begins, writes all files, commits, as a save of `ranks` ranks does. */
static inline cero_status hand_save_run(const hand_save *save)
{
    char tag[CERO_FOLDER_MAX_TAG];
    char id[CERO_MANIFEST_ID];
    cero_folder_commit *commit = NULL;
    cero_text packed[HAND_MAX_RANKS] = {{0}};
    cero_text manifest = {0};
    cero_status st = CERO_OK;

    cero_manifest_make_id(id);
    st = cero_folder_begin(save->dir, hand_tag(save, tag), id, &commit);
    for (int r = 0; r < save->ranks && st == CERO_OK; r++) {
        st = hand_write_file(save, r, cero_folder_commit_path(commit), id, &packed[r]);
    }
    if (st == CERO_OK) {
        st = hand_manifest(save, id, packed, &manifest);
    }
    if (st == CERO_OK) {
        st = cero_folder_finish(commit, manifest.data, manifest.length);
    }
    cero_folder_end(&commit);
    cero_text_cleanup(&manifest);
    for (int r = 0; r < save->ranks; r++) {
        cero_text_cleanup(&packed[r]);
    }
    return st;
}

/* The checkpoint in `path` is that of a save, every element. */
static inline bool hand_is(cero_reader *reader, int64_t step)
{
    const cero_manifest *manifest = cero_reader_manifest(reader);
    float values[64];

    if (manifest->step != step || manifest->tensor_count != HAND_TENSORS) {
        return false;
    }
    for (int64_t i = 0; i < HAND_TENSORS; i++) {
        int64_t numel = cero_shape_numel(&hand_tensors[i].shape);
        int64_t at = cero_manifest_find(manifest, hand_tensors[i].name);
        if (at < 0 || cero_reader_read(reader, at, 0, numel, values) != CERO_OK) {
            return false;
        }
        for (int64_t k = 0; k < numel; k++) {
            if (values[k] != hand_value(step, i, k)) {
                return false;
            }
        }
    }
    return true;
}

#endif
