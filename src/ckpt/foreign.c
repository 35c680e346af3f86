/* SPDX-License-Identifier: Apache-2.0 */
/* One table of file names, most telling first, each with what it is and the way from there. */
#include "ckpt/foreign.h"

#include "base/file.h"
#include "base/io.h"
#include "base/memory.h"
#include "base/text.h"

#include <string.h>

enum {
    MAGIC_SIZE = 8,
    MAX_TAG = 256 /* bytes of DeepSpeed's file "latest" */
};

#define SAVE_PRETRAINED                                                        \
    "Hugging Face transformers: AutoModelForCausalLM.from_pretrained(\"DIR\")" \
    ".save_pretrained(\"OUT\", safe_serialization=True)"
#define BY_TRANSFORMERS "convert it with " SAVE_PRETRAINED
#define BY_DEEPSPEED                                                                           \
    "convert it with the script zero_to_fp32.py that DeepSpeed left beside the checkpoint "    \
    "(python zero_to_fp32.py CHECKPOINT_DIR DIR), then, with the model's config.json in DIR, " \
    "with " SAVE_PRETRAINED
#define BY_LLAMA                                                                              \
    "convert it with convert_llama_weights_to_hf.py of Hugging Face transformers, which can " \
    "write safetensors"
#define BY_STATE_DICT                                                                        \
    "load it in PyTorch into the transformers model it belongs to, and write that with its " \
    "save_pretrained(\"OUT\", safe_serialization=True)"
#define BY_ORIGIN "take the safetensors that it was made from"

/* How far a name is to be believed. */
typedef enum trust {
    ALWAYS = 0,
    OF_FILES = 1,  /* in a directory only if the first bytes agree */
    NOT_ALONE = 2, /* nowhere without them: token files end like this too */
} trust;

/* What a file whose name matches is. */
typedef struct foreign_kind {
    const char *pattern;
    const char *what;
    const char *way;
    trust trust;
} foreign_kind;

static const foreign_kind kinds[] = {
    {"mp_rank_*_model_states.pt", "a checkpoint of DeepSpeed", BY_DEEPSPEED, ALWAYS},
    {"*zero_pp_rank_*.pt", "a shard of a ZeRO checkpoint of DeepSpeed", BY_DEEPSPEED, ALWAYS},
    {"layer_*model_*states.pt", "a layer of a pipeline checkpoint of DeepSpeed", BY_DEEPSPEED,
     ALWAYS},
    {"zero_to_fp32.py", "what DeepSpeed puts beside its checkpoints", BY_DEEPSPEED, ALWAYS},
    {"consolidated.*.pth", "Llama's weights as Meta publishes them", BY_LLAMA, ALWAYS},
    {"pytorch_model*.bin", "weights that PyTorch pickled", BY_TRANSFORMERS, ALWAYS},
    {"pytorch_model.bin.index.json", "the index of weights that PyTorch pickled", BY_TRANSFORMERS,
     ALWAYS},
    {"*.gguf", "a GGUF file, which is not supported", BY_ORIGIN, ALWAYS},
    {"*.ggml", "a GGML file, which is not supported", BY_ORIGIN, ALWAYS},
    {"tf_model*.h5", "TensorFlow's weights", BY_TRANSFORMERS, ALWAYS},
    {"flax_model*.msgpack", "Flax's weights", BY_TRANSFORMERS, ALWAYS},
    {"*.distcp", "a shard of a checkpoint of torch.distributed", BY_STATE_DICT, ALWAYS},
    {"*.onnx", "an ONNX model, which is not supported", BY_ORIGIN, ALWAYS},
    {"*.pt", "something that PyTorch pickled", BY_STATE_DICT, OF_FILES},
    {"*.pth", "something that PyTorch pickled", BY_STATE_DICT, OF_FILES},
    {"*.ckpt", "something that PyTorch pickled", BY_STATE_DICT, OF_FILES},
    {"*.bin", "something that PyTorch pickled", BY_STATE_DICT, NOT_ALONE},
};

/* What trainers leave beside weights, pickled as well. */
static const char *const companions[] = {"training_args.bin", "optimizer*.*", "scheduler.pt",
                                         "scaler.pt", "rng_state*.pth"};

const char *cero_foreign_magic(const void *bytes, size_t length)
{
    static const struct {
        const char *bytes;
        size_t length;
        const char *what;
    } magics[] = {
        {"PK\x03\x04", 4, "a zip archive, as torch.save writes them"},
        {"\x80\x02", 2, "a Python pickle, as old versions of torch.save wrote them"},
        {"\x80\x03", 2, "a Python pickle"},
        {"\x80\x04", 2, "a Python pickle"},
        {"\x80\x05", 2, "a Python pickle"},
        {"GGUF", 4, "a GGUF file, which is not supported"},
        {"\x89HDF", 4, "an HDF5 file, as TensorFlow's weights are"},
        {"version ", 8, "a pointer of Git LFS; the file itself is fetched by git lfs pull"},
    };
    for (size_t i = 0; i < CERO_COUNT_OF(magics); i++) {
        if (length >= magics[i].length && memcmp(bytes, magics[i].bytes, magics[i].length) == 0) {
            return magics[i].what;
        }
    }
    return NULL;
}

static const char *magic_of_file(const char *path)
{
    char bytes[MAGIC_SIZE];
    int fd = cero_file_stat(path, NULL) == CERO_FILE_REGULAR ? cero_io_open_read(path) : -1;
    ssize_t n = fd < 0 ? -1 : cero_io_pread(fd, bytes, sizeof(bytes), 0);

    if (fd >= 0) {
        (void)cero_io_close(fd);
    }
    return n <= 0 ? NULL : cero_foreign_magic(bytes, (size_t)n);
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

static const foreign_kind *kind_of_name(const char *name)
{
    for (size_t i = 0; i < CERO_COUNT_OF(kinds); i++) {
        if (cero_text_match(kinds[i].pattern, name)) {
            return &kinds[i];
        }
    }
    return NULL;
}

static bool is_companion(const char *name)
{
    for (size_t i = 0; i < CERO_COUNT_OF(companions); i++) {
        if (cero_text_match(companions[i], name)) {
            return true;
        }
    }
    return false;
}

static cero_status fail_foreign(const char *path, const foreign_kind *kind)
{
    return CERO_FAIL(CERO_ERR_UNSUPPORTED, "%s is %s; only safetensors are read here: %s", path,
                     kind->what, kind->way);
}

/* The file of a folder that tells most, NULL if none is foreign. *path is a view into the list. */
static const foreign_kind *find_in_list(const cero_file_list *list, const char **path)
{
    const foreign_kind *found = NULL;

    for (int64_t i = 0; i < list->count; i++) {
        const char *name = last_part(list->path[i]);
        const foreign_kind *kind = kind_of_name(name);
        if (kind == NULL || (found != NULL && found <= kind)) {
            continue;
        }
        if (kind->trust == ALWAYS ||
            (!is_companion(name) && magic_of_file(list->path[i]) != NULL)) {
            found = kind;
            *path = list->path[i];
        }
    }
    return found;
}

static cero_status check_folder(const char *dir)
{
    cero_status st = CERO_OK;
    const char *path = NULL;
    cero_file_list list = {0};

    CERO_TRY(cero_file_list_dir(dir, false, &list));
    bool has_weights = false;
    for (int64_t i = 0; i < list.count; i++) {
        has_weights = has_weights || cero_text_match("*.safetensors", list.path[i]) ||
                      cero_text_match("*.safetensors.index.json", list.path[i]);
    }
    const foreign_kind *kind = has_weights ? NULL : find_in_list(&list, &path);
    if (kind != NULL) {
        st = fail_foreign(path, kind);
    }
    cero_file_list_cleanup(&list);
    return st;
}

/* DeepSpeed's folder of checkpoints: "latest" names the one to look into. */
static cero_status check_tag(const char *dir)
{
    cero_status st = CERO_OK;
    char *latest = cero_file_join(dir, "latest");
    char *tagged = NULL;
    char *tag = NULL;
    size_t n = 0;
    int64_t nbytes = 0;

    CERO_CHECK(latest != NULL, CERO_ERR_NOMEM, "no memory to look at %s", dir);
    if (cero_file_stat(latest, &nbytes) == CERO_FILE_REGULAR && nbytes <= MAX_TAG &&
        cero_file_read(latest, MAX_TAG, &tag, &n) == CERO_OK) {
        tag[strcspn(tag, "\r\n/")] = '\0';
        tagged = tag[0] == '\0' || tag[0] == '.' ? NULL : cero_file_join(dir, tag);
    }
    if (tagged != NULL && cero_file_stat(tagged, NULL) == CERO_FILE_DIRECTORY) {
        st = check_folder(tagged);
    }
    cero_delete(tagged);
    cero_delete(tag);
    cero_delete(latest);
    return st;
}

cero_status cero_foreign_check(const char *path)
{
    cero_file_kind is = cero_file_stat(path, NULL);
    const foreign_kind *kind = kind_of_name(last_part(path));
    const char *magic = is == CERO_FILE_REGULAR ? magic_of_file(path) : NULL;

    if (is == CERO_FILE_DIRECTORY) {
        CERO_TRY(check_folder(path));
        return check_tag(path);
    }
    if (is == CERO_FILE_REGULAR && kind != NULL && (kind->trust != NOT_ALONE || magic != NULL)) {
        return fail_foreign(path, kind);
    }
    if (magic != NULL) {
        return CERO_FAIL(CERO_ERR_UNSUPPORTED, "%s is %s; only safetensors are read here", path,
                         magic);
    }
    return CERO_OK;
}
