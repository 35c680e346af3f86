/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the MPI transport share: the state behind a communicator, the page of shared memory in
 * which the ranks of a node see each other, and the one loop in which this transport waits.
 *
 * MPI calls are non-blocking or complete at once; everything that must wait for a peer goes through
 * cero_mpi_wait, which lets messages advance, gives a sign of life, and ends when a peer failed or is silent.
 */
#ifndef CERO_COMM_MPI_MPI_IMPL_H
#define CERO_COMM_MPI_MPI_IMPL_H

#include "comm/comm_transport.h"

#include <mpi.h>
#include <stdatomic.h>

enum {
    CERO_MPI_SLOTS = 64,    /* exchanges whose flags are kept apart; see cero_mpi_control */
    CERO_MPI_MESSAGE = 480, /* characters of a failed rank's message */
    /* Tags: those of send and recv are below 1000. */
    CERO_MPI_TAG_FAIL = 1000,
    CERO_MPI_TAG_PING = 1001,
    CERO_MPI_TAG_PONG = 1002,
    CERO_MPI_TAG_EXCHANGE = 2000 /* and up to 2000 + CERO_MPI_SLOTS: exchange id % CERO_MPI_SLOTS */
};

/*
 * What a rank shows the others of its node, in shared memory. Only its owner writes.
 *
 * Exchanges are numbered from 1 in the order of their starts, the same on all ranks; a flag holds the number of
 * the latest exchange of its slot that reached the state, so that `flag >= id` answers for exchange id however
 * far its owner has gone on.
 */
typedef struct cero_mpi_control {
    _Alignas(64) _Atomic int64_t beat; /* grows with every instruction and every wait */
    _Atomic int64_t failed;            /* status; 0: has not failed */
    _Alignas(64) _Atomic int64_t ready[CERO_MPI_SLOTS]; /* input may be read */
    _Atomic int64_t landed[CERO_MPI_SLOTS]; /* what this rank received for its node may be read */
    _Atomic int64_t done[CERO_MPI_SLOTS];   /* this rank reads no peer's memory any more */
    char message[CERO_MPI_MESSAGE];         /* written before `failed` */
    cero_comm_ring ring;                    /* recent operations; torn reads are harmless */
} cero_mpi_control;

/* The transport's part of a communicator. */
typedef struct cero_mpi {
    /* borrowed, by id % CERO_MPI_SLOTS: exchanges that are started and not released */
    struct cero_mpi_exchange *active[CERO_MPI_SLOTS];
    MPI_Comm comm;  /* owned duplicate, errors return */
    MPI_Comm node;  /* owned: the ranks of this node; MPI_COMM_NULL without shared memory */
    MPI_Win window; /* owned: the control pages */
    cero_mpi_control *
        *control;          /* owned, [size]: of the ranks of this node (own included); others NULL.
                                   All NULL without shared memory */
    cero_mpi_control *own; /* this rank's page, in the window or private */
    int64_t exchanges;     /* started so far: the last id */
    int64_t message_limit; /* bytes of one message */
    bool is_broken;        /* an error ended the communicator */
    int failed_rank;       /* known to have failed; -1 */
    cero_status failed_status;
    char failed_message[CERO_MPI_MESSAGE];
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
