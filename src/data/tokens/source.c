/* SPDX-License-Identifier: Apache-2.0 */
/* Raw and Megatron token files, mapped and checked against their sizes. */
#include "data/tokens/source.h"

#include "base/memory.h"

#include <string.h>

enum {
    IDX_HEAD = 34,
    IDX_VERSION = 1
};

static const char idx_magic[9] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};

int cero_token_type_width(cero_token_type type)
{
    return 1 << (type / 2);
}

bool cero_token_name_ends(const char *path, const char *suffix)
{
    size_t length = strlen(path);
    size_t n = strlen(suffix);
    return length > n && strcmp(path + length - n, suffix) == 0;
}

bool cero_token_name_is_binary(const char *path)
{
    static const char *const suffix[] = {".bin", ".idx", ".u16", ".u32", ".npy"};
    for (size_t i = 0; i < CERO_COUNT_OF(suffix); i++) {
        if (cero_token_name_ends(path, suffix[i])) {
            return true;
        }
    }
    return false;
}

void cero_token_source_cleanup(cero_token_source *source)
{
    cero_file_map_close(&source->map);
    cero_token_ids_cleanup(&source->memory);
    cero_delete(source->path);
    *source = (cero_token_source){0};
}

cero_status cero_token_source_map(const char *path, cero_token_source *source)
{
    source->path = cero_strdup(path);
    if (source->path == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a path");
    }
    CERO_TRY(cero_file_map_open(path, &source->map));
    if (source->map.length == 0) {
        return CERO_FAIL(CERO_ERR_INVALID, "reading tokens of %s: the file is empty (0 bytes)",
                         path);
    }
    source->data = source->map.data;
    return CERO_OK;
}

cero_status cero_token_source_raw(const char *path, cero_token_type type, cero_token_source *source)
{
    CERO_TRY(cero_token_source_map(path, source));
    size_t width = (size_t)cero_token_type_width(type);
    if (source->map.length % width != 0) {
        return CERO_FAIL(CERO_ERR_CORRUPT,
                         "reading tokens of %s: %zu bytes found, expected a multiple of %zu", path,
                         source->map.length, width);
    }
    source->type = type;
    source->count = (int64_t)(source->map.length / width);
    return CERO_OK;
}

/* What the head of an .idx says. */
typedef struct idx_head {
    cero_token_type type;
    int64_t sequences;
    int64_t documents; /* entries of the document list */
} idx_head;

static int64_t load_i64(const unsigned char *p)
{
    int64_t value;
    memcpy(&value, p, sizeof(value));
    return value;
}

static int32_t load_i32(const unsigned char *p)
{
    int32_t value;
    memcpy(&value, p, sizeof(value));
    return value;
}

static cero_status read_idx_type(const char *path, int code, cero_token_type *type)
{
    // Codes of Megatron; 6 and 7 are floating point.
    static const cero_token_type types[9] = {
        [1] = CERO_TOKEN_U8,  [2] = CERO_TOKEN_I8,  [3] = CERO_TOKEN_I16,
        [4] = CERO_TOKEN_I32, [5] = CERO_TOKEN_I64, [8] = CERO_TOKEN_U16};
    if (code < 1 || code > 8 || code == 6 || code == 7) {
        return CERO_FAIL(CERO_ERR_CORRUPT,
                         "reading %s: type code %d at byte 17, expected 1 (u8), 2 (i8), 3 (i16), "
                         "4 (i32), 5 (i64) or 8 (u16)",
                         path, code);
    }
    *type = types[code];
    return CERO_OK;
}

static cero_status read_idx_head(const char *path, const unsigned char *p, size_t length,
                                 idx_head *head)
{
    if (length < IDX_HEAD) {
        return CERO_FAIL(CERO_ERR_CORRUPT, "reading %s: %zu bytes found, the head alone has %d",
                         path, length, IDX_HEAD);
    }
    if (memcmp(p, idx_magic, sizeof(idx_magic)) != 0) {
        return CERO_FAIL(CERO_ERR_CORRUPT,
                         "reading %s: it does not begin with MMIDIDX, so it is no Megatron index",
                         path);
    }
    if (load_i64(p + 9) != IDX_VERSION) {
        return CERO_FAIL(CERO_ERR_CORRUPT, "reading %s: version %lld at byte 9, expected %d", path,
                         (long long)load_i64(p + 9), IDX_VERSION);
    }
    CERO_TRY(read_idx_type(path, p[17], &head->type));
    head->sequences = load_i64(p + 18);
    head->documents = load_i64(p + 26);
    int64_t room = (int64_t)length - IDX_HEAD;
    bool is_sane = head->sequences >= 0 && head->sequences <= room / 12 && head->documents >= 1 &&
                   head->documents <= room / 8;
    int64_t need = is_sane ? 12 * head->sequences + 8 * head->documents : 0;
    // A list of modes, one byte for each sequence, may follow.
    if (!is_sane || (room != need && room != need + head->sequences)) {
        return CERO_FAIL(
            CERO_ERR_CORRUPT,
            "reading %s: %lld sequences and %lld document entries do not fit a file of "
            "%zu bytes",
            path, (long long)head->sequences, (long long)head->documents, length);
    }
    return CERO_OK;
}

/* Every sequence must begin where the one before ends; *bytes is the size the .bin must have. */
static cero_status check_sequences(const char *path, const unsigned char *data,
                                   const idx_head *head, int64_t *bytes)
{
    const unsigned char *lengths = data + IDX_HEAD;
    const unsigned char *pointers = lengths + 4 * head->sequences;
    int64_t width = cero_token_type_width(head->type);
    int64_t expected = 0;
    for (int64_t i = 0; i < head->sequences; i++) {
        int32_t length = load_i32(lengths + 4 * i);
        int64_t pointer = load_i64(pointers + 8 * i);
        if (length < 0 || pointer != expected) {
            return CERO_FAIL(CERO_ERR_CORRUPT,
                             "reading %s: sequence %lld has %d tokens at byte %lld of the .bin, "
                             "expected 0 or more at byte %lld",
                             path, (long long)i, length, (long long)pointer, (long long)expected);
        }
        expected += width * length; // below 2^31 sequences of 2^34 bytes each would be needed
        if (expected > INT64_MAX / 2) {
            return CERO_FAIL(CERO_ERR_CORRUPT, "reading %s: the sequences are too long", path);
        }
    }
    *bytes = expected;
    return CERO_OK;
}

static cero_status check_documents(const char *path, const unsigned char *data,
                                   const idx_head *head)
{
    const unsigned char *list = data + IDX_HEAD + 12 * head->sequences;
    int64_t last = 0;
    for (int64_t i = 0; i < head->documents; i++) {
        int64_t index = load_i64(list + 8 * i);
        bool is_first = i == 0 && index != 0;
        bool is_last = i + 1 == head->documents && index != head->sequences;
        if (is_first || is_last || index < last || index > head->sequences) {
            return CERO_FAIL(CERO_ERR_CORRUPT,
                             "reading %s: document entry %lld is %lld, expected a rising list from "
                             "0 to %lld",
                             path, (long long)i, (long long)index, (long long)head->sequences);
        }
        last = index;
    }
    return CERO_OK;
}

cero_status cero_token_idx_parse(const char *path, const unsigned char *bytes, size_t length,
                                 cero_token_type *type, int64_t *bin_bytes)
{
    idx_head head = {.type = CERO_TOKEN_U16};
    CERO_TRY(read_idx_head(path, bytes, length, &head));
    CERO_TRY(check_sequences(path, bytes, &head, bin_bytes));
    CERO_TRY(check_documents(path, bytes, &head));
    *type = head.type;
    return CERO_OK;
}

static cero_status read_idx(const char *path, cero_token_type *type, int64_t *bytes)
{
    cero_file_map map = {0};
    CERO_TRY(cero_file_map_open(path, &map));
    cero_status st = cero_token_idx_parse(path, map.data, map.length, type, bytes);
    cero_file_map_close(&map);
    return st;
}

cero_status cero_token_source_megatron(const char *prefix, cero_token_source *source)
{
    cero_status st = CERO_OK;
    cero_text idx = {0};
    cero_text bin = {0};
    int64_t bytes = 0;
    cero_text_printf(&idx, "%s.idx", prefix);
    cero_text_printf(&bin, "%s.bin", prefix);
    CERO_TRY_GOTO(cero_text_finish(&idx), out);
    CERO_TRY_GOTO(cero_text_finish(&bin), out);
    if (cero_file_stat(idx.data, NULL) == CERO_FILE_ABSENT) {
        CERO_FAIL_GOTO(out, CERO_ERR_IO,
                       "reading tokens of %s: %s is not there, which describes it; raw ids are "
                       "read from names ending in .u16 or .u32",
                       bin.data, idx.data);
    }
    CERO_TRY_GOTO(read_idx(idx.data, &source->type, &bytes), out);
    if (bytes == 0) {
        CERO_FAIL_GOTO(out, CERO_ERR_INVALID, "reading tokens of %s: it describes no token",
                       idx.data);
    }
    CERO_TRY_GOTO(cero_token_source_map(bin.data, source), out);
    if (source->map.length != (size_t)bytes) {
        CERO_FAIL_GOTO(out, CERO_ERR_CORRUPT,
                       "reading tokens of %s: %zu bytes found, %lld expected by its .idx", bin.data,
                       source->map.length, (long long)bytes);
    }
    source->count = bytes / cero_token_type_width(source->type);

out:
    cero_text_cleanup(&bin);
    cero_text_cleanup(&idx);
    return st;
}
