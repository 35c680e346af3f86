/* SPDX-License-Identifier: Apache-2.0 */
/* The process mesh: places of ranks, and the communicators along each axis; see mesh.h. */
#include "comm/mesh.h"

struct cero_mesh {
    cero_comm *world; /* borrowed */
    int size[CERO_MESH_AXIS_COUNT];
    int place[CERO_MESH_AXIS_COUNT];
    int stride[CERO_MESH_AXIS_COUNT];      /* from a rank to its neighbour along the axis */
    cero_comm *comm[CERO_MESH_AXIS_COUNT]; /* owned, but for the world */
};

const char *cero_mesh_axis_name(cero_mesh_axis axis)
{
    static const char *const names[CERO_MESH_AXIS_COUNT] = {"tp", "sp", "dp", "pp"};

    return names[axis];
}

int cero_mesh_size(const cero_mesh *mesh, cero_mesh_axis axis)
{
    return mesh->size[axis];
}

int cero_mesh_place(const cero_mesh *mesh, cero_mesh_axis axis)
{
    return mesh->place[axis];
}

int cero_mesh_rank_at(const cero_mesh *mesh, const int place[CERO_MESH_AXIS_COUNT])
{
    int rank = 0;

    for (int a = 0; a < CERO_MESH_AXIS_COUNT; a++) {
        CERO_ASSERT(place[a] >= 0 && place[a] < mesh->size[a]);
        rank += place[a] * mesh->stride[a];
    }
    return rank;
}

cero_comm *cero_mesh_comm(const cero_mesh *mesh, cero_mesh_axis axis)
{
    return mesh->comm[axis];
}

cero_comm *cero_mesh_world(const cero_mesh *mesh)
{
    return mesh->world;
}

void cero_mesh_destroy(cero_mesh **mesh)
{
    if (mesh == NULL || *mesh == NULL) {
        return;
    }
    for (int a = CERO_MESH_AXIS_COUNT - 1; a >= 0; a--) {
        if ((*mesh)->comm[a] != (*mesh)->world) {
            cero_comm_destroy(&(*mesh)->comm[a]);
        }
    }
    cero_delete(*mesh);
    *mesh = NULL;
}

/* Sizes that multiply to the world; dp is what is left when it is not given. */
static cero_status set_sizes(cero_mesh *mesh, const cero_mesh_params *p)
{
    const int given[CERO_MESH_AXIS_COUNT] = {p->tp, p->sp, p->dp, p->pp};
    int ranks = cero_comm_size(mesh->world);
    int64_t product = 1;

    for (int a = 0; a < CERO_MESH_AXIS_COUNT; a++) {
        CERO_CHECK(given[a] >= 0 && given[a] <= ranks, CERO_ERR_INVALID,
                   "%s is %d in a world of %d ranks; expected 1 .. %d",
                   cero_mesh_axis_name((cero_mesh_axis)a), given[a], ranks, ranks);
        mesh->size[a] = given[a] > 0 ? given[a] : 1;
        product = product > ranks ? product : product * mesh->size[a];
    }
    if (p->dp == 0) {
        CERO_CHECK(product <= ranks && ranks % product == 0, CERO_ERR_INVALID,
                   "tp %d, sp %d and pp %d need a multiple of %lld ranks, and the world has %d",
                   mesh->size[CERO_MESH_TP], mesh->size[CERO_MESH_SP], mesh->size[CERO_MESH_PP],
                   (long long)mesh->size[CERO_MESH_TP] * mesh->size[CERO_MESH_SP] *
                       mesh->size[CERO_MESH_PP],
                   ranks);
        mesh->size[CERO_MESH_DP] = ranks / cero_to_int(product);
        return CERO_OK;
    }
    CERO_CHECK(product == ranks, CERO_ERR_INVALID,
               "tp %d, sp %d, dp %d and pp %d do not multiply to the %d ranks of the world; leave "
               "out dp to let it be what is left, or start as many ranks",
               mesh->size[CERO_MESH_TP], mesh->size[CERO_MESH_SP], mesh->size[CERO_MESH_DP],
               mesh->size[CERO_MESH_PP], ranks);
    return CERO_OK;
}

/* The line of a virtual world's ranks along an axis: its nodes are those the world has. */
static cero_status create_virtual_line(const cero_mesh *mesh, int axis, int first, cero_comm **out)
{
    int size = mesh->size[axis];
    int stride = mesh->stride[axis];
    int together = 1; /* ranks of the line in its first node */

    while (together < size && cero_comm_node_of(mesh->world, first + together * stride) ==
                                  cero_comm_node_of(mesh->world, first)) {
        together++;
    }
    for (int i = 1; i < size; i++) {
        bool is_same = cero_comm_node_of(mesh->world, first + i * stride) ==
                       cero_comm_node_of(mesh->world, first + (i - 1) * stride);
        CERO_CHECK(
            is_same == (i % together != 0), CERO_ERR_UNSUPPORTED,
            "the %d ranks along %s lie unevenly over the nodes; choose ranks per node that %d "
            "divides, or that divide it",
            size, cero_mesh_axis_name((cero_mesh_axis)axis), stride * size);
    }
    const cero_comm_params params = {.ranks_per_node = together,
                                     .no_shared_memory = !cero_comm_has_shared_memory(mesh->world)};
    return cero_comm_create_virtual(mesh->place[axis], size, &params, out);
}

static cero_status create_line(cero_mesh *mesh, int axis)
{
    int first = cero_comm_rank(mesh->world) - mesh->place[axis] * mesh->stride[axis];

    if (mesh->size[axis] == cero_comm_size(mesh->world)) {
        mesh->comm[axis] = mesh->world;
        return CERO_OK;
    }
    if (cero_comm_is_virtual(mesh->world)) {
        return create_virtual_line(mesh, axis, first, &mesh->comm[axis]);
    }
    return cero_comm_split(mesh->world, first, mesh->place[axis], &mesh->comm[axis]);
}

cero_status cero_mesh_create(cero_comm *world, const cero_mesh_params *params, cero_mesh **out)
{
    cero_status st = CERO_OK;
    cero_mesh *mesh = cero_new(1, sizeof(*mesh));
    int stride = 1;

    if (mesh == NULL) {
        st = CERO_FAIL(CERO_ERR_NOMEM, "no memory for a mesh");
    }
    CERO_TRY_GOTO(cero_comm_agree(world, st), fail);
    mesh->world = world;
    CERO_TRY_GOTO(set_sizes(mesh, params), fail);
    for (int a = 0; a < CERO_MESH_AXIS_COUNT; a++) {
        mesh->stride[a] = stride;
        mesh->place[a] = cero_comm_rank(world) / stride % mesh->size[a];
        stride *= mesh->size[a];
    }
    for (int a = 0; a < CERO_MESH_AXIS_COUNT; a++) {
        CERO_TRY_GOTO(create_line(mesh, a), fail);
    }
    *out = mesh;
    return CERO_OK;

fail:
    cero_mesh_destroy(&mesh);
    return st;
}
