/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The phases of a save, which all ranks go through together. Whatever fails in one, all ranks leave the save with
 * one message, rank 0 removes what was begun, and the engine and older checkpoints are as before.
 */
#include "train/checkpoint/saver_impl.h"

#include "base/file.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>

cero_status cero_saver_create(cero_engine *engine, const cero_saver_params *params,
                              cero_saver **out)
{
    cero_status st = CERO_OK;
    cero_comm *comm = cero_engine_comm(engine);
    cero_saver *saver = cero_new(1, sizeof(*saver));

    if (saver != NULL) {
        saver->engine = engine;
        saver->comm = comm;
        saver->params = *params;
        atomic_init(&saver->work.is_done, true);
        st = cero_saver_part_create(saver);
    } else {
        st = CERO_FAIL(CERO_ERR_NOMEM, "no memory to save checkpoints");
    }
    CERO_TRY_GOTO(cero_comm_agree(comm, st), fail);
    *out = saver;
    return CERO_OK;

fail:
    cero_saver_destroy(&saver);
    return st;
}

/* The save is over, well or not. */
static void leave(cero_saver *saver)
{
    cero_saver_commit_end(saver);
    cero_delete(saver->path);
    saver->path = NULL;
    saver->phase = CERO_SAVER_IDLE;
}

void cero_saver_destroy(cero_saver **saver)
{
    if (saver == NULL || *saver == NULL) {
        return;
    }
    if (cero_saver_work_take(*saver) != CERO_OK) {
        cero_log(CERO_LOG_WARN, "train", "a save that nobody waited for failed: %s",
                 cero_error_message());
    }
    leave(*saver);
    cero_saver_part_destroy(*saver);
    cero_delete(*saver);
    *saver = NULL;
}

bool cero_saver_is_busy(const cero_saver *saver)
{
    return saver->phase != CERO_SAVER_IDLE;
}

/* The save failed on this rank or another: all come here. */
static cero_status fail(cero_saver *saver, cero_status st)
{
    st = cero_error_prefix(st, "saving %s/%s: ", saver->params.dir, saver->stats.tag);
    leave(saver);
    return st;
}

static void begin_phase(cero_saver *saver, cero_saver_phase phase)
{
    saver->phase = phase;
    cero_saver_work_start(saver);
}

/* The checkpoint has its name. Collective: rank 0 says whether older ones go. */
static cero_status after_commit(cero_saver *saver)
{
    int64_t is_full = saver->commit.is_full;

    CERO_TRY(cero_comm_broadcast(saver->comm, &is_full, sizeof(is_full), 0));
    saver->stats.is_committed = true;
    if (is_full) {
        begin_phase(saver, CERO_SAVER_VERIFY);
    } else {
        leave(saver);
    }
    return CERO_OK;
}

static cero_status after_retain(cero_saver *saver)
{
    CERO_TRY(cero_comm_broadcast(saver->comm, &saver->commit.removed, sizeof(int64_t), 0));
    saver->stats.removed = saver->commit.removed;
    leave(saver);
    return CERO_OK;
}

/* All ranks are through with their work of the phase, or here to wait for it. Collective. */
static cero_status advance(cero_saver *saver)
{
    CERO_TRY(cero_comm_agree(saver->comm, cero_saver_work_take(saver)));
    switch (saver->phase) {
    case CERO_SAVER_WRITE:
        CERO_TRY(cero_saver_commit_gather(saver));
        begin_phase(saver, CERO_SAVER_COMMIT);
        return CERO_OK;
    case CERO_SAVER_COMMIT:
        return after_commit(saver);
    case CERO_SAVER_VERIFY:
        begin_phase(saver, CERO_SAVER_RETAIN);
        return CERO_OK;
    case CERO_SAVER_RETAIN:
        return after_retain(saver);
    case CERO_SAVER_IDLE:
    default:
        return CERO_OK;
    }
}

/* The same, and what is told when it was the last phase. Collective. */
static cero_status go_on(cero_saver *saver, bool *has_ended, cero_saver_stats *stats)
{
    cero_status st = advance(saver);

    if (st != CERO_OK) {
        st = fail(saver, st);
    } else if (saver->phase == CERO_SAVER_IDLE) {
        cero_log(CERO_LOG_INFO, "train", "saved %s/%s", saver->params.dir, saver->stats.tag);
    }
    *has_ended = saver->phase == CERO_SAVER_IDLE;
    if (*has_ended && stats != NULL) {
        *stats = saver->stats;
    }
    return st;
}

cero_status cero_saver_poll(cero_saver *saver, bool *has_ended, cero_saver_stats *stats)
{
    int64_t is_done = cero_saver_work_is_done(saver);

    *has_ended = false;
    if (saver->phase == CERO_SAVER_IDLE) {
        return CERO_OK;
    }
    CERO_TRY(cero_comm_all_reduce_i64(saver->comm, CERO_COMM_MIN, &is_done, 1));
    return is_done ? go_on(saver, has_ended, stats) : CERO_OK;
}

cero_status cero_saver_wait(cero_saver *saver, bool *has_ended, cero_saver_stats *stats)
{
    *has_ended = false;
    while (saver->phase != CERO_SAVER_IDLE) {
        CERO_TRY(go_on(saver, has_ended, stats));
    }
    return CERO_OK;
}

/* All ranks are here, can save, and mean the same checkpoint. Collective. */
static cero_status meet(cero_saver *saver, const char *tag)
{
    cero_text name = {0};
    cero_status st = cero_engine_can_checkpoint(saver->engine);

    st = st == CERO_OK ? cero_folder_check_tag(tag) : st;
    if (st == CERO_OK) {
        cero_text_printf(&name, "%s/%s", saver->params.dir, tag);
        st = cero_text_finish(&name);
    }
    st = cero_engine_meet(saver->engine, CERO_ENGINE_SAVE, 0, 0, st);
    st = st == CERO_OK ? cero_comm_check_same_text(saver->comm, "the path of a checkpoint", &name)
                       : st;
    cero_text_cleanup(&name);
    return st;
}

/* Ranks of other nodes may have another disk under the same path. */
static cero_status look_at_folder(cero_saver *saver)
{
    cero_text path = {0};

    cero_text_printf(&path, "%s/%s.tmp-%s", saver->params.dir, saver->stats.tag, saver->id);
    saver->path = path.data;
    CERO_TRY(cero_text_finish(&path));
    CERO_CHECK(cero_file_stat(saver->path, NULL) == CERO_FILE_DIRECTORY, CERO_ERR_IO,
               "rank %d does not see %s that rank 0 made: checkpoints need a file system that all "
               "ranks share",
               cero_comm_rank(saver->comm), saver->path);
    return CERO_OK;
}

/* A folder that all ranks see. Collective. */
static cero_status make_folder(cero_saver *saver, const cero_manifest_section *sections, int count)
{
    bool is_first = cero_comm_rank(saver->comm) == 0;
    int64_t nbytes = cero_rank_file_bytes(saver->file);

    CERO_TRY(cero_comm_all_reduce_i64(saver->comm, CERO_COMM_SUM, &nbytes, 1));
    saver->stats.nbytes = nbytes;
    cero_status st = is_first ? cero_saver_commit_begin(saver, sections, count, nbytes) : CERO_OK;
    CERO_TRY(cero_comm_agree(saver->comm, st));
    CERO_TRY(cero_comm_broadcast(saver->comm, saver->id, sizeof(saver->id), 0));
    return cero_comm_agree(saver->comm, look_at_folder(saver));
}

cero_status cero_saver_begin(cero_saver *saver, const char *tag,
                             const cero_manifest_section *sections, int section_count,
                             cero_saver_stats *stats)
{
    char step_tag[CERO_FOLDER_MAX_TAG];
    cero_engine_counters counters;
    bool has_ended = false;

    CERO_TRY(cero_saver_wait(saver, &has_ended, NULL));
    cero_engine_get_counters(saver->engine, &counters);
    tag = tag != NULL ? tag : cero_folder_step_tag(counters.step, step_tag);
    saver->stats = (cero_saver_stats){.step = counters.step};
    (void)snprintf(saver->stats.tag, sizeof(saver->stats.tag), "%s", tag);
    cero_comm_note(saver->comm, "save", counters.step);
    cero_status st = meet(saver, tag);
    st = st == CERO_OK ? make_folder(saver, sections, section_count) : st;
    if (st != CERO_OK) {
        return fail(saver, st);
    }
    if (saver->snapshot != NULL) {
        cero_saver_part_copy(saver);
    }
    if (stats != NULL) {
        *stats = saver->stats;
    }
    begin_phase(saver, CERO_SAVER_WRITE);
    return saver->params.is_background ? CERO_OK : cero_saver_wait(saver, &has_ended, stats);
}
