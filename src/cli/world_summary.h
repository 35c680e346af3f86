/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run says of its ranks before the first step: nodes, cores and threads, ZeRO's layout with what it sends,
 * memory over ranks, and settings that have no effect in this layout. All of it is a function of the facts, which
 * ranks tell each other once.
 */
#ifndef CERO_CLI_WORLD_SUMMARY_H
#define CERO_CLI_WORLD_SUMMARY_H

#include "base/text.h"
#include "engine/engine.h"
#include "spec/train.h"

/* Of one rank. Plain data: ranks send it to each other. */
typedef struct cero_rank_facts {
    char host[64];
    int64_t node;
    int64_t cores;         /* that it may use */
    int64_t machine_cores; /* that its host has */
    uint64_t core_set;     /* equal for ranks that may use the same cores */
    int64_t threads;
    int64_t memory[CERO_MEM_COUNT]; /* bytes */
    int64_t total;
    int64_t sent;          /* bytes of a step */
    int64_t between_nodes; /* the part of it that leaves the node */
    int64_t messages;
} cero_rank_facts;

typedef struct cero_world_facts {
    const cero_train_config *config; /* borrowed */
    int size;
    int node_count;
    bool has_shared_memory;
    const char *transport;
    const char *library; /* of MPI */
    int64_t steps;
    cero_zero_summary zero;
    cero_zero_cost cost;
    int64_t unit_count;
    int64_t largest_unit;  /* elements that are trained */
    int64_t numel;         /* of the model */
    int64_t whole_numel;   /* of units that are whole on every rank */
    cero_rank_facts *rank; /* owned, [size] */
} cero_world_facts;

/*
 * Collective: over the world.
 * Errors:     NOMEM, COMM, REMOTE.
 * Cost:       one all_gather of a cero_rank_facts.
 */
CERO_NODISCARD cero_status cero_world_facts_gather(cero_context *context, const cero_config *config,
                                                   const cero_engine *engine, int64_t steps,
                                                   cero_world_facts *out);
void cero_world_facts_cleanup(cero_world_facts *facts);

/* Append lines, each ended. Not collective. */
void cero_summary_world(const cero_world_facts *facts, cero_text *out);
void cero_summary_zero(const cero_world_facts *facts, cero_text *out);
void cero_summary_memory(const cero_world_facts *facts, cero_text *out);
/* Keys without effect: those that DeepSpeed alone needs, and those that this layout leaves idle. */
void cero_summary_idle_keys(const cero_world_facts *facts, cero_text *out);

/* Appends a line for each thing that will make the run slow: threads that share cores, small messages. */
void cero_summary_warnings(const cero_world_facts *facts, cero_text *out);

#endif
