/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process mesh: ranks arranged along the axes of parallelism, and a communicator for each line of them.
 *
 * Tensor parallelism is fastest, then sequence, data and pipeline parallelism, as in Megatron: with
 * dp 2, tp 2, pp 2 the ranks of a tensor group are (0, 1), (2, 3), …, those of a data group (0, 2), (1, 3), …,
 * those of a pipeline (0, 4), (1, 5), …. Ranks that exchange most are neighbours, and so share a node.
 */
#ifndef CERO_COMM_MESH_H
#define CERO_COMM_MESH_H

#include "comm/comm.h"

/* From the fastest to the slowest. */
typedef enum cero_mesh_axis {
    CERO_MESH_TP = 0,
    CERO_MESH_SP = 1,
    CERO_MESH_DP = 2,
    CERO_MESH_PP = 3,
    CERO_MESH_AXIS_COUNT
} cero_mesh_axis;

typedef struct cero_mesh cero_mesh;

/* Ranks along each axis; 0: 1, but for dp, which then takes all ranks that are left. */
typedef struct cero_mesh_params {
    int tp;
    int sp;
    int dp;
    int pp;
} cero_mesh_params;

/*
 * Arranges the ranks of `world`, which is borrowed and outlives the mesh; it may be virtual.
 *
 * Collective: over world.
 * Errors:     INVALID (the sizes do not multiply to the world), COMM, REMOTE, NOMEM; UNSUPPORTED for a virtual
 *             world whose nodes cut a line of ranks into uneven parts.
 */
CERO_NODISCARD cero_status cero_mesh_create(cero_comm *world, const cero_mesh_params *params,
                                            cero_mesh **out);

/* Collective: over the world, unless an error ended it. */
void cero_mesh_destroy(cero_mesh **mesh);

/* "tp", "sp", "dp", "pp". Not collective. */
const char *cero_mesh_axis_name(cero_mesh_axis axis);

/* Ranks along an axis, and this rank's place there. Not collective. */
int cero_mesh_size(const cero_mesh *mesh, cero_mesh_axis axis);
int cero_mesh_place(const cero_mesh *mesh, cero_mesh_axis axis);

/* The world's rank with these places. Not collective. */
int cero_mesh_rank_at(const cero_mesh *mesh, const int place[CERO_MESH_AXIS_COUNT]);

/*
 * The ranks that differ from this one along `axis` alone, in the order of their places; the world itself when
 * there is no other axis. Borrowed. Not collective.
 */
cero_comm *cero_mesh_comm(const cero_mesh *mesh, cero_mesh_axis axis);
cero_comm *cero_mesh_world(const cero_mesh *mesh);

#endif
