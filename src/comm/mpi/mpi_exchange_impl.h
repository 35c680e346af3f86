/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What reductions and gathers of the MPI transport share: message streams, the flags in shared memory, and an
 * exchange as a machine that moves on whenever it is looked at.
 *
 * advance never waits. start calls it once, the transport's poll and every wait of this rank call it for all
 * exchanges under way, finish and release call it until what they wait for is there.
 */
#ifndef CERO_COMM_MPI_MPI_EXCHANGE_IMPL_H
#define CERO_COMM_MPI_MPI_EXCHANGE_IMPL_H

#include "comm/mpi/mpi_impl.h"

enum {
    CERO_MPI_IN_FLIGHT = 2 /* messages of a stream under way at once */
};

/*
 * The bytes of one part on their way between two ranks, in order, cut into messages at the multiples of `piece`
 * and, inside a piece, of the message limit. Both ends cut alike, and no other stream of an exchange joins the
 * same two ranks in the same direction, so messages need no header.
 */
typedef struct cero_mpi_stream {
    int peer;
    bool is_send;
    char *data;     /* borrowed */
    int64_t nbytes; /* of the part, above 0 */
    int64_t piece;  /* bytes */
    int64_t slot;   /* 0: data is the whole part. Else piece p is at data + p % 2 * slot */
    /* Of a run, bytes from the part's begin: */
    int64_t open; /* made to be sent, or with room to land */
    int64_t posted;
    int64_t done;
    /* The messages under way: begun counts those posted, ended those done. */
    int64_t begun;
    int64_t ended;
    int64_t end[CERO_MPI_IN_FLIGHT]; /* where message k % 2 ends */
    MPI_Request request[CERO_MPI_IN_FLIGHT];
} cero_mpi_stream;

/* Another rank whose memory is read in place. */
typedef struct cero_mpi_near {
    int rank;
    bool is_ready; /* it has started this run too */
} cero_mpi_near;

typedef struct cero_mpi_exchange cero_mpi_exchange;

struct cero_mpi_exchange {
    cero_exchange base;
    void (*begin)(cero_mpi_exchange *x); /* a run: opens what streams may carry at once */
    cero_status (*advance)(
        cero_mpi_exchange *x); /* does what can be done now; sets is_finished, is_done */
    int (*blocker)(const cero_mpi_exchange *x); /* the rank it waits for until both are set */
    void (*cleanup)(cero_mpi_exchange *x);
    cero_mpi_stream *send; /* owned, [send_count] */
    int send_count;
    cero_mpi_stream *recv; /* owned, [recv_count] */
    int recv_count;
    cero_mpi_near *near; /* owned, [near_count] */
    int near_count;
    char label[CERO_COMM_MAX_NAME];
    /* Of a run: */
    int64_t id;
    int64_t sequence; /* of its event in the ring */
    cero_comm_event *event;
    bool is_first;
    bool is_ready;    /* all near ranks are */
    bool is_finished; /* the output is there */
    bool is_done;     /* nothing of near ranks is read any more */
    cero_status failure;
    char message[CERO_MPI_MESSAGE];
};

/*
 * Ends the creation of an exchange (NULL: it could not begin) on all ranks alike: *out, or nothing is left of it.
 * Collective over comm. Errors: st, REMOTE, COMM.
 */
CERO_NODISCARD cero_status cero_mpi_exchange_agree(cero_comm *comm, cero_exchange *exchange,
                                                   cero_status st, cero_exchange **out);

/* Room for the streams and the list of near ranks; sets the label. Errors: NOMEM. */
CERO_NODISCARD cero_status cero_mpi_exchange_prepare(cero_mpi_exchange *x);

/* Appends a stream; `data` as above. Streams of no bytes are left out (NULL). */
cero_mpi_stream *cero_mpi_add_send(cero_mpi_exchange *x, int peer, void *data, int64_t nbytes);
cero_mpi_stream *cero_mpi_add_recv(cero_mpi_exchange *x, int peer, void *data, int64_t nbytes);

/* Takes note of messages that are through and posts what is open. Errors: COMM. */
CERO_NODISCARD cero_status cero_mpi_streams_advance(cero_mpi_exchange *x);

/* Before a run: nothing is done, and all is open of what is not in slots. */
void cero_mpi_streams_reset(cero_mpi_stream *streams, int count);

/*
 * After an error messages are still under way: none may land in memory that is freed soon. Does not wait. What was
 * sent is read, if at all, by peers that ended with the same error.
 */
void cero_mpi_streams_cancel(cero_mpi_stream *streams, int count);

/* First rank of streams from which something is still to come, or to which to go; -1: none. */
int cero_mpi_streams_peer(const cero_mpi_stream *streams, int count);

/* Where byte `at` of a stream's part is. */
char *cero_mpi_stream_at(const cero_mpi_stream *s, int64_t at);

/* Which flag of the control page. */
typedef enum cero_mpi_flag {
    CERO_MPI_READY,
    CERO_MPI_LANDED,
    CERO_MPI_DONE
} cero_mpi_flag;

void cero_mpi_set_flag(cero_mpi_exchange *x, cero_mpi_flag flag);
bool cero_mpi_has_flag(const cero_mpi_exchange *x, int rank, cero_mpi_flag flag);
/* First near rank without the flag; -1: all have it. */
int cero_mpi_without_flag(const cero_mpi_exchange *x, cero_mpi_flag flag);

#endif
