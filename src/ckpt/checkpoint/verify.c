/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verifying a checkpoint: each file in turn, header first, then its ranges as they lie, every byte once.
 *
 * One walk serves both: it tells what is wrong and goes on (scan), or ends with the first (verify). What a file that
 * is missing or another's has of data is not looked at.
 */
#include "ckpt/checkpoint/reader_impl.h"

#include "base/memory.h"

typedef struct walk {
    cero_reader *reader;
    const cero_reader_scan_params *params;
    bool is_first_fatal;
    int64_t findings;
    int64_t done;
    int64_t total;
} walk;

static void advance(walk *w, int64_t nbytes)
{
    w->done += nbytes;
    if (w->params->progress != NULL) {
        w->params->progress(w->params->context, w->done, w->total);
    }
}

/* Tells of a finding; the status is OK when the walk goes on. */
static cero_status find(walk *w, const cero_reader_finding *finding)
{
    w->findings++;
    if (w->params->report != NULL) {
        w->params->report(w->params->context, finding);
    }
    return w->is_first_fatal ? finding->status : CERO_OK;
}

static bool is_finding(cero_status st)
{
    return st == CERO_ERR_CORRUPT || st == CERO_ERR_IO;
}

/* A message that outlives the next error. */
typedef struct bad_range {
    cero_reader_finding finding;
    cero_text message;
} bad_range;

/* Adds a damaged block; `st` is the error in force, whose message the first one keeps. */
static cero_status note_block(walk *w, bad_range *bad, const cero_reader_block *block,
                              cero_status st)
{
    int64_t size = (int64_t)cero_dtype_size(w->reader->manifest.tensors[block->tensor].dtype);

    if (bad->finding.bad_blocks == 0) {
        bad->finding = (cero_reader_finding){.status = st,
                                             .file = block->range->file,
                                             .tensor = block->tensor,
                                             .begin = block->range->begin + block->begin / size};
        cero_text_printf(&bad->message, "%s", cero_error_message());
    }
    bad->finding.end = block->range->begin + block->end / size;
    bad->finding.bad_blocks++;
    return w->is_first_fatal ? st : CERO_OK;
}

static cero_status tell_range(walk *w, bad_range *bad)
{
    if (bad->finding.bad_blocks > 1) {
        cero_text_printf(&bad->message, "; %lld more block%s of this range %s damaged",
                         (long long)bad->finding.bad_blocks - 1,
                         bad->finding.bad_blocks == 2 ? "" : "s",
                         bad->finding.bad_blocks == 2 ? "is" : "are");
    }
    CERO_TRY(cero_text_finish(&bad->message));
    bad->finding.message = bad->message.data;
    return find(w, &bad->finding);
}

/* Every block of a range; after an error of the disk the rest of it is left. */
static cero_status walk_range(walk *w, int64_t tensor, const cero_manifest_range *range)
{
    cero_status st = CERO_OK;
    cero_reader *r = w->reader;
    bad_range bad = {0};
    int64_t count = cero_manifest_block_count(&r->manifest, &r->manifest.tensors[tensor], range);

    for (int64_t k = 0; k < count; k++) {
        cero_reader_block block = cero_reader_block_at(r, tensor, range, k);
        uint64_t found = 0;
        CERO_TRY_GOTO(cero_reader_block_room(r, block.end - block.begin), out);
        cero_status read = cero_reader_block_read(r, &block, r->block, &found);
        bool is_stopped = read != CERO_OK;
        if (read == CERO_OK && found != range->hashes[k]) {
            read = cero_reader_block_fail(r, &block, found);
        }
        if (read != CERO_OK) {
            st = is_finding(read) ? note_block(w, &bad, &block, read) : read;
        }
        advance(w, block.end - block.begin);
        if (st != CERO_OK || is_stopped) {
            break;
        }
    }
    if (st == CERO_OK && bad.finding.bad_blocks > 0) {
        st = tell_range(w, &bad);
    }

out:
    cero_text_cleanup(&bad.message);
    return st;
}

static cero_status walk_file(walk *w, int64_t file)
{
    cero_reader *r = w->reader;
    const cero_manifest_file *f = &r->manifest.files[file];
    bool is_foreign = false;
    int fd = -1;
    int64_t begun = w->done;

    cero_status st = cero_reader_file_check(r, file, &is_foreign);
    if (is_finding(st)) {
        cero_reader_finding finding = {
            .status = st, .file = file, .tensor = -1, .message = cero_error_message()};
        CERO_TRY(find(w, &finding));
        if (is_foreign || cero_reader_file_open(r, file, &fd) != CERO_OK) {
            advance(w, f->nbytes);
            return CERO_OK;
        }
    } else {
        CERO_TRY(st);
    }
    advance(w, f->header_nbytes);
    for (int64_t i = cero_reader_first_place(r, file);
         i < r->place_count && r->places[i].file == file; i++) {
        const cero_reader_place *p = &r->places[i];
        CERO_TRY(walk_range(w, p->tensor, &r->manifest.tensors[p->tensor].ranges[p->range]));
    }
    advance(w, begun + f->nbytes - w->done);
    return CERO_OK;
}

static cero_status walk_all(walk *w)
{
    cero_reader *r = w->reader;

    CERO_TRY(cero_reader_places(r));
    r->kept = NULL; // its block is the room of this walk
    for (int64_t i = 0; i < r->manifest.file_count; i++) {
        w->total += r->manifest.files[i].nbytes;
    }
    for (int64_t i = 0; i < r->manifest.file_count; i++) {
        CERO_TRY(walk_file(w, i));
    }
    return CERO_OK;
}

cero_status cero_reader_scan(cero_reader *reader, const cero_reader_scan_params *params,
                             int64_t *findings)
{
    walk w = {.reader = reader, .params = params};

    CERO_TRY(walk_all(&w));
    *findings = w.findings;
    return CERO_OK;
}

cero_status cero_reader_verify(cero_reader *reader, cero_reader_progress progress, void *context)
{
    cero_reader_scan_params params = {.progress = progress, .context = context};
    walk w = {.reader = reader, .params = &params, .is_first_fatal = true};

    return walk_all(&w);
}
