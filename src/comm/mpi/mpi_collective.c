/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives and messages of the MPI transport. Everything is split into messages of at most the limit, which
 * also keeps counts within MPI's int; each is waited for in cero_mpi_wait.
 *
 * Ranks that make different calls are found before MPI sees them: it would take a barrier's message for a part of
 * a sum, and give the sum as if nothing was wrong.
 */
#include "comm/mpi/mpi_job_impl.h"

#include <string.h>

/* The event that comm.c recorded for the call at hand. */
static cero_comm_event *current_event(cero_comm *comm)
{
    return &comm->ring->event[(comm->ring->count - 1) % CERO_COMM_RECENT];
}

/* What all ranks must have in common in a collective. */
static int64_t signature(const char *name, int64_t nbytes, int64_t detail)
{
    uint64_t hash = 0xcbf29ce484222325u;
    uint64_t numbers[2] = {(uint64_t)nbytes, (uint64_t)detail};

    for (const char *c = name; *c != '\0'; c++) {
        hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
    }
    for (int i = 0; i < 2 * 64; i += 8) {
        hash = (hash ^ (numbers[i / 64] >> (i % 64) & 0xff)) * 0x100000001b3u;
    }
    return (int64_t)(hash >> 1);
}

/* What a rank says of its call when calls differ. */
typedef struct call {
    int64_t sequence;
    int64_t nbytes;
    char name[CERO_COMM_MAX_NAME];
} call;

/* Every rank found that calls differ, so that all of them are here: the first two that do are named. */
static cero_status refuse(cero_comm *comm, const call *mine)
{
    MPI_Request request;
    call *all = cero_new((size_t)comm->size + 1, sizeof(*all));
    int other = 1;

    if (all == NULL) {
        return CERO_FAIL(CERO_ERR_INVALID, "ranks make different calls; no memory to see which");
    }
    cero_status st =
        cero_mpi_check(MPI_Iallgather(mine, (int)sizeof(*mine), MPI_BYTE, all, (int)sizeof(*mine),
                                      MPI_BYTE, cero_mpi_of(comm)->comm, &request),
                       "MPI_Iallgather");
    st = st == CERO_OK ? cero_mpi_wait_all(comm, 1, &request, -1, current_event(comm)) : st;
    if (st == CERO_OK) {
        while (other < comm->size - 1 && strcmp(all[0].name, all[other].name) == 0 &&
               all[0].nbytes == all[other].nbytes) {
            other++;
        }
        st = CERO_FAIL(
            CERO_ERR_INVALID,
            "ranks make different calls: rank %d %s of %lld bytes (operation %lld), rank "
            "%d %s of %lld bytes (operation %lld); all ranks of a communicator must make "
            "the same calls in the same order",
            cero_mpi_of(comm)->job_rank[0], all[0].name, (long long)all[0].nbytes,
            (long long)all[0].sequence, cero_mpi_of(comm)->job_rank[other], all[other].name,
            (long long)all[other].nbytes, (long long)all[other].sequence);
    }
    if (st == CERO_OK || st == CERO_ERR_INVALID) {
        cero_delete(all);
    } else {
        cero_mpi_process_get()->memory = all;
    }
    return st;
}

/* Waits until all ranks make a call, and checks that it is the same. `detail`: what else must agree. */
static cero_status enter(cero_comm *comm, int64_t nbytes, int64_t detail)
{
    cero_comm_event *event = current_event(comm);
    call mine = {.sequence = event->sequence, .nbytes = nbytes};
    int64_t *least = cero_mpi_process_get()->number;
    MPI_Request request;

    CERO_TRY(cero_mpi_usable());
    memcpy(mine.name, event->name, sizeof(mine.name));
    least[0] = signature(mine.name, nbytes, detail);
    least[1] = -least[0];
    CERO_TRY_MPI(MPI_Iallreduce(MPI_IN_PLACE, least, 2, MPI_INT64_T, MPI_MIN,
                                cero_mpi_of(comm)->comm, &request),
                 "MPI_Iallreduce");
    CERO_TRY(cero_mpi_wait_all(comm, 1, &request, -1, event));
    return least[0] == -least[1] ? CERO_OK : refuse(comm, &mine);
}

static int piece(int64_t left, int64_t limit)
{
    return cero_to_int(left < limit ? left : limit);
}

static cero_status all_reduce_i64(cero_comm *comm, MPI_Op op, int64_t *values, int64_t count)
{
    cero_mpi *mpi = cero_mpi_of(comm);
    int64_t limit = mpi->message_limit / (int64_t)sizeof(int64_t);

    CERO_TRY(enter(comm, count * (int64_t)sizeof(int64_t),
                   op == MPI_SUM   ? 0
                   : op == MPI_MIN ? 1
                                   : 2));
    for (int64_t at = 0; at < count; at += limit) {
        MPI_Request request;
        CERO_TRY_MPI(MPI_Iallreduce(MPI_IN_PLACE, values + at, piece(count - at, limit),
                                    MPI_INT64_T, op, mpi->comm, &request),
                     "MPI_Iallreduce");
        CERO_TRY(cero_mpi_wait_all(comm, 1, &request, -1, current_event(comm)));
    }
    return CERO_OK;
}

cero_status cero_mpi_all_reduce_i64(cero_comm *comm, cero_comm_reduction reduction, int64_t *values,
                                    int64_t count)
{
    MPI_Op op = reduction == CERO_COMM_SUM   ? MPI_SUM
                : reduction == CERO_COMM_MIN ? MPI_MIN
                                             : MPI_MAX;

    return cero_mpi_end(all_reduce_i64(comm, op, values, count));
}

static cero_status broadcast(cero_comm *comm, void *data, int64_t nbytes, int root)
{
    cero_mpi *mpi = cero_mpi_of(comm);

    // What comes from the root may come through any rank.
    for (int64_t at = 0; at < nbytes; at += mpi->message_limit) {
        MPI_Request request;
        CERO_TRY_MPI(MPI_Ibcast((char *)data + at, piece(nbytes - at, mpi->message_limit), MPI_BYTE,
                                root, mpi->comm, &request),
                     "MPI_Ibcast");
        CERO_TRY(cero_mpi_wait_all(comm, 1, &request, -1, current_event(comm)));
    }
    return CERO_OK;
}

cero_status cero_mpi_broadcast(cero_comm *comm, void *data, size_t nbytes, int root)
{
    cero_status st = enter(comm, (int64_t)nbytes, root);

    return cero_mpi_end(st == CERO_OK ? broadcast(comm, data, (int64_t)nbytes, root) : st);
}

/* Whole when it is one message; else what each rank has is broadcast in pieces. */
static cero_status all_gather(cero_comm *comm, const void *mine, size_t nbytes, char *all)
{
    cero_mpi *mpi = cero_mpi_of(comm);
    MPI_Request request;

    CERO_TRY(enter(comm, (int64_t)nbytes, 0));
    if (nbytes <= (size_t)mpi->message_limit / (size_t)comm->size) {
        int count = cero_to_int((int64_t)nbytes);
        CERO_TRY_MPI(
            MPI_Iallgather(mine, count, MPI_BYTE, all, count, MPI_BYTE, mpi->comm, &request),
            "MPI_Iallgather");
        return cero_mpi_wait_all(comm, 1, &request, -1, current_event(comm));
    }
    memcpy(all + (size_t)comm->rank * nbytes, mine, nbytes);
    for (int r = 0; r < comm->size; r++) {
        CERO_TRY(broadcast(comm, all + (size_t)r * nbytes, (int64_t)nbytes, r));
    }
    return CERO_OK;
}

cero_status cero_mpi_all_gather(cero_comm *comm, const void *mine, size_t nbytes, void *all)
{
    return cero_mpi_end(all_gather(comm, mine, nbytes, all));
}

cero_status cero_mpi_barrier(cero_comm *comm)
{
    return cero_mpi_end(enter(comm, 0, 0));
}

/*
 * A message is its size in 8 bytes, then its pieces: a receiver that expects another size says so before a piece
 * comes, however both are split.
 */
static cero_status send_pieces(cero_comm *comm, int peer, int tag, const char *data, int64_t nbytes)
{
    cero_mpi *mpi = cero_mpi_of(comm);
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    int64_t *header = cero_mpi_process_get()->number;

    *header = nbytes;
    CERO_TRY_MPI(MPI_Isend(header, 1, MPI_INT64_T, peer, tag, mpi->comm, &requests[0]),
                 "MPI_Isend");
    for (int64_t at = 0; at < nbytes; at += mpi->message_limit) {
        CERO_TRY_MPI(MPI_Isend(data + at, piece(nbytes - at, mpi->message_limit), MPI_BYTE, peer,
                               tag, mpi->comm, &requests[1]),
                     "MPI_Isend");
        CERO_TRY(cero_mpi_wait_all(comm, 2, requests, peer, current_event(comm)));
    }
    return cero_mpi_wait_all(comm, 2, requests, peer, current_event(comm));
}

cero_status cero_mpi_send(cero_comm *comm, int peer, int tag, const void *data, size_t nbytes)
{
    CERO_TRY(cero_mpi_usable());
    return cero_mpi_end(send_pieces(comm, peer, tag, data, (int64_t)nbytes));
}

static cero_status recv_pieces(cero_comm *comm, int peer, int tag, char *data, int64_t nbytes)
{
    cero_mpi *mpi = cero_mpi_of(comm);
    MPI_Request request;
    const int64_t *header = cero_mpi_process_get()->number;

    CERO_TRY_MPI(
        MPI_Irecv(cero_mpi_process_get()->number, 1, MPI_INT64_T, peer, tag, mpi->comm, &request),
        "MPI_Irecv");
    CERO_TRY(cero_mpi_wait_all(comm, 1, &request, peer, current_event(comm)));
    CERO_CHECK(
        *header == nbytes, CERO_ERR_INVALID,
        "a message from rank %d with tag %d has %lld bytes, expected %lld; send and recv must "
        "name the same size",
        peer, tag, (long long)*header, (long long)nbytes);
    for (int64_t at = 0; at < nbytes; at += mpi->message_limit) {
        CERO_TRY_MPI(MPI_Irecv(data + at, piece(nbytes - at, mpi->message_limit), MPI_BYTE, peer,
                               tag, mpi->comm, &request),
                     "MPI_Irecv");
        CERO_TRY(cero_mpi_wait_all(comm, 1, &request, peer, current_event(comm)));
    }
    return CERO_OK;
}

cero_status cero_mpi_recv(cero_comm *comm, int peer, int tag, void *data, size_t nbytes)
{
    CERO_TRY(cero_mpi_usable());
    return cero_mpi_end(recv_pieces(comm, peer, tag, data, (int64_t)nbytes));
}
