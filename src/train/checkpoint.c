/* SPDX-License-Identifier: Apache-2.0 */
/* cero_engine_save, cero_engine_load and cero_engine_resume: which checkpoint is meant, by all ranks alike. */
#include "train/checkpoint_impl.h"

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum {
    MAX_TAG = 128 /* characters of a tag, with its end */
};

void cero_checkpoint_list_cleanup(cero_checkpoint_list *list)
{
    for (int64_t k = 0; list->decls != NULL && k < list->count; k++) {
        union {
            const char *readable;
            void *writable;
        } name = {.readable = list->decls[k].name};
        cero_delete(name.writable);
    }
    cero_delete(list->decls);
    cero_delete(list->tensors);
}

static cero_status add_tensor(const cero_engine *engine, int64_t i, int moment,
                              cero_checkpoint_list *list)
{
    cero_param_info info = cero_engine_param_info(engine, i);
    cero_text name = {0};

    if (moment >= 0) {
        cero_text_printf(&name, "optim.%s.", cero_engine_moment_name(engine, moment));
    }
    cero_text_printf(&name, "%s", info.name);
    list->decls[list->count] = (cero_safetensors_decl){
        .name = name.data, .dtype = CERO_SAFETENSORS_F32, .shape = info.shape};
    list->tensors[list->count] = (cero_checkpoint_tensor){.param = i, .moment = moment};
    list->count++;
    return cero_text_finish(&name);
}

cero_status cero_checkpoint_list_create(const cero_engine *engine, cero_checkpoint_list *list)
{
    int64_t params = cero_engine_param_count(engine);
    int64_t count = params;

    for (int64_t i = 0; i < params; i++) {
        count += cero_engine_moment_count(engine, i);
    }
    list->decls = cero_new((size_t)count, sizeof(cero_safetensors_decl));
    list->tensors = cero_new((size_t)count, sizeof(cero_checkpoint_tensor));
    CERO_CHECK(list->decls != NULL && list->tensors != NULL, CERO_ERR_NOMEM,
               "no memory for a list of %lld tensors", (long long)count);
    for (int64_t i = 0; i < params; i++) {
        for (int m = -1; m < cero_engine_moment_count(engine, i); m++) {
            CERO_TRY(add_tensor(engine, i, m, list));
        }
    }
    return CERO_OK;
}

const cero_checkpoint_counter cero_checkpoint_counters[CERO_CHECKPOINT_COUNTERS] = {
    {"step", offsetof(cero_engine_counters, step)},
    {"applied", offsetof(cero_engine_counters, zero.applied)},
    {"skipped", offsetof(cero_engine_counters, zero.skipped)},
    {"skipped_in_a_row", offsetof(cero_engine_counters, zero.skipped_in_a_row)},
    {"loss_scaler.iter", offsetof(cero_engine_counters, zero.scaler_iter)},
    {"loss_scaler.last_overflow", offsetof(cero_engine_counters, zero.scaler_last_overflow)},
    {"loss_scaler.hysteresis_left", offsetof(cero_engine_counters, zero.scaler_hysteresis_left)},
};

cero_status cero_checkpoint_path(const char *dir, const char *tag, bool is_folder, cero_text *path)
{
    cero_text_printf(path, "%s/%s%s%s", dir, tag, is_folder ? "" : "/",
                     is_folder ? "" : "checkpoint.safetensors");
    return cero_text_finish(path);
}

/* A tag is the name of a folder. */
static cero_status check_tag(const char *tag)
{
    bool is_good = tag[0] != '\0' && tag[0] != '.' && strchr(tag, '/') == NULL &&
                   strlen(tag) < MAX_TAG && strcmp(tag, "latest") != 0;

    CERO_CHECK(is_good, CERO_ERR_INVALID,
               "the tag of a checkpoint is \"%.200s\"; expected a name of less than %d characters, "
               "without '/', that does not begin with '.' and is not \"latest\"",
               tag, MAX_TAG);
    return CERO_OK;
}

static cero_status check_arguments(const cero_engine *engine, const char *dir, const char *tag,
                                   const char *call)
{
    CERO_CHECK(dir != NULL && dir[0] != '\0', CERO_ERR_INVALID, "%s: no directory is given", call);
    if (tag != NULL) {
        CERO_TRY(check_tag(tag));
    }
    return cero_engine_can_checkpoint(engine);
}

/* All ranks are here, can go on, and mean the same checkpoint. */
static cero_status meet(cero_engine *engine, cero_engine_call call, const char *dir,
                        const char *tag, const char *call_name)
{
    cero_text names = {0};
    cero_status st = check_arguments(engine, dir, tag, call_name);
    cero_comm *comm = cero_engine_comm(engine);

    if (st == CERO_OK) {
        cero_text_printf(&names, "%s/%s", dir, tag != NULL ? tag : "");
        st = cero_text_finish(&names);
    }
    st = cero_engine_meet(engine, call, 0, 0, st);
    if (st == CERO_OK) {
        st = cero_comm_check_same_text(comm, "the path of a checkpoint", &names);
    }
    cero_text_cleanup(&names);
    return st;
}

cero_status cero_engine_save(cero_engine *engine, const char *dir, const char *tag)
{
    char step_tag[MAX_TAG];
    cero_engine_counters values;

    CERO_CHECK(engine != NULL, CERO_ERR_INVALID, "cero_engine_save: the engine is NULL");
    cero_engine_get_counters(engine, &values);
    (void)snprintf(step_tag, sizeof(step_tag), "step-%08lld", (long long)values.step);
    CERO_TRY(meet(engine, CERO_ENGINE_SAVE, dir, tag, "cero_engine_save"));
    cero_status st = cero_checkpoint_write(engine, dir, tag != NULL ? tag : step_tag);
    return st == CERO_OK
               ? CERO_OK
               : cero_error_prefix(st, "saving %s/%s: ", dir, tag != NULL ? tag : step_tag);
}

/* What `latest` names: read by rank 0, for all. *tag is empty when there is no such file and it may be absent. */
static cero_status read_latest(const char *dir, bool may_be_absent, char tag[MAX_TAG])
{
    cero_status st = CERO_OK;
    struct stat info;
    char *bytes = NULL;
    size_t length = 0;
    char *path = cero_file_join(dir, "latest");

    CERO_CHECK(path != NULL, CERO_ERR_NOMEM, "no memory for a path in %s", dir);
    tag[0] = '\0';
    if (may_be_absent && stat(path, &info) != 0 && errno == ENOENT) {
        goto out;
    }
    st = cero_file_read(path, MAX_TAG, &bytes, &length);
    if (st != CERO_OK) {
        st = cero_error_prefix(st, "%s names no checkpoint to load: ", dir);
        goto out;
    }
    bytes[strcspn(bytes, "\r\n")] = '\0';
    st = check_tag(bytes);
    if (st != CERO_OK) {
        st = cero_error_prefix(CERO_ERR_CORRUPT, "%s: ", path);
        goto out;
    }
    (void)snprintf(tag, MAX_TAG, "%s", bytes);
out:
    cero_delete(bytes);
    cero_delete(path);
    return st;
}

static cero_status choose_latest(cero_comm *comm, const char *dir, bool may_be_absent,
                                 char tag[MAX_TAG])
{
    bool is_reader = cero_comm_rank(comm) == 0;

    memset(tag, 0, MAX_TAG);
    CERO_TRY(cero_comm_agree(comm, is_reader ? read_latest(dir, may_be_absent, tag) : CERO_OK));
    return cero_comm_broadcast(comm, tag, MAX_TAG, 0);
}

cero_status cero_engine_load(cero_engine *engine, const char *dir, const char *tag,
                             cero_step_stats *stats)
{
    char latest[MAX_TAG];

    CERO_CHECK(engine != NULL, CERO_ERR_INVALID, "cero_engine_load: the engine is NULL");
    CERO_TRY(meet(engine, CERO_ENGINE_LOAD, dir, tag, "cero_engine_load"));
    if (tag == NULL) {
        CERO_TRY(choose_latest(cero_engine_comm(engine), dir, false, latest));
    }
    return cero_checkpoint_read(engine, dir, tag != NULL ? tag : latest, stats);
}

cero_status cero_engine_resume(cero_engine *engine, const char *dir, cero_step_stats *stats)
{
    char latest[MAX_TAG];

    CERO_CHECK(engine != NULL, CERO_ERR_INVALID, "cero_engine_resume: the engine is NULL");
    CERO_TRY(meet(engine, CERO_ENGINE_LOAD, dir, NULL, "cero_engine_resume"));
    CERO_TRY(choose_latest(cero_engine_comm(engine), dir, true, latest));
    if (latest[0] == '\0') {
        cero_log(CERO_LOG_INFO, "train", "no checkpoint in %s, starting at step 0", dir);
        return CERO_OK;
    }
    return cero_checkpoint_read(engine, dir, latest, stats);
}
