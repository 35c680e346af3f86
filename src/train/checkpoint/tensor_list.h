/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine keeps in a checkpoint: its tensors by name, and the numbers of the section "engine". */
#ifndef CERO_TRAIN_CHECKPOINT_TENSOR_LIST_H
#define CERO_TRAIN_CHECKPOINT_TENSOR_LIST_H

#include "ckpt/checkpoint/rank_file.h"
#include "engine/engine.h"

/* Which values of the engine a tensor is: moment -1 is the weights. */
typedef struct cero_tensor_source {
    int64_t param;
    int moment;
} cero_tensor_source;

/* Weights under their names, moments under "optim.<moment>.<name>"; the same list on all ranks. */
typedef struct cero_tensor_list {
    cero_rank_file_tensor *tensors; /* [count], owned, with the names */
    cero_tensor_source *sources;    /* [count], owned */
    int64_t count;
} cero_tensor_list;

/* Not collective. Errors: NOMEM; the list is to be cleaned up all the same. */
CERO_NODISCARD cero_status cero_tensor_list_create(const cero_engine *engine,
                                                   cero_tensor_list *list);
void cero_tensor_list_cleanup(cero_tensor_list *list);

/* Appends the section "engine": counters, and the optimizer whose states the moments are. Not collective. */
void cero_engine_section_write(const cero_engine *engine, cero_text *out);

/* Not collective. Errors: CORRUPT with the place. */
CERO_NODISCARD cero_status cero_engine_section_read(const cero_manifest *manifest,
                                                    cero_engine_counters *counters,
                                                    const char **optimizer);

#endif
