/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole checkpoint: a manifest, a NUL byte, and its first file. Hashes are made right first, those of the file's
 * header and blocks too, so that what is behind them is reached: headers, owners, places, sections. The manifest is
 * refused with one line, or the folder opens; verifying it fails exactly when scanning it finds something, each with
 * one line; what verifies is read and hashed to the end, and no longer verifies with any one byte changed. The
 * sections of a run are read or refused with one line, and what is read is written and read back as itself.
 */
#include "fuzz.h"

#include "base/text.h"
#include "ckpt/checkpoint/manifest_impl.h"
#include "ckpt/checkpoint/reader.h"
#include "train/checkpoint/run_state.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define NAME "manifest.json"

/* The bytes of the manifest's first file. */
typedef struct first_file {
    const uint8_t *bytes;
    size_t size;
} first_file;

static void check_again(const cero_run_state *state)
{
    cero_text train = {0};
    cero_text text = {0};
    cero_manifest m = {0};
    cero_run_state again;

    fuzz_expect(cero_run_state_write(state, &train) == CERO_OK, "%s", cero_error_message());
    cero_text_printf(&text, "{\"train\":%s}", train.data);
    fuzz_expect(cero_json_parse(NAME, text.data, text.length, NULL, &m.document) == CERO_OK, "%s",
                cero_error_message());
    m.root = cero_json_root(m.document);
    fuzz_expect(cero_run_state_read(&m, &again) == CERO_OK, "%s: %s", cero_error_message(),
                text.data);
    fuzz_expect(again.samples == state->samples && again.position == state->position &&
                    again.data.token_hash == state->data.token_hash &&
                    cero_run_state_check_data(&again.data, &state->data) == CERO_OK,
                "%s", text.data);
    cero_manifest_cleanup(&m);
    cero_text_cleanup(&text);
    cero_text_cleanup(&train);
}

/* What a run that resumes asks of a manifest. */
static void check_sections(const cero_manifest *m)
{
    const char *const overrides[] = {"train_batch_size=8"};
    cero_train_config_params params = {.overrides = overrides, .override_count = 1};
    cero_train_config *config = NULL;
    cero_run_state state;
    cero_text text = {0};
    int64_t applied;
    int64_t skipped;

    if (fuzz_is_ok(cero_run_state_read(m, &state), "")) {
        check_again(&state);
    }
    cero_run_state_find_counts(m, &applied, &skipped);
    (void)fuzz_is_ok(cero_run_state_write_line(m, &text), "");
    fuzz_expect(cero_train_config_create(&params, &config) == CERO_OK, "%s", cero_error_message());
    (void)fuzz_is_ok(cero_run_state_write_changes(m, config, &text), "");
    (void)fuzz_is_ok(cero_run_state_check_optimizer(m, config), "");
    cero_train_config_destroy(&config);
    cero_text_cleanup(&text);
}

/* Hashes of what lies in the first file, as far as it lies there. */
static void fill_hashes(cero_manifest *m, const first_file *f)
{
    if ((size_t)m->files[0].header_nbytes <= f->size) {
        m->files[0].header_hash = XXH3_64bits(f->bytes, (size_t)m->files[0].header_nbytes);
    }
    for (int64_t i = 0; i < m->tensor_count; i++) {
        for (int64_t k = 0; k < m->tensors[i].range_count; k++) {
            const cero_manifest_range *r = &m->tensors[i].ranges[k];
            int64_t end = r->offset + (r->end - r->begin) * 4;
            if (r->file != 0 || (size_t)end > f->size) {
                continue;
            }
            for (int64_t at = r->offset, b = 0; at < end; at += m->block_nbytes, b++) {
                int64_t n = end - at < m->block_nbytes ? end - at : m->block_nbytes;
                r->hashes[b] = XXH3_64bits(f->bytes + at, (size_t)n);
            }
        }
    }
}

static void note_finding(void *context, const cero_reader_finding *finding)
{
    CERO_UNUSED(context);
    fuzz_expect(!fuzz_is_ok(finding->status, "") && finding->message[0] != '\0', "file %lld",
                (long long)finding->file);
    for (const char *p = finding->message; *p != '\0'; p++) {
        fuzz_expect((unsigned char)*p >= 0x20, "%s", finding->message);
    }
}

static bool verifies(const char *dir)
{
    const cero_reader_scan_params params = {.report = note_finding};
    cero_reader *reader = NULL;
    int64_t findings = 0;

    fuzz_expect(cero_reader_open(dir, &reader) == CERO_OK, "%s", cero_error_message());
    bool is_good = fuzz_is_ok(cero_reader_verify(reader, NULL, NULL), dir);
    fuzz_expect(cero_reader_scan(reader, &params, &findings) == CERO_OK, "%s",
                cero_error_message());
    fuzz_expect(is_good == (findings == 0), "%lld findings", (long long)findings);
    cero_reader_close(&reader);
    return is_good;
}

static void read_all(const char *dir)
{
    cero_reader *reader = NULL;
    cero_reader_digest digest;

    fuzz_expect(cero_reader_open(dir, &reader) == CERO_OK, "%s", cero_error_message());
    const cero_manifest *m = cero_reader_manifest(reader);
    for (int64_t i = 0; i < m->tensor_count; i++) {
        int64_t n = m->tensors[i].numel;
        float *values = fuzz_alloc((size_t)n * sizeof(float));
        fuzz_expect(cero_reader_read(reader, i, 0, n, values) == CERO_OK, "%s",
                    cero_error_message());
        fuzz_expect(n == 0 || cero_reader_read(reader, i, n / 2, n - n / 2, values) == CERO_OK,
                    "%s", cero_error_message());
        free(values);
    }
    fuzz_expect(cero_reader_hash(reader, &digest) == CERO_OK, "%s", cero_error_message());
    cero_reader_close(&reader);
}

/* One byte of the file is another. */
static void check_changed(const char *dir, const char *path, const first_file *f, size_t at)
{
    uint8_t *bytes = fuzz_copy(f->bytes, f->size);

    bytes[at] ^= 0x10;
    fuzz_write(path, bytes, f->size);
    fuzz_expect(!verifies(dir), "byte %zu of %zu was changed", at, f->size);
    free(bytes);
}

static bool check_folder(const cero_manifest *m, const first_file *f, size_t salt)
{
    cero_text text = {0};
    const char *dir = fuzz_path(0, "");

    if (!fuzz_is_ok(cero_manifest_write(m, NULL, 0, &text), "")) {
        return false;
    }
    fuzz_clear();
    fuzz_write(fuzz_path(1, NAME), text.data, text.length);
    const char *path = fuzz_path(2, m->files[0].name);
    fuzz_write(path, f->bytes, f->size);
    bool is_good = verifies(dir);
    if (is_good) {
        read_all(dir);
        check_changed(dir, path, f, salt % f->size); // most of it is header
        check_changed(dir, path, f, f->size - 1 - salt % (f->size < 24 ? f->size : 24));
    }
    fuzz_clear();
    cero_text_cleanup(&text);
    return is_good;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *nul = size == 0 ? NULL : memchr(data, '\0', size);
    size_t text_size = nul == NULL ? size : (size_t)(nul - data);
    first_file f = {.bytes = nul == NULL ? data : nul + 1,
                    .size = nul == NULL ? 0 : size - text_size - 1};
    size_t length;
    char *text = fuzz_repair_manifest(data, text_size, &length);
    cero_manifest m;

    if (fuzz_is_ok(cero_manifest_parse(NAME, text, length, &m), NAME)) {
        check_sections(&m);
        if (m.file_count > 0) {
            fill_hashes(&m, &f);
            fuzz_accepted = check_folder(&m, &f, size);
        }
        cero_manifest_cleanup(&m);
    }
    free(text);
    return 0;
}
