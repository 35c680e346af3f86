/* SPDX-License-Identifier: Apache-2.0 */
/* What rank 0 does of a save: the folder before, what all ranks wrote and the manifest after, older ones last. */
#include "train/checkpoint/saver_impl.h"

#include "base/clock.h"
#include "base/log.h"
#include "spec/train.h"

#include <stdio.h>
#include <string.h>

/* Room for a section more, with a copy of its name; its text is to be filled. */
static cero_status add_section(cero_saver *saver, const char *name, cero_text *json)
{
    cero_saver_commit *c = &saver->commit;
    char *copy = cero_strdup(name);

    if (copy == NULL || cero_text_finish(json) != CERO_OK) {
        cero_delete(copy);
        cero_text_cleanup(json);
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for the section \"%s\" of a checkpoint", name);
    }
    c->sections[c->section_count++] = (cero_manifest_section){.name = copy, .json = json->data};
    return CERO_OK;
}

/* Of the engine, of its config, and the caller's: as they are now, whatever a later step changes. */
static cero_status make_sections(cero_saver *saver, const cero_manifest_section *sections,
                                 int count)
{
    cero_text engine = {0};
    cero_text config = {0};

    saver->commit.sections = cero_new((size_t)count + 2, sizeof(cero_manifest_section));
    CERO_CHECK(saver->commit.sections != NULL, CERO_ERR_NOMEM,
               "no memory for %d sections of a checkpoint", count + 2);
    cero_engine_section_write(saver->engine, &engine);
    CERO_TRY(add_section(saver, "engine", &engine));
    cero_status st = cero_train_config_write_json(cero_engine_config(saver->engine), &config);
    if (st != CERO_OK) {
        cero_text_cleanup(&config);
        return st;
    }
    CERO_TRY(add_section(saver, "config", &config));
    for (int i = 0; i < count; i++) {
        cero_text text = {0};
        cero_text_printf(&text, "%s", sections[i].json);
        CERO_TRY(add_section(saver, sections[i].name, &text));
    }
    return CERO_OK;
}

/* At most what the manifest takes: a hash for each block, lines for each tensor, range and file. */
static int64_t manifest_bytes(const cero_saver *saver, int64_t nbytes)
{
    enum {
        OF_TENSOR = 256,
        OF_RANGE = 160,
        OF_FILE = 192,
        OF_BLOCK = 24,
        OF_REST = 1 << 16
    };
    int64_t size = cero_comm_size(saver->comm);
    int64_t total = nbytes / CERO_MANIFEST_BLOCK * OF_BLOCK + size * OF_FILE + OF_REST;

    // A tensor is cut where ranks' shards end: in as many parts more as there are ranks, for all of a unit.
    total += saver->list.count * (OF_TENSOR + OF_RANGE + OF_BLOCK) +
             size * cero_engine_unit_count(saver->engine) * 3 * (OF_RANGE + OF_BLOCK);
    for (int64_t t = 0; t < saver->list.count; t++) {
        total += (int64_t)strlen(saver->list.tensors[t].name);
    }
    for (int i = 0; i < saver->commit.section_count; i++) {
        total += (int64_t)strlen(saver->commit.sections[i].json);
    }
    return total;
}

static cero_manifest_mesh describe_mesh(const cero_engine *engine)
{
    cero_zero_summary zero;

    cero_engine_zero_summary(engine, &zero);
    return (cero_manifest_mesh){.world_size = zero.size,
                                .dp = zero.size,
                                .tp = 1,
                                .pp = 1,
                                .sp = 1,
                                .zero_stage = zero.stage};
}

cero_status cero_saver_commit_begin(cero_saver *saver, const cero_manifest_section *sections,
                                    int count, int64_t nbytes)
{
    const char *dir = saver->params.dir;
    int64_t removed = 0;

    saver->commit.mesh = describe_mesh(saver->engine);
    CERO_TRY(make_sections(saver, sections, count));
    CERO_TRY(cero_folder_sweep(dir, &removed));
    CERO_TRY(cero_folder_check_space(dir, nbytes + manifest_bytes(saver, nbytes)));
    cero_manifest_make_id(saver->id);
    return cero_folder_begin(dir, saver->stats.tag, saver->id, &saver->commit.folder);
}

/* Rooms for what the ranks will send. */
static cero_status make_rooms(cero_saver *saver, const int64_t *lengths)
{
    cero_saver_commit *c = &saver->commit;
    size_t size = (size_t)cero_comm_size(saver->comm);

    c->packed = cero_new(size, sizeof(char *));
    c->lengths = cero_new(size, sizeof(size_t));
    CERO_CHECK(c->packed != NULL && c->lengths != NULL, CERO_ERR_NOMEM,
               "no memory for what %zu ranks wrote", size);
    for (size_t r = 0; r < size; r++) {
        c->lengths[r] = (size_t)lengths[r];
        c->packed[r] = cero_new(c->lengths[r] + 1, 1);
        CERO_CHECK(c->packed[r] != NULL, CERO_ERR_NOMEM,
                   "no memory for %zu bytes about the file of rank %zu", c->lengths[r], r);
    }
    return CERO_OK;
}

/* Everything is there: rank 0 takes what each rank has packed. Collective. */
static cero_status exchange(cero_saver *saver, const cero_text *mine)
{
    enum {
        TAG = 0
    };
    cero_saver_commit *c = &saver->commit;

    if (cero_comm_rank(saver->comm) > 0) {
        return cero_comm_send(saver->comm, 0, TAG, mine->data, mine->length);
    }
    memcpy(c->packed[0], mine->data, mine->length);
    for (int r = 1; r < cero_comm_size(saver->comm); r++) {
        CERO_TRY(cero_comm_recv(saver->comm, r, TAG, c->packed[r], c->lengths[r]));
    }
    return CERO_OK;
}

cero_status cero_saver_commit_gather(cero_saver *saver)
{
    cero_text mine = {0};
    int64_t length = 0;
    int64_t *lengths = cero_new((size_t)cero_comm_size(saver->comm), sizeof(int64_t));
    cero_status st = lengths != NULL
                         ? cero_rank_file_pack(saver->file, &mine)
                         : CERO_FAIL(CERO_ERR_NOMEM, "no memory to tell what was written");

    CERO_TRY_GOTO(cero_comm_agree(saver->comm, st), out);
    length = (int64_t)mine.length;
    CERO_TRY_GOTO(cero_comm_all_gather(saver->comm, &length, sizeof(length), lengths), out);
    st = cero_comm_rank(saver->comm) == 0 ? make_rooms(saver, lengths) : CERO_OK;
    CERO_TRY_GOTO(cero_comm_agree(saver->comm, st), out);
    CERO_TRY_GOTO(exchange(saver, &mine), out);
out:
    cero_text_cleanup(&mine);
    cero_delete(lengths);
    return st;
}

static void set_manifest(const cero_saver *saver, cero_manifest *m)
{
    memcpy(m->id, saver->id, sizeof(m->id));
    (void)snprintf(m->run, sizeof(m->run), "%s", saver->params.run);
    m->step = saver->stats.step;
    m->mesh = saver->commit.mesh;
}

/* Older checkpoints go after this one; asked before it has its name. */
static cero_status look_for_older(cero_saver *saver)
{
    saver->commit.is_full = false;
    return saver->params.keep == 0
               ? CERO_OK
               : cero_folder_is_full(saver->params.dir, saver->params.run, saver->params.keep,
                                     &saver->commit.is_full);
}

cero_status cero_saver_commit_finish(cero_saver *saver)
{
    cero_status st = CERO_OK;
    cero_saver_commit *c = &saver->commit;
    cero_manifest manifest = {0};
    cero_text text = {0};
    double start = cero_clock_now();

    CERO_TRY(cero_rank_file_unpack(saver->list.tensors, saver->list.count,
                                   (const char *const *)c->packed, c->lengths,
                                   cero_comm_size(saver->comm), CERO_MANIFEST_BLOCK, &manifest));
    set_manifest(saver, &manifest);
    CERO_TRY_GOTO(cero_folder_check_files(saver->path, &manifest), out);
    CERO_TRY_GOTO(cero_manifest_write(&manifest, c->sections, c->section_count, &text), out);
    CERO_TRY_GOTO(look_for_older(saver), out);
    CERO_TRY_GOTO(cero_folder_finish(c->folder, text.data, text.length), out);
    saver->stats.seconds_commit = cero_clock_now() - start;
out:
    cero_text_cleanup(&text);
    cero_manifest_cleanup(&manifest);
    return st;
}

cero_status cero_saver_commit_retain(cero_saver *saver)
{
    int64_t removed = 0;
    cero_status st = cero_folder_retain(saver->params.dir, saver->params.run, saver->stats.tag,
                                        saver->params.keep, &removed);

    // The new checkpoint is there and verified: an old one that stays is no failure of the save.
    if (st != CERO_OK) {
        cero_log(CERO_LOG_WARN, "train", "an older checkpoint could not be removed: %s",
                 cero_error_message());
    }
    saver->commit.removed = removed;
    return CERO_OK;
}

void cero_saver_commit_end(cero_saver *saver)
{
    cero_saver_commit *c = &saver->commit;

    cero_folder_end(&c->folder);
    for (int i = 0; i < c->section_count; i++) {
        union {
            const char *readable;
            void *writable;
        } text[2] = {{.readable = c->sections[i].name}, {.readable = c->sections[i].json}};
        cero_delete(text[0].writable);
        cero_delete(text[1].writable);
    }
    for (int r = 0; c->packed != NULL && r < cero_comm_size(saver->comm); r++) {
        cero_delete(c->packed[r]);
    }
    cero_delete(c->sections);
    cero_delete(c->packed);
    cero_delete(c->lengths);
    *c = (cero_saver_commit){0};
}
