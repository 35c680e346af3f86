/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Canonical order: units in model order, parameters in order of registration inside a unit, one flat range
 * of elements per unit. What is partitioned are these ranges; padding is only at a unit's tail, is never
 * stored and never counted.
 *
 * There are two flat spaces: *all* parameters (compute copies), and *trainable* ones (gradients, master
 * weights, moments), which leaves frozen parameters out.
 */
#ifndef CERO_ZERO_LAYOUT_H
#define CERO_ZERO_LAYOUT_H

#include "graph/graph.h"
#include "spec/train.h"

/* Unit ranges start and end at multiples of this many elements, so that shards do too. */
enum {
    CERO_ZERO_ALIGNMENT = 256
};

typedef struct cero_zero_param {
    char *name; /* owned */
    cero_shape shape;
    int64_t numel;
    cero_init_kind init;
    double std;
    int unit;
    bool is_frozen;
    bool has_decay;
    bool is_matrix;  /* two dimensions and no embedding or head: Muon's */
    int64_t offset;  /* in the space of all parameters */
    int64_t trained; /* in the space of trainable parameters; -1 when frozen */
} cero_zero_param;

typedef struct cero_zero_unit {
    int first_param;
    int param_count;
    int64_t offset;  /* first element, space of all parameters */
    int64_t numel;   /* without padding */
    int64_t trained; /* first element, space of trainable parameters */
    int64_t trained_numel;
} cero_zero_unit;

typedef struct cero_zero_layout {
    cero_zero_param *params; /* owned */
    int64_t param_count;
    cero_zero_unit *units; /* owned */
    int64_t unit_count;
    int64_t padded;         /* elements of the space of all parameters, with padding */
    int64_t trained_padded; /* of the trainable space */
    int64_t numel;          /* parameters, without padding */
    int64_t trained_numel;
    int64_t decay_tensors;
    int64_t decay_numel;
} cero_zero_layout;

/*
 * Lays out the parameters of a graph. `no_decay` are patterns over names; a pattern that
 * matches nothing is an error. Not collective.
 * Errors: INVALID (a pattern without a match), NOMEM.
 */
CERO_NODISCARD cero_status cero_zero_layout_create(const cero_graph *graph,
                                                   const cero_patterns *no_decay,
                                                   cero_zero_layout *out);
void cero_zero_layout_cleanup(cero_zero_layout *layout);

/*
 * A pattern of the config's cero.<key> that matches no parameter is a typo. Not collective.
 * Errors: INVALID naming key and pattern.
 */
CERO_NODISCARD cero_status cero_zero_layout_check_patterns(const cero_zero_layout *layout,
                                                           const cero_patterns *patterns,
                                                           const char *key);

/* Index by name, -1 if absent. Not collective. */
int64_t cero_zero_layout_find(const cero_zero_layout *layout, const char *name);

#endif
