/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model.safetensors.index.json: any bytes are refused with one line that names the index, or they are a map whose
 * files are names of the directory itself and sorted. A directory with exactly these files, each with exactly its
 * tensors, then opens and lists every tensor once; without one of the files it does not.
 */
#include "fuzz.h"

#include "ckpt/shards_impl.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MAX_TENSORS = 8, /* of an index whose files are made */
    MAX_NAME = 200   /* bytes of a file's name */
};

static void check_index(const cero_shards_index *index)
{
    fuzz_expect(index->count > 0, "%lld tensors", (long long)index->count);
    for (int64_t i = 0; i < index->count; i++) {
        const char *file = index->place[i].file;
        size_t n = strlen(file);
        fuzz_expect(strpbrk(file, "/\\") == NULL && strstr(file, "..") == NULL && n > 12 &&
                        strcmp(file + n - 12, ".safetensors") == 0,
                    "file \"%s\"", file);
        fuzz_expect(i == 0 || cero_shards_place_compare(&index->place[i - 1], &index->place[i]) < 0,
                    "place %lld", (long long)i);
    }
}

static cero_status give_zero(void *context, int64_t index, int64_t begin, int64_t numel, void *out)
{
    CERO_UNUSED(context);
    CERO_UNUSED(index);
    CERO_UNUSED(begin);
    memset(out, 0, (size_t)numel);
    return CERO_OK;
}

/* Writes the files of the index; false when their names are nothing a file system takes. */
static bool make_files(const cero_shards_index *index)
{
    cero_safetensors_decl decls[MAX_TENSORS];
    int64_t n = 0;

    for (int64_t i = 0; i < index->count; i++) {
        const cero_shards_place *place = &index->place[i];
        // The two names that mean something else, and a tensor that no file can hold.
        if (strlen(place->file) > MAX_NAME || strcmp(place->file, CERO_SHARDS_SINGLE) == 0 ||
            strcmp(place->name, "__metadata__") == 0) {
            return false;
        }
        decls[n++] = (cero_safetensors_decl){
            .name = place->name, .dtype = CERO_SAFETENSORS_U8, .shape = {.ndim = 1, .dim = {1}}};
        if (i + 1 == index->count || strcmp(place->file, place[1].file) != 0) {
            cero_safetensors_write_params params = {
                .tensors = decls, .count = n, .source = give_zero, .is_raw = true};
            fuzz_expect(cero_safetensors_write(fuzz_path(1, place->file), &params) == CERO_OK, "%s",
                        cero_error_message());
            n = 0;
        }
    }
    return true;
}

static void check_directory(const cero_shards_index *index, const uint8_t *data, size_t size)
{
    const char *dir = fuzz_path(0, "");
    cero_shards *shards = NULL;

    fuzz_clear();
    if (!make_files(index)) {
        return;
    }
    fuzz_write(fuzz_path(1, CERO_SHARDS_INDEX), data, size);
    fuzz_expect(cero_shards_open(dir, &shards) == CERO_OK, "%s", cero_error_message());
    fuzz_expect(cero_shards_count(shards) == index->count, "%lld tensors",
                (long long)cero_shards_count(shards));
    for (int64_t i = 0; i < index->count; i++) {
        fuzz_expect(cero_shards_find(shards, index->place[i].name) != NULL, "tensor %s",
                    index->place[i].name);
    }
    cero_shards_close(&shards);

    const char *lost = fuzz_path(1, index->place[index->count - 1].file);
    fuzz_expect(unlink(lost) == 0, "%s", lost);
    fuzz_expect(!fuzz_is_ok(cero_shards_open(dir, &shards), dir), "opened without %s", lost);
    fuzz_clear();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cero_shards_index index = {0};

    fuzz_accepted =
        fuzz_is_ok(cero_shards_index_parse(CERO_SHARDS_INDEX, (const char *)data, size, &index),
                   CERO_SHARDS_INDEX);
    if (fuzz_accepted) {
        check_index(&index);
        if (index.count <= MAX_TENSORS) {
            check_directory(&index, data, size);
        }
    }
    cero_shards_index_cleanup(&index);
    return 0;
}
