/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which ranks share memory, and windows of memory that they share.
 *
 * A window that outgrows the file system it is kept in ends the process with a bus error at the first touch: the
 * free space is looked at before, and all ranks do without when one of them has too little.
 */
#include "base/log.h"
#include "comm/mpi/mpi_job_impl.h"

#include <string.h>
#include <sys/statvfs.h>

enum {
    SLACK = 64 << 10 /* bytes of a rank that MPI keeps beside its part of a window */
};

#define SHARED_FOLDER "/dev/shm"

/* The lowest rank of this rank's node, whose number all ranks of the node have in common. */
static cero_status find_leader(MPI_Comm comm, const cero_comm_params *params, int rank, int *leader)
{
    MPI_Comm shared;
    int64_t least = rank;

    CERO_TRY_MPI(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &shared),
                 "MPI_Comm_split_type");
    if (params->ranks_per_node > 0) {
        MPI_Comm whole = shared;
        int code = MPI_Comm_split(whole, rank / params->ranks_per_node, rank, &shared);
        (void)MPI_Comm_free(&whole);
        CERO_TRY(cero_mpi_check(code, "MPI_Comm_split"));
    }
    cero_status st = cero_mpi_min(shared, params->timeout_seconds, &least);
    (void)MPI_Comm_free(&shared);
    *leader = cero_to_int(least);
    return st;
}

cero_status cero_mpi_find_nodes(MPI_Comm comm, const cero_comm_params *params, int *node)
{
    MPI_Request request;
    int rank;
    int size;
    int leader;
    int count = 0;

    CERO_TRY_MPI(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
    CERO_TRY_MPI(MPI_Comm_size(comm, &size), "MPI_Comm_size");
    CERO_TRY(find_leader(comm, params, rank, &leader));
    CERO_TRY_MPI(MPI_Iallgather(&leader, 1, MPI_INT, node, 1, MPI_INT, comm, &request),
                 "MPI_Iallgather");
    CERO_TRY(cero_mpi_wait_plain(&request, params->timeout_seconds, "find the nodes"));
    // A leader is the first rank of its node: what stands at its place is its node's number already.
    for (int r = 0; r < size; r++) {
        node[r] = node[r] == r ? count++ : node[node[r]];
    }
    return CERO_OK;
}

/* Bytes that a node's window takes, and the bytes that are free for it, or INT64_MAX when that is enough. */
static int64_t look_for_room(int64_t needed)
{
    struct statvfs fs;

    if (statvfs(SHARED_FOLDER, &fs) != 0) {
        return INT64_MAX;
    }
    uint64_t room = (uint64_t)fs.f_bavail * fs.f_frsize;
    return room >= (uint64_t)needed ? INT64_MAX : (int64_t)room;
}

static cero_status allocate(MPI_Comm node, size_t nbytes, MPI_Win *window)
{
    MPI_Info info;
    void *own;
    int size;
    int local;

    CERO_TRY_MPI(MPI_Comm_size(node, &size), "MPI_Comm_size");
    CERO_TRY_MPI(MPI_Comm_rank(node, &local), "MPI_Comm_rank");
    CERO_TRY_MPI(MPI_Info_create(&info), "MPI_Info_create");
    (void)MPI_Info_set(info, "alloc_shared_noncontig", "true");
    int code = MPI_Win_allocate_shared((MPI_Aint)(nbytes + CERO_MEM_ALIGNMENT), 1, info, node,
                                       (void *)&own, window);
    (void)MPI_Info_free(&info);
    CERO_TRY(cero_mpi_check(code, "MPI_Win_allocate_shared"));
    CERO_TRY_MPI(MPI_Win_set_errhandler(*window, MPI_ERRORS_RETURN), "MPI_Win_set_errhandler");
    // Loads and stores alone reach the memory; the epoch stays open for as long as the window lives.
    CERO_TRY_MPI(MPI_Win_lock_all(MPI_MODE_NOCHECK, *window), "MPI_Win_lock_all");
    for (int r = 0; r < size; r++) {
        if (cero_mpi_window_at(*window, r) == NULL) {
            return CERO_FAIL(CERO_ERR_COMM, "the memory of local rank %d is not shared", r);
        }
    }
    memset(cero_mpi_window_at(*window, local), 0, nbytes);
    return CERO_OK;
}

/* A window may begin between two cache lines, and does so alike in all processes: they map whole pages. */
void *cero_mpi_window_at(MPI_Win window, int local_rank)
{
    MPI_Aint size;
    int unit;
    void *base = NULL;

    if (MPI_Win_shared_query(window, local_rank, &size, &unit, (void *)&base) != MPI_SUCCESS ||
        base == NULL) {
        return NULL;
    }
    return cero_mpi_align(base);
}

cero_status cero_mpi_window_create(MPI_Comm comm, double seconds, const int *node, size_t nbytes,
                                   MPI_Comm *node_comm, MPI_Win *window)
{
    int rank;
    int size;
    int64_t ranks = 0;

    CERO_TRY_MPI(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
    CERO_TRY_MPI(MPI_Comm_size(comm, &size), "MPI_Comm_size");
    for (int r = 0; r < size; r++) {
        ranks += node[r] == node[rank];
    }
    int64_t needed = ranks * ((int64_t)nbytes + SLACK);
    int64_t room = look_for_room(needed);
    CERO_TRY(cero_mpi_min(comm, seconds, &room));
    if (room != INT64_MAX) {
        if (rank == 0) {
            cero_log(
                CERO_LOG_WARN, "comm",
                "ranks exchange messages inside a node too: shared memory takes %lld bytes, and "
                "%lld are free in %s; enlarge it (docker run --shm-size, mount -o remount,size=)",
                (long long)needed, (long long)room, SHARED_FOLDER);
        }
        return CERO_OK;
    }
    CERO_TRY_MPI(MPI_Comm_split(comm, node[rank], rank, node_comm), "MPI_Comm_split");
    CERO_TRY_MPI(MPI_Comm_set_errhandler(*node_comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    int64_t is_there = allocate(*node_comm, nbytes, window) == CERO_OK;
    CERO_TRY(cero_mpi_min(comm, seconds, &is_there));
    if (!is_there) {
        cero_mpi_window_destroy(node_comm, window);
        if (rank == 0) {
            cero_log(CERO_LOG_WARN, "comm",
                     "ranks exchange messages inside a node too: MPI gave no shared memory");
        }
    }
    return CERO_OK;
}

void cero_mpi_window_destroy(MPI_Comm *node_comm, MPI_Win *window)
{
    if (*window != MPI_WIN_NULL) {
        (void)MPI_Win_unlock_all(*window);
        (void)MPI_Win_free(window);
        *window = MPI_WIN_NULL;
    }
    if (*node_comm != MPI_COMM_NULL) {
        (void)MPI_Comm_free(node_comm);
        *node_comm = MPI_COMM_NULL;
    }
}
