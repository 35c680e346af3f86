/* SPDX-License-Identifier: Apache-2.0 */
/* One export on its way, for the files behind cero_hf_export. */
#ifndef CERO_CKPT_HF_EXPORT_IMPL_H
#define CERO_CKPT_HF_EXPORT_IMPL_H

#include "ckpt/hf.h"
#include "ckpt/safetensors.h"
#include "ckpt/staging.h"

enum {
    CERO_HF_EXPORT_NAME = 64 /* room for the name of a file */
};

typedef struct cero_hf_exporter {
    const cero_hf_export_params *params;
    const char *dir;
    cero_staging *staging;
    cero_hf_table table;
    cero_safetensors_decl *decl; /* [param_count], owned, in the table's order */
    uint64_t *hashes;            /* [param_count], owned */
    int64_t *nbytes;             /* [param_count], owned: data of each tensor */
    int64_t *shard_of;           /* [param_count], owned */
    int64_t shard_count;
    int64_t total_numel;
    int64_t total_data;
    int64_t file_bytes; /* of everything, known before writing but for the small files */
    int64_t bad;        /* values of the tensor at hand that are not finite in its dtype */
    int64_t first_bad;
    int64_t first;              /* index of the first tensor of the shard at hand */
    bool has_generation_config; /* copied with the tokenizer */
} cero_hf_exporter;

/* Adds the bytes of the files that will be copied to file_bytes. Errors: IO without any of a tokenizer, NOMEM. */
CERO_NODISCARD cero_status cero_hf_export_measure_text(cero_hf_exporter *e);

/* Each makes a file, or those it is named after, in the staging folder. Errors: IO, NOMEM, INVALID (the spec). */
CERO_NODISCARD cero_status cero_hf_export_stage_tokenizer(cero_hf_exporter *e);
CERO_NODISCARD cero_status cero_hf_export_stage_index(cero_hf_exporter *e);
CERO_NODISCARD cero_status cero_hf_export_stage_generation_config(cero_hf_exporter *e);
CERO_NODISCARD cero_status cero_hf_export_stage_config(cero_hf_exporter *e);

#endif
