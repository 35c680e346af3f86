/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of cero/cero.h on checkpoints: a save that is waited for, and loads with what most programs want. */
#include "train/checkpoint/loader.h"
#include "train/checkpoint/saver.h"

#include "base/file.h"
#include "ckpt/checkpoint/folder.h"

static cero_status check_dir(const cero_engine *engine, const char *dir, const char *call)
{
    CERO_CHECK(dir != NULL && dir[0] != '\0', CERO_ERR_INVALID, "%s: no directory is given", call);
    return cero_engine_can_checkpoint(engine);
}

/* The run that the engine's checkpoints belong to, begun by the first of them. Collective. */
static cero_status name_run(cero_engine *engine)
{
    char run[CERO_MANIFEST_ID];

    if (cero_engine_run(engine)[0] != '\0') {
        return CERO_OK;
    }
    cero_manifest_make_id(run);
    CERO_TRY(cero_comm_broadcast(cero_engine_comm(engine), run, sizeof(run), 0));
    cero_engine_set_run(engine, run);
    return CERO_OK;
}

/*
 * What another process is writing to the same folder must not be taken for something left over. On rank 0. Errors:
 * INVALID naming that process, IO.
 */
static cero_status lock_dir(const char *dir, cero_folder_lock **out)
{
    CERO_TRY(cero_file_make_dir(dir));
    return cero_folder_lock_take(dir, out);
}

static cero_status save(cero_engine *engine, const char *dir, const char *tag)
{
    cero_status st = CERO_OK;
    cero_saver *saver = NULL;

    cero_saver_params params = {.dir = dir, .run = cero_engine_run(engine)};

    CERO_TRY_GOTO(name_run(engine), out);
    CERO_TRY_GOTO(cero_saver_create(engine, &params, &saver), out);
    CERO_TRY_GOTO(cero_saver_begin(saver, tag, NULL, 0, NULL), out);
out:
    cero_saver_destroy(&saver);
    return st;
}

cero_status cero_engine_save(cero_engine *engine, const char *dir, const char *tag)
{
    static const char call[] = "cero_engine_save";
    cero_folder_lock *lock = NULL;

    CERO_CHECK(engine != NULL, CERO_ERR_INVALID, "%s: the engine is NULL", call);
    cero_comm *comm = cero_engine_comm(engine);
    CERO_TRY(cero_engine_meet(engine, CERO_ENGINE_SAVE, 0, 0, check_dir(engine, dir, call)));
    cero_status st = cero_comm_rank(comm) == 0 ? lock_dir(dir, &lock) : CERO_OK;
    st = cero_comm_agree(comm, st);
    st = st == CERO_OK ? save(engine, dir, tag) : st;
    cero_folder_lock_release(&lock);
    return st;
}

static cero_status load(cero_engine *engine, const cero_loader_params *params, const char *call,
                        cero_step_stats *stats)
{
    cero_loader_result result;

    CERO_CHECK(engine != NULL, CERO_ERR_INVALID, "%s: the engine is NULL", call);
    CERO_TRY(
        cero_engine_meet(engine, CERO_ENGINE_LOAD, 0, 0, check_dir(engine, params->dir, call)));
    CERO_TRY(cero_loader_load(engine, params, &result));
    if (stats != NULL && result.is_loaded) {
        *stats = result.stats;
    }
    return CERO_OK;
}

cero_status cero_engine_load(cero_engine *engine, const char *dir, const char *tag,
                             cero_step_stats *stats)
{
    cero_loader_params params = {.dir = dir, .tag = tag};

    return load(engine, &params, "cero_engine_load", stats);
}

cero_status cero_engine_resume(cero_engine *engine, const char *dir, cero_step_stats *stats)
{
    cero_loader_params params = {.dir = dir, .may_be_absent = true};

    return load(engine, &params, "cero_engine_resume", stats);
}

cero_status cero_engine_load_weights(cero_engine *engine, const char *dir, const char *tag,
                                     bool is_partial)
{
    cero_loader_params params = {
        .dir = dir, .tag = tag, .content = CERO_LOADER_WEIGHTS, .is_partial = is_partial};

    return load(engine, &params, "cero_engine_load_weights", NULL);
}
