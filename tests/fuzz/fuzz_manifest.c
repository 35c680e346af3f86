/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checkpoint's manifest.json: any bytes are refused with one line that names the file, or they are a manifest whose
 * ranges cover each tensor once, lie between header and end of files of the folder itself, and share no byte. It can
 * be written, without its sections, and reads back as itself. Since nothing passes the hash of the last line by
 * chance, the input is taken twice: as it is, and with that line made right, which is how its structure is reached.
 */
#include "fuzz.h"

#include "base/text.h"
#include "ckpt/checkpoint/manifest_impl.h"

#include <stdlib.h>
#include <string.h>

#define NAME "run/step-1/manifest.json"

static void check_range(const cero_manifest *m, const cero_manifest_tensor *t,
                        const cero_manifest_range *r)
{
    fuzz_expect(r->file >= 0 && r->file < m->file_count && r->begin < r->end, "file %lld",
                (long long)r->file);
    const cero_manifest_file *f = &m->files[r->file];
    int64_t nbytes = (r->end - r->begin) * (int64_t)cero_dtype_size(t->dtype);
    fuzz_expect(r->offset >= f->header_nbytes && nbytes <= f->nbytes - r->offset,
                "%lld bytes at %lld of %lld", (long long)nbytes, (long long)r->offset,
                (long long)f->nbytes);
    fuzz_expect(cero_manifest_block_count(m, t, r) == (nbytes - 1) / m->block_nbytes + 1,
                "%lld bytes in blocks of %lld", (long long)nbytes, (long long)m->block_nbytes);
}

/* Pairs of ranges: the obvious twin of what the parser sorts. */
static void check_disjoint(const cero_manifest_tensor *t, const cero_manifest_range *r,
                           const cero_manifest_tensor *u, const cero_manifest_range *s)
{
    int64_t t_size = (int64_t)cero_dtype_size(t->dtype);
    int64_t u_size = (int64_t)cero_dtype_size(u->dtype);

    fuzz_expect(r == s || r->file != s->file ||
                    r->offset >= s->offset + (s->end - s->begin) * u_size ||
                    s->offset >= r->offset + (r->end - r->begin) * t_size,
                "bytes %lld and %lld of file %lld", (long long)r->offset, (long long)s->offset,
                (long long)r->file);
}

static void check_tensors(const cero_manifest *m)
{
    for (int64_t i = 0; i < m->tensor_count; i++) {
        const cero_manifest_tensor *t = &m->tensors[i];
        int64_t at = 0;
        fuzz_expect(cero_manifest_find(m, t->name) == i, "tensor %lld is lost", (long long)i);
        fuzz_expect(t->numel == cero_shape_numel(&t->shape), "%lld elements", (long long)t->numel);
        for (int64_t k = 0; k < t->range_count; k++) {
            fuzz_expect(t->ranges[k].begin == at, "range %lld", (long long)k);
            at = t->ranges[k].end;
            check_range(m, t, &t->ranges[k]);
            for (int64_t j = 0; j <= i; j++) {
                for (int64_t l = 0; l < m->tensors[j].range_count; l++) {
                    check_disjoint(t, &t->ranges[k], &m->tensors[j], &m->tensors[j].ranges[l]);
                }
            }
        }
        fuzz_expect(at == t->numel, "%lld of %lld elements", (long long)at, (long long)t->numel);
    }
}

static void check_files(const cero_manifest *m)
{
    for (int64_t i = 0; i < m->file_count; i++) {
        const char *name = m->files[i].name;
        fuzz_expect(name[0] != '\0' && name[0] != '.' && strchr(name, '/') == NULL &&
                        strlen(name) < CERO_MANIFEST_MAX_FILE_NAME,
                    "file \"%s\"", name);
        fuzz_expect(m->files[i].header_nbytes <= m->files[i].nbytes, "a header of %lld bytes",
                    (long long)m->files[i].header_nbytes);
    }
}

static void check_written(const cero_manifest *m)
{
    cero_text first = {0};
    cero_text second = {0};
    cero_manifest again;

    fuzz_expect(cero_manifest_write(m, NULL, 0, &first) == CERO_OK, "%s", cero_error_message());
    fuzz_expect(cero_manifest_parse(NAME, first.data, first.length, &again) == CERO_OK, "%s",
                cero_error_message());
    fuzz_expect(cero_manifest_write(&again, NULL, 0, &second) == CERO_OK, "%s",
                cero_error_message());
    fuzz_expect(strcmp(first.data, second.data) == 0, "%s became %s", first.data, second.data);
    fuzz_expect(again.tensor_count == m->tensor_count && again.file_count == m->file_count,
                "%lld tensors, %lld files", (long long)again.tensor_count,
                (long long)again.file_count);
    cero_manifest_cleanup(&again);
    cero_text_cleanup(&first);
    cero_text_cleanup(&second);
}

static bool check_manifest(const char *bytes, size_t length)
{
    cero_manifest m;

    if (!fuzz_is_ok(cero_manifest_parse(NAME, bytes, length, &m), NAME)) {
        return false;
    }
    fuzz_expect(m.step >= 0 && m.block_nbytes > 0, "step %lld", (long long)m.step);
    check_files(&m);
    check_tensors(&m);
    check_written(&m);
    cero_manifest_cleanup(&m);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t length;
    char *copy = fuzz_copy(data, size);
    char *repaired = fuzz_repair_manifest(data, size, &length);

    (void)check_manifest(copy, size);
    fuzz_accepted = check_manifest(repaired, length);
    free(repaired);
    free(copy);
    return 0;
}
