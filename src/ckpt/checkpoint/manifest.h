/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a checkpoint holds and where: the file manifest.json of a checkpoint's folder, as a struct.
 *
 * A checkpoint is a set of named tensors, each the union of ranges that lie in safetensors files, one file for each
 * rank that wrote it. Padding is not stored, and nothing says how a reader has to cut: any layout reads any other.
 * Every byte of the folder is under a hash (XXH3, 64 bits): file headers and blocks of tensor data by the
 * manifest, the manifest by its own last line. docs/checkpoints.md has the format. Nothing here is collective.
 */
#ifndef CERO_CKPT_CHECKPOINT_MANIFEST_H
#define CERO_CKPT_CHECKPOINT_MANIFEST_H

#include "base/json.h"
#include "base/status.h"
#include "base/text.h"

#define CERO_MANIFEST_NAME   "manifest.json"
#define CERO_MANIFEST_FORMAT "cero checkpoint"

enum {
    CERO_MANIFEST_VERSION = 1,
    CERO_MANIFEST_ID = 33,             /* room for 32 hexadecimal digits and the end */
    CERO_MANIFEST_BLOCK = 1 << 20,     /* bytes under one hash */
    CERO_MANIFEST_MAX_BYTES = 1 << 30, /* of the file; a hundred billion parameters take 30 MB */
    CERO_MANIFEST_MAX_FILE_NAME = 32   /* "rank-00000.safetensors" with its end */
};

/* One rank's file. */
typedef struct cero_manifest_file {
    /* In the folder itself. Owned by the manifest, like all pointers here; cleanup frees names that are no views into
     * `document`. */
    const char *name;
    int64_t nbytes;
    int64_t header_nbytes; /* bytes before the data: 8 and the JSON */
    uint64_t header_hash;  /* of these bytes */
} cero_manifest_file;

/* Elements begin .. end of a tensor in C order; hashes of blocks that are counted from the range's first byte. */
typedef struct cero_manifest_range {
    int64_t file;   /* index */
    int64_t offset; /* bytes from the start of the file */
    int64_t begin;
    int64_t end;
    uint64_t *hashes; /* [cero_manifest_block_count] */
} cero_manifest_range;

/* One tensor; its ranges, by begin, cover it without hole or overlap. */
typedef struct cero_manifest_tensor {
    const char *name; /* of a parameter, or "optim.<moment>.<parameter>" */
    cero_dtype dtype; /* F32 so far */
    cero_shape shape;
    int64_t numel;
    cero_manifest_range *ranges;
    int64_t range_count;
} cero_manifest_tensor;

/* How the writer was cut. For people and for `cero ckpt show`: readers do not need it. */
typedef struct cero_manifest_mesh {
    int world_size;
    int dp;
    int tp;
    int pp;
    int sp;
    int zero_stage;
} cero_manifest_mesh;

/* What is neither tensor nor file, each an object by its name: "engine", "train", "config", "model". */
typedef struct cero_manifest_section {
    const char *name;
    const char *json; /* to be written: the object's text */
} cero_manifest_section;

typedef struct cero_manifest {
    char id[CERO_MANIFEST_ID];  /* of this checkpoint: random, also in the metadata of its files */
    char run[CERO_MANIFEST_ID]; /* of the run that wrote it: random, kept over resumes */
    int64_t step;
    int64_t block_nbytes;
    cero_manifest_mesh mesh;
    cero_manifest_file *files; /* [file_count] */
    int64_t file_count;
    cero_manifest_tensor *tensors; /* [tensor_count] */
    int64_t tensor_count;
    const cero_json *root; /* the whole object; read manifests only */
    cero_json_document *document;
    int64_t *by_name; /* indices of tensors sorted by name */
} cero_manifest;

/* Blocks of a range. */
int64_t cero_manifest_block_count(const cero_manifest *manifest, const cero_manifest_tensor *tensor,
                                  const cero_manifest_range *range);

/* By name, -1 if there is none. */
int64_t cero_manifest_find(const cero_manifest *manifest, const char *name);

/* A section of a manifest that was read; NULL if absent. */
const cero_json *cero_manifest_section_find(const cero_manifest *manifest, const char *name);

/*
 * The text of manifest.json, which is read back before it is handed out.
 * Errors: NOMEM; INVALID (a section is no JSON object, or what is written would not be read again).
 */
CERO_NODISCARD cero_status cero_manifest_write(const cero_manifest *manifest,
                                               const cero_manifest_section *sections,
                                               int section_count, cero_text *out);

/*
 * Reads and checks `length` bytes: hash, version, types, names of files that lie in the folder itself, ranges that
 * cover their tensor and lie in their file without touching another. `path` names it in messages. `out` is to be
 * cleaned up on success. Members of later versions are refused; sections may hold what they like.
 * Errors: CORRUPT with file, line and tensor; UNSUPPORTED for a newer version; NOMEM.
 */
CERO_NODISCARD cero_status cero_manifest_parse(const char *path, const char *bytes, size_t length,
                                               cero_manifest *out);

/* The same of DIR/manifest.json. Errors: also IO. */
CERO_NODISCARD cero_status cero_manifest_read(const char *dir, cero_manifest *out);
void cero_manifest_cleanup(cero_manifest *manifest);

/* 32 random hexadecimal digits: of the time, the process and the kernel's random numbers. */
void cero_manifest_make_id(char id[CERO_MANIFEST_ID]);

#endif
