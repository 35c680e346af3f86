/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a manifest: its last line, its version, then every member by its type.
 *
 * The hash is checked before anything is believed, so that damage is told from a mistake of a writer; all checks
 * are made nevertheless, as a hash keeps nobody from writing nonsense under it. What numbers mean together is in
 * manifest_check.c.
 */
#include "ckpt/checkpoint/manifest_impl.h"

#include "base/file.h"
#include "base/memory.h"
#include "ckpt/safetensors.h"

#include <limits.h>
#include <string.h>
#include <sys/stat.h>

static cero_status check_tail(const char *path, const char *bytes, size_t length)
{
    char expected[CERO_MANIFEST_TAIL + 1];
    uint64_t ignored;

    size_t body = length < CERO_MANIFEST_TAIL ? 0 : length - CERO_MANIFEST_TAIL;
    const char *tail = bytes + body;
    (void)cero_manifest_tail(bytes, body, expected);
    const char *digits = tail + 8;
    if (body == 0 || bytes[body - 1] != '\n' || memcmp(tail, expected, 8) != 0 ||
        memcmp(digits + CERO_MANIFEST_HASH_DIGITS, expected + 8 + CERO_MANIFEST_HASH_DIGITS, 3) !=
            0 ||
        !cero_manifest_parse_hash(digits, &ignored)) {
        return CERO_FAIL(CERO_ERR_CORRUPT,
                         "%s: its %zu bytes do not end with the line \"xxh3\":\"<hash>\"} that a "
                         "manifest ends with: it was cut off or changed",
                         path, length);
    }
    if (memcmp(tail, expected, CERO_MANIFEST_TAIL) != 0) {
        return CERO_FAIL(CERO_ERR_CORRUPT,
                         "%s: the %zu bytes before its last line have the hash %.16s, the line "
                         "says %.16s: the file is damaged",
                         path, body, expected + 8, digits);
    }
    return CERO_OK;
}

static cero_status get_id(const cero_json *value, char id[CERO_MANIFEST_ID])
{
    const char *text = NULL;

    CERO_TRY(cero_manifest_get_string(value, NULL, &text));
    if (!cero_manifest_is_id(text)) {
        return cero_manifest_fail(value, NULL, "%s: expected 1 to 32 lower-case hexadecimal digits",
                                  value->key);
    }
    memcpy(id, text, strlen(text) + 1);
    return CERO_OK;
}

static cero_status read_mesh(const cero_json *value, cero_manifest_mesh *mesh)
{
    static const char *const keys[] = {"world_size", "dp", "tp", "pp", "sp", "zero_stage"};
    const cero_json *member[CERO_COUNT_OF(keys)];
    int *const to[] = {&mesh->world_size, &mesh->dp, &mesh->tp,
                       &mesh->pp,         &mesh->sp, &mesh->zero_stage};

    CERO_TRY(cero_manifest_get_members(value, NULL, "mesh", keys, CERO_COUNT_OF(keys), member));
    for (size_t i = 0; i < CERO_COUNT_OF(keys); i++) {
        int64_t number;
        bool is_stage = to[i] == &mesh->zero_stage;
        CERO_TRY(cero_manifest_get_int(member[i], NULL, is_stage ? 0 : 1, is_stage ? 3 : INT_MAX,
                                       &number));
        *to[i] = (int)number;
    }
    return CERO_OK;
}

/* A name in the folder itself: nothing that leads out of it, hides, or is the manifest. */
static bool is_file_name(const char *name)
{
    size_t length = strnlen(name, CERO_MANIFEST_MAX_FILE_NAME);

    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)name[i] <= 0x20 || name[i] == '/' || name[i] == '\\' ||
            name[i] == 0x7F) {
            return false;
        }
    }
    return length > 0 && length < CERO_MANIFEST_MAX_FILE_NAME && name[0] != '.' &&
           strcmp(name, CERO_MANIFEST_NAME) != 0;
}

static cero_status read_file(const cero_json *value, cero_manifest_file *file)
{
    static const char *const keys[] = {"name", "nbytes", "header_nbytes", "header_xxh3"};
    const cero_json *member[CERO_COUNT_OF(keys)];
    char quoted[CERO_SAFETENSORS_QUOTE];

    CERO_TRY(cero_manifest_get_members(value, NULL, "a file", keys, CERO_COUNT_OF(keys), member));
    CERO_TRY(cero_manifest_get_string(member[0], NULL, &file->name));
    if (!is_file_name(file->name)) {
        return cero_manifest_fail(
            member[0], NULL,
            "%s is no name that a file of a checkpoint may have (in the folder itself, not hidden, "
            "no longer than %d characters)",
            cero_safetensors_quote(file->name, quoted, sizeof(quoted)),
            CERO_MANIFEST_MAX_FILE_NAME - 1);
    }
    CERO_TRY(cero_manifest_get_int(member[1], NULL, 8, INT64_MAX, &file->nbytes));
    CERO_TRY(cero_manifest_get_int(member[2], NULL, 8, 8 + (int64_t)CERO_SAFETENSORS_MAX_HEADER,
                                   &file->header_nbytes));
    if (file->header_nbytes > file->nbytes) {
        return cero_manifest_fail(value, NULL, "%s has a header of %lld bytes in a file of %lld",
                                  file->name, (long long)file->header_nbytes,
                                  (long long)file->nbytes);
    }
    return cero_manifest_get_hash(member[3], NULL, &file->header_hash);
}

static cero_status new_array(const cero_json *value, size_t size, void **out)
{
    *out = cero_new((size_t)value->count + 1, size);
    return *out != NULL ? CERO_OK
                        : CERO_FAIL(CERO_ERR_NOMEM, "no memory for the %lld entries of %s in %s",
                                    (long long)value->count, value->key, value->file);
}

static cero_status read_files(const cero_json *value, cero_manifest *m)
{
    void *array = NULL;

    CERO_TRY(cero_manifest_get_array(value, NULL));
    CERO_TRY(new_array(value, sizeof(m->files[0]), &array));
    m->files = array;
    for (const cero_json *f = value->child; f != NULL; f = f->next) {
        CERO_TRY(read_file(f, &m->files[m->file_count++]));
    }
    return CERO_OK;
}

static cero_status read_shape(const cero_json *value, cero_manifest_tensor *t)
{
    int64_t nbytes;

    CERO_TRY(cero_manifest_get_array(value, t->name));
    if (value->count > CERO_MAX_NDIM) {
        return cero_manifest_fail(value, t->name, "a shape of %lld dimensions, at most %d are read",
                                  (long long)value->count, CERO_MAX_NDIM);
    }
    t->numel = 1;
    for (const cero_json *d = value->child; d != NULL; d = d->next) {
        int64_t dim;
        CERO_TRY(cero_manifest_get_int(d, t->name, 0, INT64_MAX, &dim));
        t->shape.dim[t->shape.ndim++] = dim;
        if (!cero_mul_i64(t->numel, dim, &t->numel)) {
            return cero_manifest_fail(value, t->name, "a shape whose product is beyond 2^63 - 1");
        }
    }
    if (!cero_mul_i64(t->numel, (int64_t)cero_dtype_size(t->dtype), &nbytes)) {
        return cero_manifest_fail(value, t->name, "a shape with more than 2^63 - 1 bytes");
    }
    return CERO_OK;
}

static cero_status read_dtype(const cero_json *value, cero_manifest_tensor *t)
{
    const char *name = NULL;

    CERO_TRY(cero_manifest_get_string(value, t->name, &name));
    if (strcmp(name, cero_dtype_name(CERO_DTYPE_F32)) != 0) {
        return cero_manifest_fail(value, t->name, "the dtype \"%.20s\", expected \"%s\"", name,
                                  cero_dtype_name(CERO_DTYPE_F32));
    }
    t->dtype = CERO_DTYPE_F32;
    return CERO_OK;
}

static cero_status read_hashes(const cero_json *value, const cero_manifest *m,
                               const cero_manifest_tensor *t, cero_manifest_range *r)
{
    void *array = NULL;
    int64_t count = 0;
    int64_t expected = cero_manifest_block_count(m, t, r);

    CERO_TRY(cero_manifest_get_array(value, t->name));
    if (value->count != expected) {
        return cero_manifest_fail(
            value, t->name,
            "%lld hashes for elements %lld to %lld, expected %lld: one for each %lld bytes",
            (long long)value->count, (long long)r->begin, (long long)r->end, (long long)expected,
            (long long)m->block_nbytes);
    }
    CERO_TRY(new_array(value, sizeof(r->hashes[0]), &array));
    r->hashes = array;
    for (const cero_json *h = value->child; h != NULL; h = h->next) {
        CERO_TRY(cero_manifest_get_hash(h, t->name, &r->hashes[count++]));
    }
    return CERO_OK;
}

static cero_status read_range(const cero_json *value, const cero_manifest *m,
                              const cero_manifest_tensor *t, cero_manifest_range *r)
{
    static const char *const keys[] = {"file", "offset", "begin", "end", "xxh3"};
    const cero_json *member[CERO_COUNT_OF(keys)];

    CERO_TRY(
        cero_manifest_get_members(value, t->name, "a range", keys, CERO_COUNT_OF(keys), member));
    CERO_TRY(cero_manifest_get_int(member[0], t->name, 0, INT64_MAX, &r->file));
    CERO_TRY(cero_manifest_get_int(member[1], t->name, 0, INT64_MAX, &r->offset));
    CERO_TRY(cero_manifest_get_int(member[2], t->name, 0, t->numel, &r->begin));
    CERO_TRY(cero_manifest_get_int(member[3], t->name, 0, t->numel, &r->end));
    if (r->file >= m->file_count) {
        return cero_manifest_fail(member[0], t->name, "file %lld of %lld", (long long)r->file,
                                  (long long)m->file_count);
    }
    if (r->begin >= r->end) {
        return cero_manifest_fail(value, t->name, "a range from element %lld to %lld is empty",
                                  (long long)r->begin, (long long)r->end);
    }
    return read_hashes(member[4], m, t, r);
}

static cero_status read_tensor(const cero_json *value, const cero_manifest *m,
                               cero_manifest_tensor *t)
{
    static const char *const keys[] = {"name", "dtype", "shape", "ranges"};
    const cero_json *member[CERO_COUNT_OF(keys)];
    void *array = NULL;

    CERO_TRY(cero_manifest_get_members(value, NULL, "a tensor", keys, CERO_COUNT_OF(keys), member));
    CERO_TRY(cero_manifest_get_string(member[0], NULL, &t->name));
    if (t->name[0] == '\0') {
        return cero_manifest_fail(member[0], NULL, "a tensor without a name");
    }
    CERO_TRY(read_dtype(member[1], t));
    CERO_TRY(read_shape(member[2], t));
    CERO_TRY(cero_manifest_get_array(member[3], t->name));
    CERO_TRY(new_array(member[3], sizeof(t->ranges[0]), &array));
    t->ranges = array;
    for (const cero_json *r = member[3]->child; r != NULL; r = r->next) {
        CERO_TRY(read_range(r, m, t, &t->ranges[t->range_count++]));
    }
    return CERO_OK;
}

static cero_status read_tensors(const cero_json *value, cero_manifest *m)
{
    void *array = NULL;

    CERO_TRY(cero_manifest_get_array(value, NULL));
    CERO_TRY(new_array(value, sizeof(m->tensors[0]), &array));
    m->tensors = array;
    for (const cero_json *t = value->child; t != NULL; t = t->next) {
        CERO_TRY(read_tensor(t, m, &m->tensors[m->tensor_count++]));
    }
    return CERO_OK;
}

/* Before anything else: members of a newer version may be of another kind. */
static cero_status check_version(const char *path, const cero_json *root)
{
    const cero_json *format = cero_json_find(root, "format");
    const cero_json *version = cero_json_find(root, "version");
    int64_t number;

    if (format == NULL || format->type != CERO_JSON_STRING ||
        strcmp(format->text, CERO_MANIFEST_FORMAT) != 0) {
        return cero_manifest_fail(root, NULL,
                                  "expected an object with \"format\": \"%s\"; this is no manifest",
                                  CERO_MANIFEST_FORMAT);
    }
    if (version == NULL) {
        return cero_manifest_fail(root, NULL, "the member \"version\" is missing");
    }
    CERO_TRY(cero_manifest_get_int(version, NULL, 1, INT64_MAX, &number));
    if (number > CERO_MANIFEST_VERSION) {
        return CERO_FAIL(CERO_ERR_UNSUPPORTED,
                         "%s is of version %lld of the format, this build reads up to version %d: "
                         "read it with a newer build",
                         path, (long long)number, CERO_MANIFEST_VERSION);
    }
    return CERO_OK;
}

/* What is no member of the manifest is a section: an object. */
static cero_status check_sections(const cero_json *root)
{
    for (const cero_json *m = root->child; m != NULL; m = m->next) {
        if (!cero_manifest_is_member(m->key) && m->type != CERO_JSON_OBJECT) {
            return cero_manifest_fail(
                m, NULL, "unknown member \"%.60s\"; a section would be an object", m->key);
        }
    }
    return CERO_OK;
}

static cero_status need_member(const cero_json *root, const char *key, const cero_json **out)
{
    *out = cero_json_find(root, key);
    return *out != NULL ? CERO_OK
                        : cero_manifest_fail(root, NULL, "the member \"%s\" is missing", key);
}

static cero_status read_members(const cero_json *root, cero_manifest *m)
{
    const cero_json *value;

    CERO_TRY(check_sections(root));
    CERO_TRY(need_member(root, "id", &value));
    CERO_TRY(get_id(value, m->id));
    CERO_TRY(need_member(root, "run", &value));
    CERO_TRY(get_id(value, m->run));
    CERO_TRY(need_member(root, "step", &value));
    CERO_TRY(cero_manifest_get_int(value, NULL, 0, INT64_MAX, &m->step));
    CERO_TRY(need_member(root, "block_nbytes", &value));
    CERO_TRY(cero_manifest_get_int(value, NULL, 4, CERO_MANIFEST_MAX_BLOCK, &m->block_nbytes));
    if (m->block_nbytes % 4 != 0) {
        return cero_manifest_fail(value, NULL, "block_nbytes: expected a multiple of 4, found %lld",
                                  (long long)m->block_nbytes);
    }
    CERO_TRY(need_member(root, "mesh", &value));
    CERO_TRY(read_mesh(value, &m->mesh));
    CERO_TRY(need_member(root, "files", &value));
    CERO_TRY(read_files(value, m));
    CERO_TRY(need_member(root, "tensors", &value));
    return read_tensors(value, m);
}

cero_status cero_manifest_parse(const char *path, const char *bytes, size_t length,
                                cero_manifest *out)
{
    cero_status st = CERO_OK;
    cero_manifest m = {0};

    CERO_TRY(check_tail(path, bytes, length));
    CERO_TRY_GOTO(cero_json_parse(path, bytes, length, NULL, &m.document), fail);
    m.root = cero_json_root(m.document);
    CERO_TRY_GOTO(check_version(path, m.root), fail);
    CERO_TRY_GOTO(read_members(m.root, &m), fail);
    CERO_TRY_GOTO(cero_manifest_check(&m), fail);
    int64_t doubled;
    CERO_TRY_GOTO(cero_manifest_index(&m, &doubled), fail);
    if (doubled >= 0) {
        st = cero_manifest_fail(m.root, m.tensors[doubled].name, "it is listed twice");
        goto fail;
    }
    *out = m;
    return CERO_OK;

fail:
    cero_manifest_cleanup(&m);
    return st;
}

cero_status cero_manifest_read(const char *dir, cero_manifest *out)
{
    cero_status st = CERO_OK;
    struct stat info;
    char *bytes = NULL;
    size_t length;
    char *path = cero_file_join(dir, CERO_MANIFEST_NAME);

    if (path == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory to read the manifest of %s", dir);
    }
    // A link leads out of the folder, and a pipe would be waited for.
    if (lstat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
        CERO_FAIL_GOTO(out, CERO_ERR_CORRUPT,
                       "%s is a %s; the files of a checkpoint lie in its folder", path,
                       S_ISLNK(info.st_mode)   ? "symbolic link"
                       : S_ISDIR(info.st_mode) ? "directory"
                                               : "special file");
    }
    CERO_TRY_GOTO(cero_file_read(path, CERO_MANIFEST_MAX_BYTES, &bytes, &length), out);
    CERO_TRY_GOTO(cero_manifest_parse(path, bytes, length, out), out);

out:
    cero_delete(bytes);
    cero_delete(path);
    return st;
}
