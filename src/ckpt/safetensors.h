/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safetensors files: named tensors in one file, read by range and written as a stream.
 *
 * The reader is as strict as the reference implementation (no hole, no overlap, no byte too many), checks
 * everything in the header before it gives a handle, and never holds more of the data than one bounded
 * buffer. Files larger than memory are ordinary. Which tensors make a model is in hf.h, several files as
 * one in shards.h. Nothing here is collective.
 */
#ifndef CERO_CKPT_SAFETENSORS_H
#define CERO_CKPT_SAFETENSORS_H

#include "base/status.h"
#include "base/text.h"

/* Every dtype of the format, in the reference's order, by which tensors are sorted in a file. */
typedef enum cero_safetensors_dtype {
    CERO_SAFETENSORS_BOOL = 0,
    CERO_SAFETENSORS_F4 = 1,
    CERO_SAFETENSORS_F6_E2M3 = 2,
    CERO_SAFETENSORS_F6_E3M2 = 3,
    CERO_SAFETENSORS_U8 = 4,
    CERO_SAFETENSORS_I8 = 5,
    CERO_SAFETENSORS_F8_E5M2 = 6,
    CERO_SAFETENSORS_F8_E4M3 = 7,
    CERO_SAFETENSORS_F8_E8M0 = 8,
    CERO_SAFETENSORS_F8_E4M3FNUZ = 9,
    CERO_SAFETENSORS_F8_E5M2FNUZ = 10,
    CERO_SAFETENSORS_I16 = 11,
    CERO_SAFETENSORS_U16 = 12,
    CERO_SAFETENSORS_F16 = 13,
    CERO_SAFETENSORS_BF16 = 14,
    CERO_SAFETENSORS_I32 = 15,
    CERO_SAFETENSORS_U32 = 16,
    CERO_SAFETENSORS_F32 = 17,
    CERO_SAFETENSORS_C64 = 18,
    CERO_SAFETENSORS_F64 = 19,
    CERO_SAFETENSORS_I64 = 20,
    CERO_SAFETENSORS_U64 = 21,
    CERO_SAFETENSORS_COUNT
} cero_safetensors_dtype;

/* Limits of the format and of the buffers here. */
enum {
    CERO_SAFETENSORS_MAX_HEADER = 100000000, /* bytes of JSON */
    CERO_SAFETENSORS_STAGING = 256 * 1024,   /* bytes of the reader's buffer */
    CERO_SAFETENSORS_QUOTE = 128             /* room for a name in a message */
};

/* The format's name of a dtype, "BF16", and the bits of one element. */
const char *cero_safetensors_dtype_name(cero_safetensors_dtype dtype);
int cero_safetensors_dtype_bits(cero_safetensors_dtype dtype);

/* The dtype a file uses for one of ours. */
cero_safetensors_dtype cero_safetensors_dtype_of(cero_dtype dtype);

/* True for F32, BF16, F16 and F64: what cero_safetensors_read_f32 turns into f32. */
bool cero_safetensors_dtype_is_real(cero_safetensors_dtype dtype);

/* One tensor of a file. All is a view into the file's handle. */
typedef struct cero_safetensors_tensor {
    const char *name;
    cero_safetensors_dtype dtype;
    int ndim;
    const int64_t *dim; /* [ndim], outermost first */
    int64_t numel;
    int64_t begin; /* bytes from the start of the data section */
    int64_t end;
} cero_safetensors_tensor;

typedef struct cero_safetensors cero_safetensors;

/*
 * Opens a file and checks its whole header. Not collective.
 *
 * Errors: IO; CORRUPT with the path and, where one is meant, the tensor, found and expected; NOMEM.
 */
CERO_NODISCARD cero_status cero_safetensors_open(const char *path, cero_safetensors **out);
void cero_safetensors_close(cero_safetensors **file);

/* Tensors in the order of their data; i in [0, count). Not collective. */
int64_t cero_safetensors_count(const cero_safetensors *file);
const cero_safetensors_tensor *cero_safetensors_get(const cero_safetensors *file, int64_t i);

/* By name, NULL if there is none. Not collective. */
const cero_safetensors_tensor *cero_safetensors_find(const cero_safetensors *file,
                                                     const char *name);

/* Entries of "__metadata__" in file order: false when i is past the end. Views. Not collective. */
bool cero_safetensors_metadata(const cero_safetensors *file, int64_t i, const char **key,
                               const char **value);

/* True while the path it was opened by leads to the file that is open. Not collective. */
bool cero_safetensors_is_in_place(const cero_safetensors *file);

/* The path it was opened by, bytes before the data, and bytes read through the handle so far. */
const char *cero_safetensors_path(const cero_safetensors *file);
int64_t cero_safetensors_data_offset(const cero_safetensors *file);
int64_t cero_safetensors_bytes_read(const cero_safetensors *file);

/*
 * Reads elements begin .. begin + numel of a tensor as f32. One thread per handle. Not collective.
 *
 * Errors: INVALID for a range outside, UNSUPPORTED for a dtype that is no real number, IO.
 */
CERO_NODISCARD cero_status cero_safetensors_read_f32(cero_safetensors *file,
                                                     const cero_safetensors_tensor *tensor,
                                                     int64_t begin, int64_t numel, float *out);

/* Reads bytes of a tensor as they are stored; `begin` counts from the tensor's first. Not collective. */
CERO_NODISCARD cero_status cero_safetensors_read_raw(cero_safetensors *file,
                                                     const cero_safetensors_tensor *tensor,
                                                     int64_t begin, int64_t nbytes, void *out);

/* XXH3 (64 bits) of a tensor's bytes as stored, read through the bounded buffer. Not collective. */
CERO_NODISCARD cero_status cero_safetensors_hash(cero_safetensors *file,
                                                 const cero_safetensors_tensor *tensor,
                                                 uint64_t *hash);

bool cero_safetensors_shape_equal(const cero_safetensors_tensor *tensor, const cero_shape *shape);

/* Writes "[2, 3]" into `text` (always terminated, cut when long) and returns it. */
const char *cero_safetensors_shape_format(const cero_safetensors_tensor *tensor, char *text,
                                          size_t size);

/* A name from a file for a message: quoted, cut to size, control characters as '?'. Returns text. */
const char *cero_safetensors_quote(const char *name, char *text, size_t size);

/* One tensor to be written. */
typedef struct cero_safetensors_decl {
    const char *name; /* borrowed */
    cero_safetensors_dtype dtype;
    cero_shape shape;
} cero_safetensors_decl;

/*
 * Gives elements begin .. begin + numel of tensor `index` (its place in params->tensors): as f32, or as
 * they are to be stored when params->is_raw. Called in file order, each element once.
 */
typedef cero_status (*cero_safetensors_source)(void *context, int64_t index, int64_t begin,
                                               int64_t numel, void *out);

typedef struct cero_safetensors_write_params {
    const cero_safetensors_decl *tensors; /* [count], in any order */
    int64_t count;
    const char *const *metadata; /* [2 * metadata_count]: key, value, key, value; or NULL */
    int metadata_count;
    cero_safetensors_source source;
    void *context;
    bool is_raw;
    uint64_t *hashes; /* [count] or NULL: XXH3 of each tensor's bytes, in the order of tensors */
} cero_safetensors_write_params;

/*
 * Writes a file that appears whole or not at all; what stood at `path` stays until then.
 *
 * Tensors are placed as the reference does: by dtype, widest first, then by name; the header is padded
 * with spaces to a multiple of 8. Without is_raw the dtype is F32, BF16 or F16, and values are rounded
 * to nearest even. Not collective.
 * Errors: INVALID for names that cannot stand in a file, UNSUPPORTED for a dtype, IO, NOMEM, and whatever
 * the source gives.
 */
CERO_NODISCARD cero_status cero_safetensors_write(const char *path,
                                                  const cero_safetensors_write_params *params);

/* The exact length of the file that cero_safetensors_write would make. Not collective. */
CERO_NODISCARD cero_status cero_safetensors_file_bytes(const cero_safetensors_write_params *params,
                                                       int64_t *nbytes);

#endif
