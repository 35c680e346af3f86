/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading, by all ranks together: rank 0 offers candidates, newest first; each is matched with the engine and then
 * read; one that does not verify, for whatever rank, is left by all.
 */
#include "train/checkpoint/loader_impl.h"

#include "base/log.h"

#include <stdio.h>
#include <string.h>

/* What an error means for the load. The greatest over ranks is what all ranks do. */
typedef enum verdict {
    GOOD = 0,
    SKIP = 1, /* not this one: the next older, if any may be taken */
    END = 2
} verdict;

static verdict judge(const cero_loader *loader, cero_status st)
{
    bool is_file = st == CERO_ERR_CORRUPT || st == CERO_ERR_IO || st == CERO_ERR_UNSUPPORTED;

    return st == CERO_OK ? GOOD : is_file && loader->params->tag == NULL ? SKIP : END;
}

/* All ranks get the same verdict, and a message when it is not good. Collective. */
static cero_status agree(const cero_loader *loader, cero_status st, verdict *out)
{
    int64_t worst = judge(loader, st);

    *out = END;
    CERO_TRY(cero_comm_all_reduce_i64(loader->comm, CERO_COMM_MAX, &worst, 1));
    *out = worst == GOOD ? GOOD : worst == SKIP ? SKIP : END;
    return worst == GOOD ? CERO_OK : cero_comm_agree(loader->comm, st);
}

static cero_status create(cero_loader *loader)
{
    CERO_TRY(cero_tensor_list_create(loader->engine, &loader->list));
    loader->stored = cero_new((size_t)loader->list.count, sizeof(int64_t));
    loader->room = cero_new(CERO_LOADER_ROOM, sizeof(float));
    CERO_CHECK(loader->stored != NULL && loader->room != NULL, CERO_ERR_NOMEM,
               "no memory to read a checkpoint");
    return cero_comm_rank(loader->comm) == 0 ? cero_loader_choice_open(loader) : CERO_OK;
}

static void cleanup(cero_loader *loader)
{
    cero_loader_choice_close(loader);
    cero_tensor_list_cleanup(&loader->list);
    cero_delete(loader->stored);
    cero_delete(loader->room);
}

/* All ranks are here, can load, and mean the same. Collective. */
static cero_status meet(cero_loader *loader)
{
    const cero_loader_params *p = loader->params;
    cero_text name = {0};
    cero_status st = cero_engine_can_checkpoint(loader->engine);

    st = st == CERO_OK && p->tag != NULL ? cero_folder_check_tag(p->tag) : st;
    if (st == CERO_OK) {
        cero_text_printf(&name, "%s/%s%s%s", p->dir, p->tag != NULL ? p->tag : "",
                         p->content == CERO_LOADER_WEIGHTS ? ", its weights" : "",
                         p->is_partial ? ", in part" : "");
        st = cero_text_finish(&name);
    }
    st = cero_engine_meet(loader->engine, CERO_ENGINE_LOAD, 0, 0, st);
    st = st == CERO_OK ? cero_comm_check_same_text(loader->comm, "the path of a checkpoint", &name)
                       : st;
    cero_text_cleanup(&name);
    return st;
}

/* Rank 0's next candidate, on all ranks. Collective. */
static cero_status take_candidate(cero_loader *loader, cero_loader_candidate *out)
{
    bool is_first = cero_comm_rank(loader->comm) == 0;
    int64_t length = 0;
    cero_status st = is_first ? cero_loader_choose(loader, out) : CERO_OK;

    CERO_TRY(cero_comm_agree(loader->comm, st));
    length = (int64_t)out->length;
    CERO_TRY(cero_comm_broadcast(loader->comm, out->name, sizeof(out->name), 0));
    CERO_TRY(cero_comm_broadcast(loader->comm, &length, sizeof(length), 0));
    out->length = (size_t)length;
    if (!is_first) {
        out->bytes = cero_new(out->length + 1, 1);
    }
    st = out->bytes != NULL || out->name[0] == '\0'
             ? CERO_OK
             : CERO_FAIL(CERO_ERR_NOMEM, "no memory for a manifest of %zu bytes", out->length);
    CERO_TRY(cero_comm_agree(loader->comm, st));
    return length > 0 ? cero_comm_broadcast(loader->comm, out->bytes, out->length, 0) : CERO_OK;
}

static cero_status open_reader(const cero_loader *loader, const cero_loader_candidate *c,
                               cero_reader **out)
{
    cero_text path = {0};

    cero_text_printf(&path, "%s/%s", loader->params->dir, c->name);
    cero_status st = cero_text_finish(&path);
    st = st == CERO_OK ? cero_reader_open_manifest(path.data, c->bytes, c->length, out) : st;
    cero_text_cleanup(&path);
    return st;
}

static cero_status check_by_caller(const cero_loader *loader, const cero_manifest *manifest)
{
    const cero_loader_params *p = loader->params;

    return p->check != NULL ? p->check(p->context, manifest) : CERO_OK;
}

/* The manifest, what the caller says of it, and the headers of files; nothing changes. Collective. */
static cero_status inspect(cero_loader *loader, const cero_loader_candidate *c,
                           cero_reader **reader, cero_engine_counters *counters, verdict *out)
{
    CERO_TRY(agree(loader, open_reader(loader, c, reader), out));
    // The caller knows more of what it wants, and how to ask for less.
    cero_status st = check_by_caller(loader, cero_reader_manifest(*reader));
    st = st == CERO_OK ? cero_loader_match(loader, cero_reader_manifest(*reader), counters) : st;
    CERO_TRY(agree(loader, st, out));
    return agree(loader, cero_loader_check_files(loader, *reader), out);
}

/* From here on the engine changes. Collective. */
static cero_status take_contents(cero_loader *loader, cero_reader *reader, verdict *out)
{
    *out = END;
    loader->is_changed = true;
    CERO_TRY(cero_engine_load_begin(loader->engine));
    CERO_TRY(agree(loader, cero_loader_read(loader, reader), out));
    *out = END;
    CERO_TRY(cero_engine_load_end(loader->engine, loader->room, CERO_LOADER_ROOM));
    *out = GOOD;
    return CERO_OK;
}

/* What is neither weight nor moment, and what is told. */
static void take_numbers(cero_loader *loader, const cero_manifest *manifest, const char *name,
                         const cero_engine_counters *counters)
{
    cero_loader_result *result = &loader->result;
    cero_engine_counters now;

    if (loader->params->content == CERO_LOADER_ALL) {
        cero_engine_set_counters(loader->engine, counters);
        cero_engine_set_run(loader->engine, manifest->run);
    } else {
        cero_engine_clear_moments(loader->engine);
        cero_engine_clear_counters(loader->engine);
    }
    cero_engine_get_counters(loader->engine, &now);
    result->is_loaded = true;
    const char *old = strstr(name, ".old-"); // stands in for one that is not there
    int length = old != NULL ? (int)(old - name) : (int)strlen(name);
    (void)snprintf(result->tag, sizeof(result->tag), "%.*s", length, name);
    result->step = manifest->step;
    for (int64_t i = 0; i < manifest->file_count; i++) {
        result->bytes_all += manifest->files[i].nbytes;
    }
    result->stats = (cero_step_stats){.step = now.step,
                                      .applied = now.zero.applied,
                                      .skipped = now.zero.skipped,
                                      .loss_scale = now.zero.loss_scale};
}

/* One candidate, from its manifest to its last byte. Collective. */
static cero_status try_candidate(cero_loader *loader, const cero_loader_candidate *c, verdict *out)
{
    cero_status st = CERO_OK;
    cero_reader *reader = NULL;
    cero_engine_counters counters;

    CERO_TRY_GOTO(inspect(loader, c, &reader, &counters, out), out);
    CERO_TRY_GOTO(take_contents(loader, reader, out), out);
    take_numbers(loader, cero_reader_manifest(reader), c->name, &counters);
out:
    loader->result.bytes_read += reader != NULL ? cero_reader_bytes_read(reader) : 0;
    cero_reader_close(&reader);
    return st;
}

/* Candidates until one is good, or none is left. Collective. */
static cero_status try_all(cero_loader *loader)
{
    verdict v = SKIP;
    cero_status st = CERO_OK;

    while (v == SKIP) {
        cero_loader_candidate c = {0};
        v = END;
        st = take_candidate(loader, &c);
        if (st == CERO_OK && c.name[0] != '\0') {
            st = try_candidate(loader, &c, &v);
        }
        if (v == SKIP) {
            cero_loader_skip(loader, c.name);
        }
        cero_delete(c.bytes);
    }
    return st;
}

static void say(const cero_loader *loader)
{
    const cero_loader_result *r = &loader->result;

    if (r->is_loaded) {
        cero_log(CERO_LOG_INFO, "train", "loaded %s%s/%s, step %lld",
                 loader->params->content == CERO_LOADER_WEIGHTS ? "the weights of " : "",
                 loader->params->dir, r->tag, (long long)r->step);
    } else {
        cero_log(CERO_LOG_INFO, "train", "no checkpoint in %s, starting at step 0",
                 loader->params->dir);
    }
}

cero_status cero_loader_load(cero_engine *engine, const cero_loader_params *params,
                             cero_loader_result *out)
{
    cero_loader loader = {.engine = engine, .comm = cero_engine_comm(engine), .params = params};

    cero_comm_note(loader.comm, "load", 0);
    CERO_TRY(meet(&loader));
    cero_status st = cero_comm_agree(loader.comm, create(&loader));
    st = st == CERO_OK ? try_all(&loader) : st;
    int64_t skipped = loader.result.skipped;
    if (st == CERO_OK) {
        st = cero_comm_broadcast(loader.comm, &skipped, sizeof(skipped), 0);
        loader.result.skipped = skipped;
    }
    if (st == CERO_OK) {
        say(&loader);
        *out = loader.result;
    } else if (loader.is_changed) {
        cero_engine_poison(engine);
    }
    cleanup(&loader);
    return st;
}
