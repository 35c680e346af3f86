/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the MPI transport share: the state behind a communicator, the pages of shared memory in
 * which the ranks of a node see each other's exchanges, and the one loop in which this transport waits.
 *
 * A *job* is a communicator made from outside (the world, a caller's) and everything split from it
 * (mpi_job_impl.h): what one rank shows the others of its life and of its failure is the job's, so that a failure
 * met in one communicator ends the waits in all. Ranks in messages are those of the job.
 *
 * MPI calls are non-blocking or complete at once; everything that must wait for a peer goes through
 * cero_mpi_wait, which lets messages advance, gives a sign of life, and ends when a peer failed or is silent.
 * Calls that MPI has in a blocking form alone (splitting, windows) follow a wait that all ranks came to.
 */
#ifndef CERO_COMM_MPI_MPI_IMPL_H
#define CERO_COMM_MPI_MPI_IMPL_H

#include "comm/comm_transport.h"

#include <mpi.h>
#include <stdatomic.h>

enum {
    CERO_MPI_SLOTS = 256,   /* exchanges under way at once: those of a model with as many units */
    CERO_MPI_MESSAGE = 480, /* characters of a failed rank's message */
    /* Tags: those of send and recv are below 1000. */
    CERO_MPI_TAG_EXCHANGE = 2000 /* and up to 2000 + CERO_MPI_SLOTS: exchange id % CERO_MPI_SLOTS */
};

/*
 * The flags of a communicator's exchanges that a rank shows the others of its node, in shared memory. Only its
 * owner writes.
 *
 * Exchanges are numbered from 1 in the order of their starts, the same on all ranks; a flag holds the number of
 * the latest exchange of its slot that reached the state, so that `flag >= id` answers for exchange id however
 * far its owner has gone on.
 */
typedef struct cero_mpi_control {
    _Alignas(64) _Atomic int64_t ready[CERO_MPI_SLOTS]; /* input may be read */
    _Atomic int64_t landed[CERO_MPI_SLOTS]; /* what this rank received for its node may be read */
    _Atomic int64_t done[CERO_MPI_SLOTS];   /* this rank reads no peer's memory any more */
    char label[CERO_MPI_SLOTS][CERO_COMM_MAX_NAME]; /* which exchange it is; written before ready */
} cero_mpi_control;

/* See mpi_job_impl.h. */
typedef struct cero_mpi_job cero_mpi_job;

/* The transport's part of a communicator. */
typedef struct cero_mpi {
    /* borrowed, by id % CERO_MPI_SLOTS: exchanges that are started and not released */
    struct cero_mpi_exchange *active[CERO_MPI_SLOTS];
    MPI_Comm comm;  /* owned duplicate, errors return */
    MPI_Comm node;  /* owned: the ranks of this node; MPI_COMM_NULL without shared memory */
    MPI_Win window; /* owned: the control pages */
    /* owned, [size]: of the ranks of this node (own included); others, and all without shared memory, NULL */
    cero_mpi_control **control;
    cero_mpi_control *own; /* this rank's page, in the window or private */
    int64_t exchanges;     /* started so far: the last id */
    int64_t message_limit; /* bytes of one message */
    bool is_broken;        /* an error ended the communicator: MPI is not called any more */

    cero_comm *base;       /* whose context this is */
    struct cero_mpi *next; /* of this process */
    cero_mpi_job *job;     /* shared */
    int *job_rank;         /* owned, [size]: a rank's number in the job */
    void *private_control; /* owned: room for a page */
} cero_mpi;

static inline cero_mpi *cero_mpi_of(const cero_comm *comm)
{
    return comm->context;
}

/* Turns an MPI error code into COMM with MPI's own text and `what`. */
CERO_NODISCARD cero_status cero_mpi_check(int code, const char *what);

#define CERO_TRY_MPI(call_, what_) CERO_TRY(cero_mpi_check((call_), (what_)))

/* True when what is waited for has come; sets *st when testing failed. */
typedef bool (*cero_mpi_test)(void *context, cero_status *st);

/*
 * Waits until test(context) is true. Every turn calls cero_mpi_exchange_poll: a peer may wait for what an
 * exchange of this rank has still to send. `peer` is the rank that is waited for, -1 when it may be any: its
 * silence is what the timeout measures, and the message names it. `event` is what the ring shows of the wait.
 *
 * Errors: REMOTE when a rank failed, COMM when `peer` gave no sign of life for the timeout: the message then has
 * the recent operations of each rank that could be asked. Both break the communicator.
 */
CERO_NODISCARD cero_status cero_mpi_wait(cero_comm *comm, cero_mpi_test test, void *context,
                                         int peer, cero_comm_event *event);

/* Waits for requests; inactive ones count as done. Errors: as cero_mpi_wait. */
CERO_NODISCARD cero_status cero_mpi_wait_all(cero_comm *comm, int count, MPI_Request *requests,
                                             int peer, cero_comm_event *event);

/* Lets the started exchanges of all communicators advance. */
void cero_mpi_advance(void);

/* OK, or why every call of this process fails. */
CERO_NODISCARD cero_status cero_mpi_usable(void);

/*
 * Ends all communicators of this process with the error in the thread's record, and tells the other ranks
 * unless they told this one (REMOTE). What is already broken stays as it is. Returns status.
 */
cero_status cero_mpi_break(cero_status status);

/* Passes OK on; anything else through cero_mpi_break. */
cero_status cero_mpi_end(cero_status status);

/* Where in a window the bytes of a rank of the node lie, aligned as below; NULL when MPI does not say. */
void *cero_mpi_window_at(MPI_Win window, int local_rank);

/* Rounds up to CERO_MEM_ALIGNMENT. */
static inline void *cero_mpi_align(void *address)
{
    size_t over = (uintptr_t)address % CERO_MEM_ALIGNMENT;

    return (char *)address + (over == 0 ? 0 : CERO_MEM_ALIGNMENT - over);
}

/* Collectives, in mpi_collective.c. */
cero_status cero_mpi_all_reduce_i64(cero_comm *comm, cero_comm_reduction reduction, int64_t *values,
                                    int64_t count);
cero_status cero_mpi_all_gather(cero_comm *comm, const void *mine, size_t nbytes, void *all);
cero_status cero_mpi_broadcast(cero_comm *comm, void *data, size_t nbytes, int root);
cero_status cero_mpi_send(cero_comm *comm, int peer, int tag, const void *data, size_t nbytes);
cero_status cero_mpi_recv(cero_comm *comm, int peer, int tag, void *data, size_t nbytes);
cero_status cero_mpi_barrier(cero_comm *comm);

/* The exchanges of this transport, in mpi_buffer.c, mpi_reduce.c, mpi_gather.c. */
cero_status cero_mpi_buffer_create(cero_comm *comm, const cero_comm_buffer_params *params,
                                   cero_comm_buffer **out);
void cero_mpi_buffer_destroy(cero_comm_buffer *buffer);
/* Where `rank` of this node keeps the same buffer. NULL when its memory is not shared. */
void *cero_mpi_buffer_of(const cero_comm_buffer *buffer, int rank);
cero_status cero_mpi_reduce_create(cero_comm *comm, const cero_reduce_params *params,
                                   cero_exchange **out);
cero_status cero_mpi_gather_create(cero_comm *comm, const cero_gather_params *params,
                                   cero_exchange **out);
void cero_mpi_exchange_destroy(cero_exchange *exchange);
cero_status cero_mpi_exchange_start(cero_exchange *exchange, bool is_first);
cero_status cero_mpi_exchange_finish(cero_exchange *exchange);
cero_status cero_mpi_exchange_release(cero_exchange *exchange);
/* Lets the exchanges that are started and not finished advance; called by the transport's poll. */
void cero_mpi_exchange_poll(cero_comm *comm);

#endif
