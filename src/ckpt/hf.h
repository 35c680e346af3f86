/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Models in and out of Hugging Face's model directories.
 *
 * One closed table per architecture says which tensors a model has. A parameter's name here is the name
 * save_pretrained gives it, and its shape is the stored one: GPT-2's Conv1D weights are [in, out],
 * Llama's linear weights [out, in]. On the way in every tensor of the files is a parameter, known to be
 * ignorable, or an error; on the way out the file holds exactly the parameters, tied ones once.
 * Weights are read and given by range, so that a rank touches only what it keeps.
 */
#ifndef CERO_CKPT_HF_H
#define CERO_CKPT_HF_H

#include "base/status.h"
#include "spec/model.h"

/* What a name of the table is to an importer. */
typedef enum cero_hf_role {
    CERO_HF_PARAM = 0,  /* a parameter: must be there */
    CERO_HF_TIED = 1,   /* may be there, and then equals the parameter it is tied to */
    CERO_HF_IGNORED = 2 /* a buffer that old versions saved: may be there, never read */
} cero_hf_role;

enum {
    CERO_HF_MAX_NAME = 96
};

typedef struct cero_hf_entry {
    char name[CERO_HF_MAX_NAME]; /* our name = Hugging Face's */
    cero_hf_role role;
    cero_shape shape; /* PARAM and TIED */
    int64_t tied_to;  /* TIED: index of the parameter */
    int64_t layer;    /* -1: not in a layer */
} cero_hf_entry;

/* The names of one model: parameters first, in the model's order, then the others. */
typedef struct cero_hf_table {
    cero_hf_entry *entry; /* [count], owned */
    int64_t count;
    int64_t param_count; /* entries with role PARAM */
    int64_t *by_name;    /* [count], owned: indices sorted by name */
    int64_t capacity;
    const char *prefix; /* "transformer.", "model.": what files of a bare model lack */
} cero_hf_table;

/* Makes the table of a model. Not collective. Errors: INVALID (the spec), NOMEM. */
CERO_NODISCARD cero_status cero_hf_table_init(const cero_model_spec *spec, cero_hf_table *out);
void cero_hf_table_cleanup(cero_hf_table *table);

/* By exact name, NULL if there is none. Not collective. */
const cero_hf_entry *cero_hf_table_find(const cero_hf_table *table, const char *name);

typedef struct cero_hf_import cero_hf_import;

/*
 * Opens the weights in `dir` for a model and compares all names and shapes, before any data is read.
 *
 * Names may lack the prefix "transformer." (GPT-2) or "model." (Llama), as files of a bare model do.
 * Ignored tensors are listed in the log. Not collective.
 * Errors: IO; CORRUPT for broken files and for missing, unknown or doubled tensors, by name; SHAPE with
 * both shapes; UNSUPPORTED for weights that are no real numbers.
 */
CERO_NODISCARD cero_status cero_hf_import_open(const char *dir, const cero_model_spec *spec,
                                               cero_hf_import **out);

/*
 * Reads elements begin .. begin + numel of a parameter as f32. One thread at a time. Not collective.
 *
 * A tied tensor that is stored beside its parameter is compared over the same range.
 * Errors: INVALID for an unknown name or range; NUMERIC for values that are not finite, with tensor and
 * count; CORRUPT for a tied tensor that differs; IO.
 */
CERO_NODISCARD cero_status cero_hf_import_read(cero_hf_import *import, const char *name,
                                               int64_t begin, int64_t numel, float *out);

/* Closes the files; NULL is fine. Not collective. */
void cero_hf_import_close(cero_hf_import **import);

/* The table in use, a view. Not collective. */
const cero_hf_table *cero_hf_import_table(const cero_hf_import *import);

/* Bytes of all files read so far, headers included. Not collective. */
int64_t cero_hf_import_bytes_read(const cero_hf_import *import);

/* Gives elements begin .. begin + numel of a parameter. */
typedef cero_status (*cero_hf_source)(void *context, const char *name, int64_t begin, int64_t numel,
                                      float *out);

typedef struct cero_hf_export_params {
    const cero_model_spec *spec;
    cero_dtype dtype;        /* F32, BF16 or F16 */
    int64_t max_shard_bytes; /* data of one file; 0: 5,000,000,000 as save_pretrained */
    const char
        *tokenizer_dir; /* files of the tokenizer, and generation_config.json where it is, are
                                  copied from here; NULL: none */
    const char
        *config_from; /* a config.json whose fields that change no arithmetic are carried over, such
                                  as pad_token_id; NULL: none */
    cero_hf_source source;
    void *context;
} cero_hf_export_params;

typedef struct cero_hf_export_stats {
    int64_t params; /* elements */
    int64_t nbytes; /* of all files written */
    int64_t shards; /* files with weights */
} cero_hf_export_stats;

/*
 * Writes a model directory: config.json, generation_config.json, the weights, the tokenizer's files.
 *
 * Everything is written into a folder inside `dir`, read back and compared, and only then moved to its
 * place; weights of an earlier export that would be mistaken for these are removed. If anything fails,
 * what stood in `dir` stands there still, and nothing else; if the process is killed, `dir` holds the old model
 * or the new one, or importing it is refused until the next export puts the old one back (staging.h). Free space
 * is looked at first. While one export into a directory runs, another is refused. Not collective.
 * Errors: INVALID, IO (full disk: needed and free bytes), NUMERIC for values that are not finite in
 * `dtype` (tensor and count), CORRUPT when what was read back differs, and whatever the source gives.
 */
CERO_NODISCARD cero_status cero_hf_export(const char *dir, const cero_hf_export_params *params,
                                          cero_hf_export_stats *stats);

#endif
