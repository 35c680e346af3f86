/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a run goes on: the run directory is taken, one of its checkpoints is loaded, and what is there of later steps
 * is put aside. Which checkpoint verifies is found out by train/checkpoint/loader.h.
 */
#include "train/train_impl.h"

#include "base/file.h"
#include "base/io.h"
#include "base/log.h"
#include "train/same.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_there(const char *dir, const char *name)
{
    char *path = cero_file_join(dir, name);
    bool found = path != NULL && cero_file_stat(path, NULL) != CERO_FILE_ABSENT;

    cero_delete(path);
    return found;
}

/* Entries that are no leftovers of a save: what stands under a checkpoint's name. */
static int64_t count_checkpoints(const cero_folder_list *list)
{
    int64_t count = 0;

    for (int64_t i = 0; i < list->count; i++) {
        count += list->entries[i].kind != CERO_FOLDER_ORPHAN;
    }
    return count;
}

static cero_status refuse_old_run(const cero_trainer *trainer, const cero_folder_list *list)
{
    const char *out = trainer->params.out;

    for (int64_t i = 0; i < list->count; i++) {
        CERO_CHECK(list->entries[i].kind == CERO_FOLDER_ORPHAN, CERO_ERR_INVALID,
                   "%s holds %lld checkpoint(s) of an earlier run, such as %s; --resume auto goes "
                   "on with that run, or choose another directory or remove that run",
                   out, (long long)count_checkpoints(list), list->entries[i].name);
    }
    CERO_CHECK(!is_there(out, "metrics.jsonl"), CERO_ERR_INVALID,
               "%s holds the metrics.jsonl of an earlier run; choose another directory or remove "
               "that run",
               out);
    return CERO_OK;
}

/* Checkpoints of two runs in one folder: going on with one would remove or follow the other's. */
static cero_status refuse_mixture(const cero_trainer *trainer, const cero_folder_list *list)
{
    const cero_folder_entry *first = NULL;

    for (int64_t i = 0; i < list->count; i++) {
        const cero_folder_entry *e = &list->entries[i];
        if (e->kind != CERO_FOLDER_COMPLETE) {
            continue;
        }
        first = first == NULL ? e : first;
        CERO_CHECK(strcmp(e->run, first->run) == 0, CERO_ERR_INVALID,
                   "%s holds checkpoints of two runs: %s is of run %s, %s of run %s; move those of "
                   "one away",
                   trainer->checkpoints, first->name, first->run, e->name, e->run);
    }
    return CERO_OK;
}

/* A run that left its model and no checkpoint is not begun again over it. */
static cero_status refuse_model(const cero_trainer *trainer, const cero_folder_list *list)
{
    bool is_in_doubt =
        trainer->params.resume == CERO_RESUME_IF_PRESENT && count_checkpoints(list) == 0;

    CERO_CHECK(!is_in_doubt || !is_there(trainer->params.out, "model"), CERO_ERR_INVALID,
               "%s holds the model of a run that has no checkpoints, and would be begun again; "
               "choose another directory or remove that run",
               trainer->params.out);
    return CERO_OK;
}

static cero_status look_at_folder(cero_trainer *trainer)
{
    cero_folder_list list = {0};
    cero_status st = CERO_OK;

    CERO_TRY(cero_folder_list_read(trainer->checkpoints, &list));
    trainer->had_run =
        is_there(trainer->params.out, "metrics.jsonl") || count_checkpoints(&list) > 0;
    if (trainer->params.resume == CERO_RESUME_NEVER) {
        CERO_TRY_GOTO(refuse_old_run(trainer, &list), out);
    } else {
        CERO_TRY_GOTO(refuse_mixture(trainer, &list), out);
        CERO_TRY_GOTO(refuse_model(trainer, &list), out);
    }
out:
    cero_folder_list_cleanup(&list);
    return st;
}

/* On rank 0, for all. A directory that is not there is made for a run that may start. */
static cero_status claim(cero_trainer *trainer)
{
    const char *out = trainer->params.out;
    bool may_start = trainer->params.resume == CERO_RESUME_NEVER ||
                     trainer->params.resume == CERO_RESUME_IF_PRESENT;
    bool was_there = cero_file_stat(out, NULL) == CERO_FILE_DIRECTORY;

    if (!was_there && !may_start) {
        return CERO_OK; // the loader says what is not there
    }
    // What is refused stays as it is, but a process that runs there is named first.
    if (was_there) {
        CERO_TRY(cero_folder_lock_take(out, &trainer->lock));
        CERO_TRY(look_at_folder(trainer));
    }
    CERO_TRY(cero_file_make_dir(out));
    return was_there ? CERO_OK : cero_folder_lock_take(out, &trainer->lock);
}

cero_status cero_trainer_claim(cero_trainer *trainer)
{
    if (trainer->params.out == NULL || trainer->is_claimed) {
        return CERO_OK;
    }
    cero_comm *comm = trainer->params.context->comm;
    CERO_TRY(cero_comm_agree(comm, cero_comm_rank(comm) == 0 ? claim(trainer) : CERO_OK));
    trainer->is_claimed = true;
    return CERO_OK;
}

/* What a checkpoint says that is read when it is chosen: it may yet turn out not to verify. */
typedef struct chosen {
    cero_trainer *trainer;
    cero_run_state state;
    char run[CERO_MANIFEST_ID];
    int64_t applied;
    int64_t skipped;
    cero_text line;
    cero_text changes; /* lines for the log */
} chosen;

static cero_status look_at_manifest(chosen *c, const cero_manifest *manifest)
{
    const cero_trainer_params *p = &c->trainer->params;

    CERO_TRY(cero_run_state_read(manifest, &c->state));
    if (!p->resume_without_data) {
        CERO_TRY(cero_run_state_check_data(&c->state.data, &c->trainer->data));
    }
    if (!p->resume_without_optimizer) {
        CERO_TRY(cero_run_state_check_optimizer(manifest, p->config));
    }
    (void)snprintf(c->run, sizeof(c->run), "%s", manifest->run);
    cero_run_state_find_counts(manifest, &c->applied, &c->skipped);
    c->line.length = 0;
    c->changes.length = 0;
    CERO_TRY(cero_run_state_write_line(manifest, &c->line));
    return cero_run_state_write_changes(manifest, p->config, &c->changes);
}

static cero_status check(void *context, const cero_manifest *manifest)
{
    cero_status st = look_at_manifest(context, manifest);

    return st == CERO_OK ? st : cero_error_prefix(st, "%s: ", manifest->root->file);
}

static void log_lines(const cero_text *text)
{
    const char *end;

    for (const char *p = text->data; p != NULL && (end = strchr(p, '\n')) != NULL; p = end + 1) {
        cero_log(CERO_LOG_INFO, "train", "%.*s", (int)(end - p), p);
    }
}

/* Weights were loaded alone: the schedule goes on where it was, and so does what counts steps. */
static void keep_counters(const cero_trainer *trainer, const chosen *c, int64_t step)
{
    cero_engine_counters counters;

    cero_engine_get_counters(trainer->engine, &counters);
    counters.step = step;
    counters.zero.applied = c->applied;
    counters.zero.skipped = c->skipped;
    cero_engine_set_counters(trainer->engine, &counters);
}

/* The loaded checkpoint is where the run is now. */
static cero_status adopt(cero_trainer *trainer, chosen *c, const cero_loader_result *result)
{
    if (trainer->params.resume_without_optimizer) {
        keep_counters(trainer, c, result->step);
    }
    trainer->done = result->step;
    trainer->saved_step = result->step;
    trainer->samples = c->state.samples;
    trainer->tokens_used = c->state.tokens;
    trainer->position = trainer->params.resume_without_data ? 0 : c->state.position;
    trainer->eval_loss = c->state.eval_loss;
    (void)snprintf(trainer->run, sizeof(trainer->run), "%s", c->run);
    (void)snprintf(trainer->resumed_tag, sizeof(trainer->resumed_tag), "%s", result->tag);
    trainer->resumed_line = c->line; // taken
    c->line = (cero_text){0};
    return cero_trainer_choose_steps(trainer);
}

/* "OUT/checkpoints-after-120", or with a number behind it that makes it new. */
static cero_status name_aside(const cero_trainer *trainer, cero_text *path)
{
    int count = 1;

    do {
        path->length = 0;
        cero_text_printf(path, "%s-after-%lld", trainer->checkpoints, (long long)trainer->done);
        if (count > 1) {
            cero_text_printf(path, "-%d", count);
        }
        CERO_TRY(cero_text_finish(path));
        count++;
    } while (cero_file_stat(path->data, NULL) != CERO_FILE_ABSENT);
    return CERO_OK;
}

static cero_status move_aside(const cero_trainer *trainer, const char *name, const char *to)
{
    cero_status st = CERO_OK;
    char *from = cero_file_join(trainer->checkpoints, name);
    char *target = cero_file_join(to, name);

    if (from == NULL || target == NULL) {
        CERO_FAIL_GOTO(out, CERO_ERR_NOMEM, "no memory for a path in %s", to);
    }
    if (cero_io_rename(from, target) != 0) {
        CERO_FAIL_GOTO(out, CERO_ERR_IO, "cannot move %s to %s: %s", from, to, strerror(errno));
    }
    cero_log(CERO_LOG_WARN, "train", "%s is of a later step and was moved to %s", name, to);
out:
    cero_delete(from);
    cero_delete(target);
    return st;
}

static bool is_later(const cero_trainer *trainer, const cero_folder_entry *e)
{
    return e->kind == CERO_FOLDER_COMPLETE && e->step > trainer->done;
}

/*
 * Later steps will be other ones: their checkpoints would be taken for the newest of this run. They may also be what
 * does not verify; nothing is removed.
 */
static cero_status move_later(cero_trainer *trainer, const cero_folder_list *list)
{
    cero_status st = CERO_OK;
    cero_text to = {0};

    for (int64_t i = 0; i < list->count; i++) {
        if (!is_later(trainer, &list->entries[i])) {
            continue;
        }
        if (to.length == 0) {
            CERO_TRY_GOTO(name_aside(trainer, &to), out);
            CERO_TRY_GOTO(cero_file_make_dir(to.data), out);
        }
        CERO_TRY_GOTO(move_aside(trainer, list->entries[i].name, to.data), out);
    }
    if (to.length > 0 && cero_io_fsync_folder(trainer->checkpoints) != 0) {
        CERO_FAIL_GOTO(out, CERO_ERR_IO, "cannot bring %s to the disk: %s", trainer->checkpoints,
                       strerror(errno));
    }
out:
    cero_text_cleanup(&to);
    return st;
}

/* On rank 0: the folder holds what the run goes on from and what came before. */
static cero_status tidy(cero_trainer *trainer)
{
    cero_folder_list list = {0};
    int64_t removed = 0;

    if (cero_file_stat(trainer->checkpoints, NULL) == CERO_FILE_ABSENT) {
        return CERO_OK;
    }
    CERO_TRY(cero_folder_list_read(trainer->checkpoints, &list));
    cero_status st = move_later(trainer, &list);
    cero_folder_list_cleanup(&list);
    CERO_TRY(st);
    CERO_TRY(cero_folder_sweep(trainer->checkpoints, &removed));
    if (removed > 0) {
        cero_log(CERO_LOG_INFO, "train",
                 "removed what %lld save(s) that never ended had left in %s", (long long)removed,
                 trainer->checkpoints);
    }
    return CERO_OK;
}

static cero_status load(cero_trainer *trainer, chosen *c)
{
    const cero_trainer_params *p = &trainer->params;
    cero_loader_params params = {.dir = trainer->checkpoints,
                                 .tag = p->resume == CERO_RESUME_TAG ? p->resume_tag : NULL,
                                 .content = p->resume_without_optimizer ? CERO_LOADER_WEIGHTS
                                                                        : CERO_LOADER_ALL,
                                 .may_be_absent = p->resume == CERO_RESUME_IF_PRESENT,
                                 .check = check,
                                 .context = c};
    cero_loader_result result = {0};

    CERO_TRY(cero_comm_agree(p->context->comm, cero_trainer_know_data(trainer)));
    CERO_TRY(cero_loader_load(trainer->engine, &params, &result));
    if (!result.is_loaded) {
        return CERO_OK;
    }
    CERO_TRY(cero_comm_agree(p->context->comm, adopt(trainer, c, &result)));
    log_lines(&c->changes);
    if (p->resume_without_data) {
        cero_log(CERO_LOG_INFO, "train", "resume: the data begin at their sample 0");
    }
    cero_log(CERO_LOG_INFO, "train",
             "resume: %lld of %lld steps are done, the next begins at sample %lld",
             (long long)trainer->done, (long long)trainer->steps, (long long)trainer->position);
    return CERO_OK;
}

/* A run that starts gets a name that no other has. */
static cero_status name_run(cero_trainer *trainer)
{
    cero_comm *comm = trainer->params.context->comm;

    if (trainer->run[0] != '\0') {
        return CERO_OK;
    }
    if (cero_comm_rank(comm) == 0) {
        cero_manifest_make_id(trainer->run);
    }
    return cero_comm_broadcast(comm, trainer->run, sizeof(trainer->run), 0);
}

cero_status cero_trainer_resume(cero_trainer *trainer)
{
    cero_comm *comm = trainer->params.context->comm;
    chosen c = {.trainer = trainer};
    cero_status st = CERO_OK;

    if (trainer->params.out == NULL || trainer->has_resumed) {
        return CERO_OK;
    }
    CERO_TRY(cero_trainer_claim(trainer));
    if (trainer->params.resume != CERO_RESUME_NEVER) {
        CERO_TRY_GOTO(load(trainer, &c), out);
    }
    st = cero_comm_agree(comm, cero_comm_rank(comm) == 0 ? tidy(trainer) : CERO_OK);
    st = st == CERO_OK ? name_run(trainer) : st;
    trainer->has_resumed = st == CERO_OK;
out:
    cero_text_cleanup(&c.line);
    cero_text_cleanup(&c.changes);
    return st;
}

/* A checkpoint's folder and tag, or a folder of checkpoints and no tag. */
static cero_status find_checkpoints(const char *dir, char **folder, char **tag)
{
    char *path = realpath(dir, NULL);

    *folder = NULL;
    *tag = NULL;
    CERO_CHECK(path != NULL, CERO_ERR_IO, "cannot look at %s: %s", dir, strerror(errno));
    if (is_there(path, CERO_MANIFEST_NAME)) {
        char *slash = strrchr(path, '/');
        *tag = cero_strdup(slash + 1);
        *folder = slash == path ? cero_strdup("/") : cero_strndup(path, (size_t)(slash - path));
    } else {
        *folder =
            is_there(path, "checkpoints") ? cero_file_join(path, "checkpoints") : cero_strdup(path);
    }
    bool is_model = *tag == NULL && is_there(path, "config.json");
    free(path);
    CERO_CHECK(!is_model, CERO_ERR_INVALID,
               "%s holds a model of Hugging Face's format, not a checkpoint: --model takes it",
               dir);
    CERO_CHECK(*folder != NULL, CERO_ERR_NOMEM, "no memory for a path of %s", dir);
    return CERO_OK;
}

cero_status cero_trainer_init_from(cero_trainer *trainer, const char *dir, bool is_partial)
{
    cero_loader_result result = {0};
    char *folder = NULL;
    char *tag = NULL;
    cero_status st = find_checkpoints(dir, &folder, &tag);
    cero_loader_params params = {
        .dir = folder, .tag = tag, .content = CERO_LOADER_WEIGHTS, .is_partial = is_partial};

    CERO_TRY_GOTO(cero_comm_agree(trainer->params.context->comm, st), out);
    CERO_TRY_GOTO(cero_loader_load(trainer->engine, &params, &result), out);
out:
    cero_delete(folder);
    cero_delete(tag);
    return st;
}
