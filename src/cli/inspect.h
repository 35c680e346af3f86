/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of file that `cero inspect` knows; each has one function that appends its report. */
#ifndef CERO_CLI_INSPECT_H
#define CERO_CLI_INSPECT_H

#include "cli/cli.h"

typedef struct cero_inspect_values {
    bool json;
    const char *svg; /* where to draw a curve; NULL: nowhere */
    const char *key; /* which number of a metrics.jsonl */
    cero_words files;
} cero_inspect_values;

typedef cero_status (*cero_inspect_function)(cero_cli *cli, const cero_inspect_values *values,
                                             const char *path, cero_text *out);

/* A metrics.jsonl: first, last and least value, and the curve. */
CERO_NODISCARD cero_status cero_inspect_metrics(cero_cli *cli, const cero_inspect_values *values,
                                                const char *path, cero_text *out);

/* A safetensors file: metadata and every tensor. */
CERO_NODISCARD cero_status cero_inspect_safetensors(cero_cli *cli,
                                                    const cero_inspect_values *values,
                                                    const char *path, cero_text *out);

/* A tokenizer.json, or a directory with one: vocabulary and special tokens. */
CERO_NODISCARD cero_status cero_inspect_tokenizer(cero_cli *cli, const cero_inspect_values *values,
                                                  const char *path, cero_text *out);

/* A model description: a config.json, a directory with one, or a built-in name. */
CERO_NODISCARD cero_status cero_inspect_model(cero_cli *cli, const cero_inspect_values *values,
                                              const char *path, cero_text *out);

/* The weights of a model directory: how many tensors, elements and bytes, in which files. */
CERO_NODISCARD cero_status cero_inspect_weights(cero_cli *cli, const cero_inspect_values *values,
                                                const char *path, cero_text *out);

/* A token file (.bin, .idx, .u16, .u32, .npy): how many, the largest id, the first ones. */
CERO_NODISCARD cero_status cero_inspect_tokens(cero_cli *cli, const cero_inspect_values *values,
                                               const char *path, cero_text *out);

/* A checkpoint's directory: what its manifest says. */
CERO_NODISCARD cero_status cero_inspect_checkpoint(cero_cli *cli, const cero_inspect_values *values,
                                                   const char *path, cero_text *out);

/* A directory with checkpoints in it or in its checkpoints/: the table of them. */
CERO_NODISCARD cero_status cero_inspect_checkpoints(cero_cli *cli,
                                                    const cero_inspect_values *values,
                                                    const char *path, cero_text *out);

/* A ds_config.json: the effective config. */
CERO_NODISCARD cero_status cero_inspect_config(cero_cli *cli, const cero_inspect_values *values,
                                               const char *path, cero_text *out);

#endif
