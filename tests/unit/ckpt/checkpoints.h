/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints made by hand: values that follow from name and element, cut into files in any way. */
#ifndef CERO_TESTS_UNIT_CKPT_CHECKPOINTS_H
#define CERO_TESTS_UNIT_CKPT_CHECKPOINTS_H

#include "unit/ckpt/files.h"

#include "ckpt/checkpoint/manifest.h"
#include "ckpt/checkpoint/rank_file.h"

typedef enum checkpoints_cut {
    CHECKPOINTS_FLAT = 0,   /* all elements one after the other, cut at odd places */
    CHECKPOINTS_TENSORS = 1 /* each tensor cut into as many parts as there are files */
} checkpoints_cut;

enum {
    CHECKPOINTS_MAX_TENSORS = 64,
    CHECKPOINTS_MAX_FILES = 80
};

/* One element has another value than the rule says. */
typedef struct checkpoints_change {
    const char *tensor; /* NULL: none */
    int64_t element;
} checkpoints_change;

typedef struct checkpoints_params {
    const cero_rank_file_tensor *tensors;
    int64_t tensor_count;
    int files;
    checkpoints_cut cut;
    int64_t block_nbytes;
    const char *id;
    const char *run;
    int64_t step;
    const cero_manifest_section *sections;
    int section_count;
    checkpoints_change change;
    /* Other values than the rule's; NULL: none. */
    float (*value)(const char *tensor, int64_t element);
} checkpoints_params;

static inline float checkpoints_value(const char *tensor, int64_t element)
{
    uint64_t x = (uint64_t)element * 0x9E3779B97F4A7C15U;

    for (const char *p = tensor; *p != '\0'; p++) {
        x = (x ^ (unsigned char)*p) * 0x100000001B3U;
    }
    return (float)(int32_t)(x >> 33) / 65536.0F;
}

/* The tensors of the tests, sizes that nothing divides: 1 + 7 * 11 + 131 + 5 * 3 * 2, and moments. */
static inline const cero_rank_file_tensor *checkpoints_tensors(int64_t *count)
{
    static const cero_rank_file_tensor tensors[] = {
        {"h.0.attn.weight", {.ndim = 2, .dim = {7, 11}}},
        {"a.scalar", {.ndim = 0}},
        {"optim.exp_avg.h.0.attn.weight", {.ndim = 2, .dim = {7, 11}}},
        {"wte.weight", {.ndim = 1, .dim = {131}}},
        {"b.bias", {.ndim = 3, .dim = {5, 3, 2}}},
        {"optim.exp_avg.wte.weight", {.ndim = 1, .dim = {131}}},
    };

    *count = (int64_t)CERO_COUNT_OF(tensors);
    return tensors;
}

typedef struct checkpoints_source {
    const checkpoints_params *params;
    const cero_rank_file_range *ranges;
} checkpoints_source;

static inline float checkpoints_element(const checkpoints_params *p, const char *name, int64_t i)
{
    float value = p->value != NULL ? p->value(name, i) : checkpoints_value(name, i);

    if (p->change.tensor != NULL && strcmp(p->change.tensor, name) == 0 && p->change.element == i) {
        value += 1;
    }
    return value;
}

static inline cero_status checkpoints_give(void *context, int64_t range, int64_t begin, int64_t n,
                                           float *room, const float **out)
{
    const checkpoints_source *s = context;
    const char *name = s->params->tensors[s->ranges[range].tensor].name;

    for (int64_t i = 0; i < n; i++) {
        room[i] = checkpoints_element(s->params, name, begin + i);
    }
    *out = room;
    return CERO_OK;
}

/* Where file r's part of the flat order begins: at no even place. */
static inline int64_t checkpoints_border(int64_t total, int files, int r)
{
    int64_t at = total * r / files + (r > 0 && r < files ? r * 5 % 3 + 1 : 0);

    return at < total ? at : total;
}

/* What file r has; returns how many ranges. */
static inline int64_t checkpoints_ranges(const checkpoints_params *p, int r,
                                         cero_rank_file_range *out)
{
    int64_t total = 0;
    int64_t at = 0;
    int64_t n = 0;

    for (int64_t t = 0; t < p->tensor_count; t++) {
        total += cero_shape_numel(&p->tensors[t].shape);
    }
    for (int64_t t = 0; t < p->tensor_count; t++) {
        int64_t numel = cero_shape_numel(&p->tensors[t].shape);
        int64_t begin;
        int64_t end;
        if (p->cut == CHECKPOINTS_TENSORS) {
            begin = numel * r / p->files;
            end = numel * (r + 1) / p->files;
        } else {
            begin = checkpoints_border(total, p->files, r) - at;
            end = checkpoints_border(total, p->files, r + 1) - at;
        }
        begin = begin < 0 ? 0 : begin;
        end = end > numel ? numel : end;
        if (begin < end) {
            out[n++] = (cero_rank_file_range){.tensor = t, .begin = begin, .end = end};
        }
        at += numel;
    }
    return n;
}

static inline void checkpoints_write_file(const char *path, const void *bytes, size_t length)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, length, f), length);
    assert_int_equal(fclose(f), 0);
}

/* Writes the files, and gives the manifest's text. */
static inline void checkpoints_write_files(const char *dir, const checkpoints_params *p,
                                           cero_text *manifest)
{
    cero_text packed[CHECKPOINTS_MAX_FILES] = {{0}};
    const char *bytes[CHECKPOINTS_MAX_FILES];
    size_t lengths[CHECKPOINTS_MAX_FILES];
    cero_manifest m = {0};

    assert_true(p->files <= CHECKPOINTS_MAX_FILES && p->tensor_count <= CHECKPOINTS_MAX_TENSORS);
    for (int r = 0; r < p->files; r++) {
        cero_rank_file_range ranges[CHECKPOINTS_MAX_TENSORS];
        checkpoints_source source = {.params = p, .ranges = ranges};
        cero_rank_file *file = NULL;
        cero_rank_file_params params = {.tensors = p->tensors,
                                        .tensor_count = p->tensor_count,
                                        .ranges = ranges,
                                        .range_count = checkpoints_ranges(p, r, ranges),
                                        .rank = r,
                                        .block_nbytes = p->block_nbytes};
        assert_ok(cero_rank_file_create(&params, &file));
        assert_ok(cero_rank_file_write(file, dir, p->id, checkpoints_give, &source, NULL));
        assert_ok(cero_rank_file_pack(file, &packed[r]));
        bytes[r] = packed[r].data;
        lengths[r] = packed[r].length;
        cero_rank_file_destroy(&file);
    }
    assert_ok(cero_rank_file_unpack(p->tensors, p->tensor_count, bytes, lengths, p->files,
                                    p->block_nbytes, &m));
    (void)snprintf(m.id, sizeof(m.id), "%s", p->id);
    (void)snprintf(m.run, sizeof(m.run), "%s", p->run);
    m.step = p->step;
    m.mesh = (cero_manifest_mesh){.world_size = p->files,
                                  .dp = p->files,
                                  .tp = 1,
                                  .pp = 1,
                                  .sp = 1,
                                  .zero_stage = p->files > 1 ? 2 : 0};
    assert_ok(cero_manifest_write(&m, p->sections, p->section_count, manifest));
    cero_manifest_cleanup(&m);
    for (int r = 0; r < p->files; r++) {
        cero_text_cleanup(&packed[r]);
    }
}

/* The same with the manifest in its place: a checkpoint. */
static inline void checkpoints_write(const char *dir, const checkpoints_params *p)
{
    cero_text manifest = {0};

    checkpoints_write_files(dir, p, &manifest);
    checkpoints_write_file(files_in(dir, CERO_MANIFEST_NAME), manifest.data, manifest.length);
    cero_text_cleanup(&manifest);
}

#endif
