/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the MPI transport share: the state behind a communicator and behind its job, the pages of
 * shared memory in which the ranks of a node see each other, and the one loop in which this transport waits.
 *
 * A *job* is a communicator made from outside (the world, a caller's) and everything split from it: what one
 * rank shows the others of its life and of its failure is the job's, so that a failure met in one
 * communicator ends the waits in all. Ranks in messages are those of the job.
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

/*
 * What a rank shows of itself to the others of its node, once for each job. Only its owner writes, but for the
 * two words of the node. Times are nanoseconds of the monotonic clock, which the ranks of a node share.
 *
 * Two signs are told apart. `beat` is the time at which the rank last did anything, waiting included. `life` is
 * what ends nobody's wait: the time of its last step forward (an instruction, an operation begun or completed),
 * or, while it waits itself, that of whoever it waits for. Ranks that wait for each other in a circle pass on
 * times that were, none of them grows, and the timeout comes; in a chain behind a rank that computes it does not.
 */
typedef struct cero_mpi_page {
    _Alignas(64) _Atomic int64_t beat;
    _Atomic int64_t life;
    _Atomic int64_t is_waiting;
    _Atomic int64_t failed; /* status; 0: has not failed */
    _Alignas(
        64) _Atomic int64_t failures; /* in the page of local rank 0: how many of the node failed */
    _Atomic int64_t reporter;         /* there: 1 + the rank that reports a timeout; 0: none */
    char message[CERO_MPI_MESSAGE];   /* written before `failed` */
    cero_comm_ring ring;              /* recent operations; torn reads are harmless */
} cero_mpi_page;

/* What is known of a rank whose memory is not shared, and what is on its way to it. */
typedef struct cero_mpi_peer cero_mpi_peer;

/* What a message about a failure says. */
typedef struct cero_mpi_failure {
    int64_t status;
    char message[CERO_MPI_MESSAGE];
} cero_mpi_failure;

/* See above; in mpi_job.c. */
typedef struct cero_mpi_job {
    struct cero_mpi_job *next; /* of this process */
    int references;            /* communicators, and who makes one */
    MPI_Comm comm;             /* owned: messages about life and failure, nothing else */
    MPI_Comm node;             /* owned; MPI_COMM_NULL without shared memory */
    MPI_Win window;            /* owned: the pages; MPI_WIN_NULL without shared memory */
    cero_mpi_page *own;        /* this rank's; in the window, or private */
    cero_mpi_page *first;      /* of local rank 0; without shared memory this rank's */
    cero_mpi_page **page;      /* owned, [size]: of the ranks of this node; others NULL */
    void *private_page;        /* owned: room for a page */
    cero_mpi_peer **peer;      /* owned, [size]: of ranks whose memory is not shared; others NULL */
    cero_mpi_peer *peers;      /* owned: what `peer` points to */
    cero_mpi_failure failure;  /* this rank's, while it is sent */
    int *node_of;              /* owned, [size] */
    int rank;
    int size;
    double timeout;
    bool has_remote; /* there are peers */
    int64_t seen;    /* failures of the node that were looked at */
} cero_mpi_job;

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
    bool is_broken;        /* an error ended the communicator: MPI is not called any more */

    cero_comm *base;
    struct cero_mpi *next;             /* of this process */
    cero_mpi_job *job;                 /* shared */
    int *job_rank;                     /* owned, [size] */
    cero_mpi_control *private_control; /* owned, without shared memory */
} cero_mpi;

/*
 * What this process knows; MPI is one for a process, and so is this (mpi_world.c). An error that ends one
 * communicator ends all: what was on its way cannot be taken back, so that MPI is not called again.
 */
typedef struct cero_mpi_process {
    bool is_ours;       /* MPI was initialised here, and is finalised here */
    int communicators;  /* that live */
    cero_mpi *list;     /* of them */
    cero_mpi_job *jobs; /* that live */
    cero_mpi_job *kept; /* broken ones whose messages may still be on their way */
    /* Why every call fails from now on; OK: it does not. */
    cero_status status;
    char message[CERO_MPI_MESSAGE];
    /* The lowest rank that is known to have failed, -1: none; and what it said. */
    int failed_rank;
    cero_status failed_status;
    char failed_message[CERO_MPI_MESSAGE];
    double pumped; /* when a poll last looked for messages, seconds */
    /*
     * What MPI may write to, or read, after a wait was given up, and so is never on a stack: operations of which
     * one is there at a time use it.
     */
    int64_t number[2];
    MPI_Comm copy;
    void *memory; /* owned, and never freed */
} cero_mpi_process;

cero_mpi_process *cero_mpi_process_get(void);

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

/*
 * Waits for one request while a communicator is made: for `seconds` (negative: for ever), without a peer that
 * could be named. Errors: COMM, REMOTE when a rank of another job failed; both break the process.
 */
CERO_NODISCARD cero_status cero_mpi_wait_plain(MPI_Request *request, double seconds,
                                               const char *what);

/* Least of *value over the ranks of comm, as above. */
CERO_NODISCARD cero_status cero_mpi_min(MPI_Comm comm, double seconds, int64_t *value);

/* As cero_comm_agree, while a communicator is made. Errors: the local status, REMOTE, COMM. */
CERO_NODISCARD cero_status cero_mpi_agree(MPI_Comm comm, double seconds, cero_status local);

/*
 * Waits until all ranks of comm came here, quietly: false when one does not, or the process is broken; it is
 * then. job_rank: their numbers in the job; NULL: the same.
 */
bool cero_mpi_meet(cero_mpi_job *job, MPI_Comm comm, const int *job_rank, double timeout);

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

/*
 * Passes on what a communicator's maker returns: a failure of MPI, after which nobody knows what the other ranks
 * do, through cero_mpi_break. True in *is_sound when ranks can go on together.
 */
cero_status cero_mpi_end_creation(cero_status status, bool *is_sound);

/*
 * Jobs, in mpi_job.c. Collective over comm, of which it makes a duplicate; all ranks are there. The caller has
 * the first reference.
 */
CERO_NODISCARD cero_status cero_mpi_job_create(MPI_Comm comm, const cero_comm_params *params,
                                               cero_mpi_job **out);
/* With the last reference, collective over the job unless the process is broken. */
void cero_mpi_job_release(cero_mpi_job *job);

/*
 * Looks for failures and answers who asks, in all jobs of this process. False when a rank failed: the
 * process's record says which.
 */
bool cero_mpi_pump(void);

/* Says in all jobs that this rank took a step forward (life 0: now), and whether it waits. */
void cero_mpi_show(int64_t life, bool is_waiting);

/* Latest sign of life of a rank of the job, as far as known here; see cero_mpi_page. */
int64_t cero_mpi_life(const cero_mpi_job *job, int rank);
/* When it last did anything; and whether it waits. */
int64_t cero_mpi_beat(const cero_mpi_job *job, int rank);
bool cero_mpi_is_waiting(const cero_mpi_job *job, int rank);
/* Its recent operations; NULL: it gave no answer. */
const cero_comm_ring *cero_mpi_ring(const cero_mpi_job *job, int rank);
/* Asks a rank whose memory is not shared for a sign of life, unless an answer is on its way. */
void cero_mpi_ask(cero_mpi_job *job, int rank);

/* Tells all ranks of all jobs of this process that this one failed; for at most a second. */
void cero_mpi_tell(cero_status status, const char *message);

/* Monotonic nanoseconds. */
int64_t cero_mpi_now(void);

/* The error of a wait without a sign of life, in mpi_report.c: COMM on the rank that reports, else REMOTE. */
cero_status cero_mpi_report(cero_comm *comm, int peer, int64_t begun, const cero_comm_event *event);

/* Shared memory and nodes, in mpi_node.c. */

/*
 * Node number of each rank of comm, consecutive from 0 in the order of first rank: ranks that share memory, or
 * groups of at most ranks_per_node consecutive ranks of them. Errors: COMM, NOMEM, REMOTE.
 */
CERO_NODISCARD cero_status cero_mpi_find_nodes(MPI_Comm comm, const cero_comm_params *params,
                                               int *node);

/*
 * A window over the ranks of comm with the same `node` as this one, `nbytes` cleared bytes for each. When one
 * of all ranks cannot have it, *node_comm is MPI_COMM_NULL on all, and rank 0 warns. Errors: COMM.
 */
CERO_NODISCARD cero_status cero_mpi_window_create(MPI_Comm comm, double seconds, const int *node,
                                                  size_t nbytes, MPI_Comm *node_comm,
                                                  MPI_Win *window);
/* Where the bytes of a rank of the node lie; aligned to CERO_MEM_ALIGNMENT. */
void *cero_mpi_window_at(MPI_Win window, int local_rank);
/* Collective over the node. */
void cero_mpi_window_destroy(MPI_Comm *node_comm, MPI_Win *window);

/* Rounds up to CERO_MEM_ALIGNMENT. */
static inline void *cero_mpi_align(void *address)
{
    size_t over = (uintptr_t)address % CERO_MEM_ALIGNMENT;

    return (char *)address + (over == 0 ? 0 : CERO_MEM_ALIGNMENT - over);
}

/*
 * A communicator over `comm`, which becomes its own, in mpi_comm.c; params without defaults. Errors: COMM,
 * REMOTE, NOMEM.
 */
CERO_NODISCARD cero_status cero_mpi_comm_create(MPI_Comm comm, const cero_comm_params *params,
                                                cero_comm **out);

/* Collectives, in mpi_collective.c. */
cero_status cero_mpi_all_reduce_i64(cero_comm *comm, cero_comm_reduction reduction, int64_t *values,
                                    int64_t count);
cero_status cero_mpi_all_gather(cero_comm *comm, const void *mine, size_t nbytes, void *all);
cero_status cero_mpi_broadcast(cero_comm *comm, void *data, size_t nbytes, int root);
cero_status cero_mpi_send(cero_comm *comm, int peer, int tag, const void *data, size_t nbytes);
cero_status cero_mpi_recv(cero_comm *comm, int peer, int tag, void *data, size_t nbytes);
cero_status cero_mpi_barrier(cero_comm *comm);

/* One communicator less; with the last, MPI is finalised; in mpi_world.c. */
void cero_mpi_leave(void);

/* MPI_Abort, and this process's own end should that not come; in mpi_world.c. */
void cero_mpi_abort(int code);

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
