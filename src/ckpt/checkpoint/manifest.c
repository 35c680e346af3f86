/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The manifest as a struct, and its text: one line for each file and each tensor, so that people can read it.
 *
 * What is written is read back by manifest_read.c before it is handed out: nothing is made here that would be refused
 * when a run resumes.
 */
#include "ckpt/checkpoint/manifest_impl.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

int64_t cero_manifest_block_count(const cero_manifest *manifest, const cero_manifest_tensor *tensor,
                                  const cero_manifest_range *range)
{
    int64_t nbytes = (range->end - range->begin) * (int64_t)cero_dtype_size(tensor->dtype);

    return nbytes / manifest->block_nbytes + (nbytes % manifest->block_nbytes != 0);
}

int64_t cero_manifest_find(const cero_manifest *manifest, const char *name)
{
    int64_t low = 0;
    int64_t high = manifest->by_name == NULL ? 0 : manifest->tensor_count;

    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        int order = strcmp(name, manifest->tensors[manifest->by_name[middle]].name);
        if (order == 0) {
            return manifest->by_name[middle];
        }
        low = order > 0 ? middle + 1 : low;
        high = order > 0 ? high : middle;
    }
    return -1;
}

const cero_json *cero_manifest_section_find(const cero_manifest *manifest, const char *name)
{
    return cero_manifest_is_member(name) ? NULL : cero_json_find(manifest->root, name);
}

bool cero_manifest_is_member(const char *name)
{
    static const char *const members[] = {"format",       "version", "id",    "run",     "step",
                                          "block_nbytes", "mesh",    "files", "tensors", "xxh3"};

    for (size_t i = 0; i < CERO_COUNT_OF(members); i++) {
        if (strcmp(members[i], name) == 0) {
            return true;
        }
    }
    return false;
}

bool cero_manifest_is_id(const char *text)
{
    size_t length = strnlen(text, CERO_MANIFEST_ID);

    return length > 0 && length < CERO_MANIFEST_ID && strspn(text, "0123456789abcdef") == length;
}

typedef struct named {
    const char *name;
    int64_t index;
} named;

static int compare_named(const void *left, const void *right)
{
    const named *a = left;
    const named *b = right;
    int order = strcmp(a->name, b->name);

    return order != 0 ? order : a->index < b->index ? -1 : 1;
}

cero_status cero_manifest_index(cero_manifest *manifest, int64_t *doubled)
{
    size_t count = (size_t)manifest->tensor_count;
    named *sorted = cero_new(count + 1, sizeof(*sorted));
    int64_t *by_name = cero_new(count + 1, sizeof(*by_name));

    if (sorted == NULL || by_name == NULL) {
        cero_delete(sorted);
        cero_delete(by_name);
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for the names of %zu tensors", count);
    }
    for (size_t i = 0; i < count; i++) {
        sorted[i] = (named){.name = manifest->tensors[i].name, .index = (int64_t)i};
    }
    qsort(sorted, count, sizeof(*sorted), compare_named);
    *doubled = -1;
    for (size_t i = 0; i < count; i++) {
        by_name[i] = sorted[i].index;
        if (i > 0 && strcmp(sorted[i].name, sorted[i - 1].name) == 0) {
            *doubled = sorted[i].index;
        }
    }
    cero_delete(sorted);
    cero_delete(manifest->by_name);
    manifest->by_name = by_name;
    return CERO_OK;
}

/* Names of a manifest that was read are views into its document; of another they are its own. */
void cero_manifest_cleanup(cero_manifest *manifest)
{
    bool owns_names = manifest->document == NULL;

    for (int64_t i = 0; manifest->files != NULL && i < manifest->file_count; i++) {
        cero_delete(owns_names ? (void *)(uintptr_t)manifest->files[i].name : NULL);
    }
    for (int64_t i = 0; manifest->tensors != NULL && i < manifest->tensor_count; i++) {
        cero_manifest_tensor *t = &manifest->tensors[i];
        for (int64_t r = 0; t->ranges != NULL && r < t->range_count; r++) {
            cero_delete(t->ranges[r].hashes);
        }
        cero_delete(t->ranges);
        cero_delete(owns_names ? (void *)(uintptr_t)t->name : NULL);
    }
    cero_delete(manifest->files);
    cero_delete(manifest->tensors);
    cero_delete(manifest->by_name);
    cero_json_destroy(&manifest->document);
    *manifest = (cero_manifest){0};
}

void cero_manifest_make_id(char id[CERO_MANIFEST_ID])
{
    struct {
        unsigned char random[16];
        struct timespec now;
        struct timespec ticks;
        pid_t process;
    } seed;

    memset(&seed, 0, sizeof(seed));
    // Without random numbers the time and the process still make two runs differ.
    ssize_t got = getrandom(seed.random, sizeof(seed.random), GRND_NONBLOCK);
    CERO_UNUSED(got);
    (void)clock_gettime(CLOCK_REALTIME, &seed.now);
    (void)clock_gettime(CLOCK_MONOTONIC, &seed.ticks);
    seed.process = getpid();
    XXH128_hash_t hash = XXH3_128bits(&seed, sizeof(seed));
    cero_manifest_format_hash(hash.high64, id);
    cero_manifest_format_hash(hash.low64, id + CERO_MANIFEST_HASH_DIGITS);
    id[CERO_MANIFEST_ID - 1] = '\0';
}

void cero_manifest_format_hash(uint64_t hash, char digits[CERO_MANIFEST_HASH_DIGITS])
{
    for (int i = CERO_MANIFEST_HASH_DIGITS - 1; i >= 0; i--) {
        digits[i] = "0123456789abcdef"[hash & 15];
        hash >>= 4;
    }
}

bool cero_manifest_parse_hash(const char *digits, uint64_t *hash)
{
    uint64_t value = 0;

    for (int i = 0; i < CERO_MANIFEST_HASH_DIGITS; i++) {
        char c = digits[i];
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0) {
            return false;
        }
        value = value << 4 | (uint64_t)digit;
    }
    *hash = value;
    return true;
}

const char *cero_manifest_tail(const char *bytes, size_t length, char *text)
{
    memcpy(text, "\"xxh3\":\"", 8);
    cero_manifest_format_hash(XXH3_64bits(bytes, length), text + 8);
    memcpy(text + 8 + CERO_MANIFEST_HASH_DIGITS, "\"}\n", 4);
    return text;
}

static void append_string(cero_text *text, const char *string)
{
    cero_text_append_json_string(text, string, strlen(string));
}

static void append_head(const cero_manifest *m, cero_text *out)
{
    cero_text_printf(out, "{\"format\":\"%s\",\"version\":%d,\"id\":", CERO_MANIFEST_FORMAT,
                     CERO_MANIFEST_VERSION);
    append_string(out, m->id);
    cero_text_printf(out, ",\"run\":");
    append_string(out, m->run);
    cero_text_printf(out, ",\"step\":%lld,\"block_nbytes\":%lld,\n", (long long)m->step,
                     (long long)m->block_nbytes);
    cero_text_printf(out,
                     "\"mesh\":{\"world_size\":%d,\"dp\":%d,\"tp\":%d,\"pp\":%d,\"sp\":%d,"
                     "\"zero_stage\":%d},\n",
                     m->mesh.world_size, m->mesh.dp, m->mesh.tp, m->mesh.pp, m->mesh.sp,
                     m->mesh.zero_stage);
}

static void append_files(const cero_manifest *m, cero_text *out)
{
    char digits[CERO_MANIFEST_HASH_DIGITS];

    cero_text_printf(out, "\"files\":[");
    for (int64_t i = 0; i < m->file_count; i++) {
        const cero_manifest_file *f = &m->files[i];
        cero_text_printf(out, "%s\n{\"name\":", i > 0 ? "," : "");
        append_string(out, f->name);
        cero_manifest_format_hash(f->header_hash, digits);
        cero_text_printf(out, ",\"nbytes\":%lld,\"header_nbytes\":%lld,\"header_xxh3\":\"%.16s\"}",
                         (long long)f->nbytes, (long long)f->header_nbytes, digits);
    }
    cero_text_printf(out, "],\n");
}

static void append_range(const cero_manifest *m, const cero_manifest_tensor *t,
                         const cero_manifest_range *r, cero_text *out)
{
    int64_t count = cero_manifest_block_count(m, t, r);
    char entry[CERO_MANIFEST_HASH_DIGITS + 3];

    cero_text_printf(out, "{\"file\":%lld,\"offset\":%lld,\"begin\":%lld,\"end\":%lld,\"xxh3\":[",
                     (long long)r->file, (long long)r->offset, (long long)r->begin,
                     (long long)r->end);
    memcpy(entry, ",\"", 2);
    entry[sizeof(entry) - 1] = '"';
    for (int64_t i = 0; i < count && !out->has_failed; i++) {
        cero_manifest_format_hash(r->hashes[i], entry + 2);
        cero_text_append(out, entry + (i == 0), sizeof(entry) - (i == 0));
    }
    cero_text_append(out, "]}", 2);
}

static void append_tensors(const cero_manifest *m, cero_text *out)
{
    cero_text_printf(out, "\"tensors\":[");
    for (int64_t i = 0; i < m->tensor_count; i++) {
        const cero_manifest_tensor *t = &m->tensors[i];
        cero_text_printf(out, "%s\n{\"name\":", i > 0 ? "," : "");
        append_string(out, t->name);
        cero_text_printf(out, ",\"dtype\":\"%s\",\"shape\":[", cero_dtype_name(t->dtype));
        for (int d = 0; d < t->shape.ndim; d++) {
            cero_text_printf(out, "%s%lld", d > 0 ? "," : "", (long long)t->shape.dim[d]);
        }
        cero_text_printf(out, "],\"ranges\":[");
        for (int64_t r = 0; r < t->range_count; r++) {
            cero_text_printf(out, "%s", r > 0 ? "," : "");
            append_range(m, t, &t->ranges[r], out);
        }
        cero_text_printf(out, "]}");
    }
    cero_text_printf(out, "],\n");
}

/* What appending relies on; the rest is found by reading the text. */
static cero_status check_to_write(const cero_manifest *m)
{
    CERO_CHECK(m->block_nbytes > 0 && m->block_nbytes <= CERO_MANIFEST_MAX_BLOCK, CERO_ERR_INVALID,
               "a manifest with blocks of %lld bytes, expected 1 to %d", (long long)m->block_nbytes,
               CERO_MANIFEST_MAX_BLOCK);
    for (int64_t i = 0; i < m->tensor_count; i++) {
        const cero_manifest_tensor *t = &m->tensors[i];
        CERO_CHECK((unsigned)t->dtype < CERO_DTYPE_COUNT && t->shape.ndim >= 0 &&
                       t->shape.ndim <= CERO_MAX_NDIM,
                   CERO_ERR_INVALID, "tensor %s has no dtype or shape that can be written",
                   t->name);
    }
    return CERO_OK;
}

static cero_status append_section(const cero_manifest_section *section, cero_text *out)
{
    cero_json_document *document = NULL;

    CERO_CHECK(!cero_manifest_is_member(section->name), CERO_ERR_INVALID,
               "a section of the manifest cannot be called \"%s\": a member of it is",
               section->name);
    cero_status st =
        cero_json_parse(section->name, section->json, strlen(section->json), NULL, &document);
    bool is_object = st == CERO_OK && cero_json_root(document)->type == CERO_JSON_OBJECT;
    cero_json_destroy(&document);
    if (st == CERO_ERR_NOMEM) {
        return st;
    }
    CERO_CHECK(st == CERO_OK, CERO_ERR_INVALID, "the section \"%s\" of the manifest is no JSON: %s",
               section->name, cero_error_message());
    CERO_CHECK(is_object, CERO_ERR_INVALID, "the section \"%s\" of the manifest is no JSON object",
               section->name);
    append_string(out, section->name);
    cero_text_printf(out, ":");
    cero_text_append(out, section->json, strlen(section->json));
    cero_text_printf(out, ",\n");
    return CERO_OK;
}

static cero_status append_all(const cero_manifest *m, const cero_manifest_section *sections,
                              int section_count, cero_text *out)
{
    char tail[CERO_MANIFEST_TAIL + 1];

    append_head(m, out);
    append_files(m, out);
    append_tensors(m, out);
    for (int i = 0; i < section_count; i++) {
        CERO_TRY(append_section(&sections[i], out));
    }
    CERO_TRY(cero_text_finish(out));
    cero_text_append(out, cero_manifest_tail(out->data, out->length, tail), CERO_MANIFEST_TAIL);
    CERO_TRY(cero_text_finish(out));
    CERO_CHECK(out->length <= CERO_MANIFEST_MAX_BYTES, CERO_ERR_INVALID,
               "the manifest has %zu bytes, at most %d are read again", out->length,
               CERO_MANIFEST_MAX_BYTES);
    return CERO_OK;
}

cero_status cero_manifest_write(const cero_manifest *manifest,
                                const cero_manifest_section *sections, int section_count,
                                cero_text *out)
{
    cero_status st = CERO_OK;
    cero_text text = {0};
    cero_manifest again;

    CERO_TRY(check_to_write(manifest));
    CERO_TRY_GOTO(append_all(manifest, sections, section_count, &text), fail);
    st = cero_manifest_parse(CERO_MANIFEST_NAME, text.data, text.length, &again);
    if (st == CERO_ERR_CORRUPT || st == CERO_ERR_UNSUPPORTED) {
        st = CERO_FAIL(CERO_ERR_INVALID, "this manifest would not be read again: %s",
                       cero_error_message());
    }
    if (st != CERO_OK) {
        goto fail;
    }
    cero_manifest_cleanup(&again);
    *out = text;
    return CERO_OK;

fail:
    cero_text_cleanup(&text);
    return st;
}
