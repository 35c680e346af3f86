/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading model.safetensors.index.json.
 *
 * An index is not trusted: it can name files of its own directory only, and no key of it is skipped. Whether the
 * files are there and hold what it says is looked at by shards.c.
 */
#include "ckpt/shards_impl.h"

#include "base/file.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_INDEX = 256 * 1024 * 1024 /* bytes of an index */
};

int cero_shards_place_compare(const void *left, const void *right)
{
    const cero_shards_place *a = left;
    const cero_shards_place *b = right;
    int order = strcmp(a->file, b->file);

    return order != 0 ? order : strcmp(a->name, b->name);
}

/* The name of a file of the directory itself, and of a safetensors file. */
static cero_status check_shard_name(const cero_json *value)
{
    static const char suffix[] = ".safetensors";
    char name[CERO_SAFETENSORS_QUOTE];

    if (value->type != CERO_JSON_STRING) {
        return CERO_FAIL(CERO_ERR_CORRUPT,
                         "%s:%d:%d: the file of tensor %s must be a string, found %s", value->file,
                         value->line, value->column,
                         cero_safetensors_quote(value->key, name, sizeof(name)),
                         cero_json_type_name(value->type));
    }
    const char *text = value->text;
    size_t n = value->text_length;
    (void)cero_safetensors_quote(text, name, sizeof(name));
    if (strlen(text) != n || strchr(text, '/') != NULL || strchr(text, '\\') != NULL ||
        strstr(text, "..") != NULL) {
        return CERO_FAIL(
            CERO_ERR_CORRUPT,
            "%s:%d:%d: %s is refused: a shard is a file of the model's own directory, its "
            "name holds no '/', no '\\' and no '..'",
            value->file, value->line, value->column, name);
    }
    if (n < sizeof(suffix) || strcmp(text + n - (sizeof(suffix) - 1), suffix) != 0) {
        return CERO_FAIL(CERO_ERR_CORRUPT,
                         "%s:%d:%d: %s is no name of a safetensors file, expected NAME%s",
                         value->file, value->line, value->column, name, suffix);
    }
    return CERO_OK;
}

static cero_status read_weight_map(const cero_json *weights, cero_shards_index *map)
{
    map->place = cero_new((size_t)weights->count + 1, sizeof(map->place[0]));
    if (map->place == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for the %lld tensors of %s",
                         (long long)weights->count, map->path);
    }
    for (const cero_json *value = weights->child; value != NULL; value = value->next) {
        CERO_TRY(check_shard_name(value));
        map->place[map->count++] =
            (cero_shards_place){.file = value->text, .name = value->key, .value = value};
    }
    qsort(map->place, (size_t)map->count, sizeof(map->place[0]), cero_shards_place_compare);
    return CERO_OK;
}

/* The document is parsed: its keys and its weight_map. */
static cero_status read_root(cero_shards_index *map)
{
    const cero_json *root = cero_json_root(map->document);
    const cero_json *weights =
        root->type == CERO_JSON_OBJECT ? cero_json_find(root, "weight_map") : NULL;
    if (weights == NULL || weights->type != CERO_JSON_OBJECT || weights->count == 0) {
        return CERO_FAIL(CERO_ERR_CORRUPT,
                         "%s:%d:%d: expected an object with a weight_map of {tensor: file}",
                         root->file, root->line, root->column);
    }
    for (const cero_json *member = root->child; member != NULL; member = member->next) {
        if (member != weights && strcmp(member->key, "metadata") != 0) {
            char name[CERO_SAFETENSORS_QUOTE];
            return CERO_FAIL(CERO_ERR_CORRUPT,
                             "%s:%d:%d: the index has an unknown key %s (known: metadata, "
                             "weight_map)",
                             member->file, member->line, member->column,
                             cero_safetensors_quote(member->key, name, sizeof(name)));
        }
    }
    return read_weight_map(weights, map);
}

cero_status cero_shards_index_parse(const char *path, const char *json, size_t length,
                                    cero_shards_index *out)
{
    out->path = cero_strdup(path);
    if (out->path == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory to read %s", path);
    }
    CERO_TRY(cero_json_parse(path, json, length, NULL, &out->document));
    return read_root(out);
}

cero_status cero_shards_index_read(const char *dir, cero_shards_index *out)
{
    out->path = cero_file_join(dir, CERO_SHARDS_INDEX);
    if (out->path == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory to open the weights of %s", dir);
    }
    CERO_TRY(cero_json_read(out->path, NULL, MAX_INDEX, &out->document));
    return read_root(out);
}

void cero_shards_index_cleanup(cero_shards_index *index)
{
    cero_json_destroy(&index->document);
    cero_delete(index->path);
    cero_delete(index->place);
    *index = (cero_shards_index){0};
}
