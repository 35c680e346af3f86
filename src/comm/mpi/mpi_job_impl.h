/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs, and what a process knows of all of its communicators: the part of the transport that makes them, keeps
 * watch over their ranks and lets them break. Exchanges and collectives need nothing of it.
 */
#ifndef CERO_COMM_MPI_MPI_JOB_IMPL_H
#define CERO_COMM_MPI_MPI_JOB_IMPL_H

#include "comm/mpi/mpi_impl.h"

/* Whom a rank waits for, where it is not one rank. */
enum {
    CERO_MPI_ANY = -1,
    CERO_MPI_NOBODY = -2
};

/*
 * What a rank shows of itself to the others of its node, once for each job. Only its owner writes, but for the
 * two words of the node. Times are nanoseconds of the monotonic clock, which the ranks of a node share.
 *
 * Two signs are told apart. `beat` is the time at which the rank last did anything, waiting included: it tells a
 * rank that is gone from one that waits. `life` is what a timeout measures: the time of the rank's last step
 * forward (an instruction, an operation begun or completed), or, while it waits itself, that of whoever it waits
 * for. In a chain behind a rank that computes, all are alive by its steps. In a circle of ranks that wait for
 * each other only times that were are passed on, none of them grows, and the timeout comes.
 */
typedef struct cero_mpi_page {
    _Alignas(64) _Atomic int64_t beat;
    _Atomic int64_t life;
    _Atomic int64_t waits_for; /* a rank of the job, or one of the above */
    _Atomic int64_t failed;    /* status; 0: has not failed */
    /* Of the node, in the page of local rank 0: how many of its ranks failed; and 1 + the rank that reports a
     * timeout, 0: none. */
    _Alignas(64) _Atomic int64_t failures;
    _Atomic int64_t reporter;
    char message[CERO_MPI_MESSAGE]; /* written before `failed` */
    cero_comm_ring ring;            /* recent operations; torn reads are harmless */
} cero_mpi_page;

/* A page as a message. Ages, as the clocks of two nodes differ. */
typedef struct cero_mpi_answer {
    int64_t now; /* of the sender's clock, to which the ring's times belong */
    int64_t life_age;
    int64_t waits_for;
    cero_comm_ring ring;
} cero_mpi_answer;

/* What is known of a rank whose memory is not shared, and what is on its way to it. */
typedef struct cero_mpi_peer {
    MPI_Request ping;
    MPI_Request pong;
    MPI_Request fail;
    bool is_asked; /* its answer is on the way */
    bool has_answered;
    int64_t asked; /* when */
    int64_t life;
    int64_t beat;
    int64_t waits_for;
    cero_mpi_answer sent; /* belongs to `pong` until that is complete */
    cero_comm_ring ring;
} cero_mpi_peer;

/* What a message about a failure says. */
typedef struct cero_mpi_failure {
    int64_t status;
    char message[CERO_MPI_MESSAGE];
} cero_mpi_failure;

struct cero_mpi_job {
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
};

/*
 * What this process knows; MPI is one for a process, and so is this (mpi_world.c). An error that ends one
 * communicator ends all: what was on its way cannot be taken back, so that MPI is asked for nothing new.
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

/* One communicator less; with the last, MPI is finalised. */
void cero_mpi_leave(void);

/* MPI_Abort, and this process's own end should that not come. */
void cero_mpi_abort(int code);

/*
 * Making communicators. These wait for one request at a time: for `seconds` (negative: for ever), without a peer
 * that could be named. Errors: COMM, REMOTE when a rank of another job failed; both break the process.
 */
CERO_NODISCARD cero_status cero_mpi_wait_plain(MPI_Request *request, double seconds,
                                               const char *what);

/* Least of *value over the ranks of comm. */
CERO_NODISCARD cero_status cero_mpi_min(MPI_Comm comm, double seconds, int64_t *value);

/* As cero_comm_agree. Errors: the local status, REMOTE, COMM. */
CERO_NODISCARD cero_status cero_mpi_agree(MPI_Comm comm, double seconds, cero_status local);

/*
 * Passes on what a communicator's maker returns: a failure of MPI, after which nobody knows what the other ranks
 * do, through cero_mpi_break. True in *is_sound when ranks can go on together.
 */
cero_status cero_mpi_end_creation(cero_status status, bool *is_sound);

/*
 * Waits until all ranks of comm came here, quietly: false when one does not, or the process is broken; it is
 * then. job_rank: their numbers in the job; NULL: the same.
 */
bool cero_mpi_meet(cero_mpi_job *job, MPI_Comm comm, const int *job_rank, double timeout);

/*
 * A communicator over `comm`, which becomes its own, in mpi_comm.c; params without defaults. Errors: COMM,
 * REMOTE, NOMEM.
 */
CERO_NODISCARD cero_status cero_mpi_comm_create(MPI_Comm comm, const cero_comm_params *params,
                                                cero_comm **out);

/*
 * A job over comm, of which it makes a duplicate; all ranks are there. The caller has the first reference.
 * Errors: COMM, REMOTE, NOMEM.
 */
CERO_NODISCARD cero_status cero_mpi_job_create(MPI_Comm comm, const cero_comm_params *params,
                                               cero_mpi_job **out);
/* With the last reference, collective over the job unless the process is broken. */
void cero_mpi_job_release(cero_mpi_job *job);

/* Life and failure, in mpi_life.c: monotonic nanoseconds. */
int64_t cero_mpi_now(void);

/*
 * Looks for failures and answers who asks, in all jobs of this process. False when a rank failed: the
 * process's record says which.
 */
bool cero_mpi_pump(void);
void cero_mpi_look_for_messages(cero_mpi_job *job);

/* Says that this rank took a step forward; or that it waits, and of whose life it knows. */
void cero_mpi_show_step(void);
void cero_mpi_show_wait(const cero_mpi_job *job, int64_t life, int waits_for);

/* What is known here of a rank of the job; see cero_mpi_page. */
int64_t cero_mpi_life(const cero_mpi_job *job, int rank);
int64_t cero_mpi_beat(const cero_mpi_job *job, int rank);
int cero_mpi_waits_for(const cero_mpi_job *job, int rank);
/* Its recent operations; NULL: it gave no answer. */
const cero_comm_ring *cero_mpi_ring(const cero_mpi_job *job, int rank);
/* Asks a rank whose memory is not shared for a sign of life, unless an answer is on its way. */
void cero_mpi_ask(cero_mpi_job *job, int rank);

/* Tells all ranks of all jobs of this process that this one failed; for at most a second. */
void cero_mpi_tell(cero_status status, const char *message);

/*
 * The error of a wait in which nobody showed a sign since `life`, in mpi_report.c: COMM on the rank that reports,
 * else REMOTE.
 */
cero_status cero_mpi_report(cero_comm *comm, int peer, int64_t life, const cero_comm_event *event);

/*
 * Shared memory and nodes, in mpi_node.c. Node number of each rank of comm, consecutive from 0 in the order of
 * first rank: ranks that share memory, or groups of at most ranks_per_node consecutive ranks of them. Errors:
 * COMM, REMOTE.
 */
CERO_NODISCARD cero_status cero_mpi_find_nodes(MPI_Comm comm, const cero_comm_params *params,
                                               int *node);

/*
 * A window over the ranks of comm with the same `node` as this one, `nbytes` cleared bytes for each. When one
 * of all ranks cannot have it, *node_comm is MPI_COMM_NULL on all, and rank 0 warns. Errors: COMM, REMOTE.
 */
CERO_NODISCARD cero_status cero_mpi_window_create(MPI_Comm comm, double seconds, const int *node,
                                                  size_t nbytes, MPI_Comm *node_comm,
                                                  MPI_Win *window);
/* Collective over the node. */
void cero_mpi_window_destroy(MPI_Comm *node_comm, MPI_Win *window);

#endif
