/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run needs before anything is started: the engine's own compilation on a device without memory.
 */
#ifndef CERO_PLAN_PLAN_H
#define CERO_PLAN_PLAN_H

#include "base/text.h"
#include "engine/engine.h"
#include "spec/model.h"

typedef struct cero_plan_params {
    const cero_model_spec *model; /* borrowed, like config */
    const cero_config *config;
    int64_t seq_len;       /* 0: the model's context */
    int world_size;        /* ranks of the run, for which config was made; 0: one */
    int world_rank;        /* whose plan */
    int ranks_per_node;    /* 0: all on one node */
    bool no_shared_memory; /* ranks of a node exchange by messages too */
    int threads;           /* of a rank, each with its own scratch; 0: as many as here */
    bool no_eval;          /* the run will not evaluate */
} cero_plan_params;

typedef struct cero_run_plan cero_run_plan;

/* Compiles on the meta device: seconds, whatever the model's size. Not collective. */
CERO_NODISCARD cero_status cero_run_plan_create(const cero_plan_params *params,
                                                cero_run_plan **out);
void cero_run_plan_destroy(cero_run_plan **plan);

/* View, valid until the plan is destroyed. Not collective. */
const cero_engine_plan *cero_run_plan_get(const cero_run_plan *plan);

/* The compiled engine, for what else it knows: stage, order, exchanges. Valid as long. Not collective. */
const cero_engine *cero_run_plan_engine(const cero_run_plan *plan);

/* Bytes by category, exchanges and operations, for people or as one JSON object. Not collective. */
CERO_NODISCARD cero_status cero_run_plan_write(const cero_run_plan *plan, bool as_json,
                                               cero_text *out);

/* The instruction list with offsets, bytes and operations. Not collective. */
CERO_NODISCARD cero_status cero_run_plan_dump(const cero_run_plan *plan, cero_text *out);

#endif
