/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine of a very small model, which a save and a resume of a few milliseconds are enough for: train some steps,
 * save in the step or beside it, load, compare bit for bit with a run that was never interrupted.
 */
#ifndef CERO_TESTS_CRASH_SMALL_H
#define CERO_TESTS_CRASH_SMALL_H

#include "cases.h"
#include "unit/ckpt/files.h"

#include "ckpt/checkpoint/folder.h"
#include "ckpt/checkpoint/reader.h"
#include "train/checkpoint/loader.h"
#include "train/checkpoint/saver.h"

#define SMALL_RUN "00112233445566778899aabbccddeeff"

enum {
    SMALL_SEQ = 4,
    SMALL_MAX_SAMPLES = 12 /* of a step over all ranks: divided by 1, 2, 3 and 4 */
};

/* 8 ids, width 6, one layer: fewer than 700 elements, and a number of them that nothing divides. */
static inline cero_model_spec small_spec(void)
{
    cero_model_spec spec = case_g2();

    (void)snprintf(spec.name, sizeof(spec.name), "small");
    spec.vocab_size = 11;
    spec.context = SMALL_SEQ;
    spec.hidden = 6;
    spec.heads = 2;
    spec.kv_heads = 2;
    spec.head_dim = 3;
    spec.inner = 9;
    return spec;
}

typedef struct small {
    case_world world;
    cero_model_spec spec;
    cero_engine *engine;
    cero_saver *saver;
    int64_t step;
} small;

static inline void small_open_as(small *s, const char *const *sets)
{
    const char *all[16] = {"train_batch_size=12", "train_micro_batch_size_per_gpu=1"};
    int count = 2;

    for (; sets != NULL && *sets != NULL; sets++) {
        assert_true(count < 15);
        all[count++] = *sets;
    }
    memset(s, 0, sizeof(*s));
    s->spec = small_spec();
    case_open(&s->world, 1, all);
    assert_ok(case_engine(&s->world, &s->spec, SMALL_SEQ, &s->engine));
}

static inline void small_open(small *s)
{
    small_open_as(s, NULL);
}

static inline void small_close(small *s)
{
    cero_saver_destroy(&s->saver);
    cero_engine_destroy(&s->engine);
    case_close(&s->world);
}

/* Trains up to this step: the samples follow from the step, and each rank takes its own. */
static inline void small_train(small *s, int64_t to)
{
    static case_batch whole;
    static int32_t tokens[SMALL_MAX_SAMPLES * SMALL_SEQ];
    static int32_t targets[SMALL_MAX_SAMPLES * SMALL_SEQ];
    int rank = cero_context_rank(s->world.context);
    int size = cero_context_size(s->world.context);
    int64_t count = SMALL_MAX_SAMPLES / size;
    const char *names[] = {"tokens", "targets"};
    const void *data[] = {tokens, targets};

    for (; s->step < to; s->step++) {
        cero_step_stats stats;
        (void)case_batch_fill(&whole, s->step * SMALL_MAX_SAMPLES, SMALL_MAX_SAMPLES, SMALL_SEQ,
                              s->spec.vocab_size);
        for (int64_t m = 0; m < count; m++) {
            size_t from = (size_t)((m * size + rank) * SMALL_SEQ);
            memcpy(tokens + m * SMALL_SEQ, whole.tokens + from, SMALL_SEQ * sizeof(tokens[0]));
            memcpy(targets + m * SMALL_SEQ, whole.targets + from, SMALL_SEQ * sizeof(targets[0]));
        }
        assert_ok(cero_engine_train_batch(s->engine,
                                          &(cero_batch){.input_count = 2,
                                                        .name = names,
                                                        .data = data,
                                                        .sample = s->step * SMALL_MAX_SAMPLES},
                                          &stats));
        assert_int_equal(stats.step, s->step + 1);
    }
}

/* A saver of its own kind for a folder, in place of the one before; `dir` must outlive it. */
static inline void small_saver(small *s, const char *dir, int64_t keep, bool is_background)
{
    cero_saver_destroy(&s->saver);
    assert_ok(cero_saver_create(
        s->engine,
        &(cero_saver_params){
            .dir = dir, .run = SMALL_RUN, .keep = keep, .is_background = is_background},
        &s->saver));
}

/* From the begin of a save to its end. */
static inline cero_status small_save(small *s, const char *tag, cero_saver_stats *stats)
{
    static const cero_manifest_section section = {"train", "{\"samples\": 7}"};
    bool has_ended = false;

    CERO_TRY(cero_saver_begin(s->saver, tag, &section, 1, stats));
    return cero_saver_wait(s->saver, &has_ended, stats);
}

static inline cero_status small_load(small *s, const char *dir, const char *tag,
                                     cero_loader_result *result)
{
    CERO_TRY(cero_loader_load(s->engine, &(cero_loader_params){.dir = dir, .tag = tag}, result));
    s->step = result->step;
    return CERO_OK;
}

/* Digest of the newest checkpoint that verifies, and its step; 0 and -1: none. Not collective. */
static inline uint64_t small_newest(const char *dir, int64_t *step)
{
    cero_folder_list list = {0};
    cero_reader_digest digest = {0};

    *step = -1;
    assert_ok(cero_folder_list_read(dir, &list));
    for (int64_t i = 0; i < list.count && *step < 0; i++) {
        cero_reader *reader = NULL;
        if (list.entries[i].kind == CERO_FOLDER_COMPLETE &&
            cero_reader_open(files_in(dir, list.entries[i].name), &reader) == CERO_OK &&
            cero_reader_verify(reader, NULL, NULL) == CERO_OK) {
            assert_ok(cero_reader_hash(reader, &digest));
            *step = cero_reader_manifest(reader)->step;
        }
        cero_reader_close(&reader);
    }
    cero_folder_list_cleanup(&list);
    return digest.all;
}

/* Only whole checkpoints are there, `count` of them. Not collective. */
static inline void small_expect_clean(const char *dir, int64_t count)
{
    cero_folder_list list = {0};

    assert_ok(cero_folder_list_read(dir, &list));
    for (int64_t i = 0; i < list.count; i++) {
        const cero_folder_entry *e = &list.entries[i];
        if (e->kind != CERO_FOLDER_COMPLETE || e->is_replaced) {
            fail_msg("%s is left over: %s", e->name, e->reason == NULL ? "" : e->reason);
        }
    }
    assert_int_equal(list.count, count);
    cero_folder_list_cleanup(&list);
}

#endif
