/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Canonical order: units in model order, parameters in order of registration inside a unit. A unit has two
 * flat ranges of elements, its trainable parameters and its frozen ones. What is partitioned are these
 * ranges; padding is only at a range's tail, is never stored and never counted.
 *
 * Trainable ranges come first, then all frozen ones: the space of compute copies. Gradients, master weights
 * and moments have the trainable part of it, with the same offsets.
 *
 * Shard j of N of a range is a contiguous part whose borders are multiples of 256 elements. Sizes need not
 * divide by anything; with more ranks than blocks some shards are empty.
 */
#ifndef CERO_ZERO_LAYOUT_H
#define CERO_ZERO_LAYOUT_H

#include "graph/graph.h"
#include "spec/train.h"

/* Ranges start and end at multiples of this many elements, so that shards do too. */
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
    bool is_matrix; /* two dimensions and no embedding or head: Muon's */
    int64_t offset; /* in the space of compute copies */
} cero_zero_param;

typedef enum cero_zero_part {
    CERO_ZERO_TRAINED = 0,
    CERO_ZERO_FROZEN = 1,
    CERO_ZERO_PARTS = 2
} cero_zero_part;

typedef struct cero_zero_range {
    int64_t offset; /* first element */
    int64_t numel;  /* without padding */
} cero_zero_range;

typedef struct cero_zero_unit {
    char *name; /* owned */
    int first_param;
    int param_count;
    cero_zero_range range[CERO_ZERO_PARTS];
} cero_zero_unit;

typedef struct cero_zero_layout {
    cero_zero_param *params; /* owned */
    int64_t param_count;
    cero_zero_unit *units; /* owned */
    int64_t unit_count;
    int64_t padded;         /* elements of the space of compute copies, with padding */
    int64_t trained_padded; /* of its trainable part */
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

/* The part of its unit that a parameter belongs to, and where it begins in that range. Not collective. */
cero_zero_part cero_zero_param_part(const cero_zero_param *param);
int64_t cero_zero_param_begin(const cero_zero_layout *layout, const cero_zero_param *param);

/* n rounded up to whole blocks of 256. Not collective. */
int64_t cero_zero_round_up(int64_t n);

/* First element of shard j of `size` in a range of numel elements; shard j ends where j + 1 begins.
 * Not collective. */
int64_t cero_zero_border(int64_t numel, int size, int j);

/* Index by name, -1 if absent. Not collective. */
int64_t cero_zero_layout_find(const cero_zero_layout *layout, const char *name);

#endif
