/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communicators: what ranks say to each other, and memory that the ranks of a node can read in each other.
 *
 * The transport is a table of functions behind one type (comm_transport.h): `self`, a world of one; `mpi`,
 * between processes, with shared-memory windows between ranks of a node; `virtual`, a rank of a world that
 * does not exist, for plans. Large exchanges (a unit's gradients, a unit's parameters) are in exchange.h.
 *
 * Every waiting call watches its peers: one that failed, or shows no sign of life for the timeout, ends the
 * wait with an error that names it. A peer that waits itself is alive as long as the one it waits for is, so that
 * ranks that wait for each other in vain are found as well. After such an error every communicator of this process
 * can only be destroyed, and no other is made.
 */
#ifndef CERO_COMM_COMM_H
#define CERO_COMM_COMM_H

#include "base/exact.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"

typedef struct cero_comm cero_comm;

/* How a communicator between processes behaves; zero means the default. */
typedef struct cero_comm_params {
    double timeout_seconds; /* of a peer without a sign of life; 0: 60; negative: never */
    int ranks_per_node; /* 0: ranks that share memory form a node; else consecutive ranks by count */
    bool no_shared_memory; /* messages only, also inside a node */
    int64_t message_limit; /* most bytes of one message; 0: 1 GiB. Tests lower it */
} cero_comm_params;

/* A world of one. Not collective. */
CERO_NODISCARD cero_status cero_comm_create_self(cero_comm **out);

/*
 * Rank `rank` of a world of `size` that does not exist: sizes and counters are those of a real one with these
 * params, nothing is sent. Without ranks_per_node all ranks share one node.
 * Errors: INVALID, NOMEM. Not collective.
 */
CERO_NODISCARD cero_status cero_comm_create_virtual(int rank, int size,
                                                    const cero_comm_params *params,
                                                    cero_comm **out);

/*
 * The world this process was started in: by mpirun, mpiexec or srun, else a world of one. Initialises MPI
 * when nobody did, and finalises it then with the last communicator.
 *
 * A launcher that promised more ranks than MPI sees is refused: two jobs would write the same files.
 *
 * Collective: over the world.
 * Errors:     INVALID, COMM, UNSUPPORTED (started by mpirun, and built without MPI).
 */
CERO_NODISCARD cero_status cero_comm_create_world(const cero_comm_params *params, cero_comm **out);

/*
 * The ranks of a caller's MPI communicator, of which a duplicate is used. `mpi_comm` points to an MPI_Comm of
 * `nbytes` bytes: no other folder knows that type (include/cero/mpi.h does).
 *
 * Collective: over the communicator.
 * Errors:     INVALID, COMM, UNSUPPORTED.
 */
CERO_NODISCARD cero_status cero_comm_create_from(const void *mpi_comm, size_t nbytes,
                                                 const cero_comm_params *params, cero_comm **out);

/*
 * Ranks with the same color form a new communicator, in the order of key, then rank. color -1: none (*out is
 * NULL then).
 *
 * Collective: over comm.
 * Errors:     COMM, REMOTE, NOMEM.
 */
CERO_NODISCARD cero_status cero_comm_split(cero_comm *comm, int color, int key, cero_comm **out);

/*
 * Waits for all ranks, since shared memory goes with the last of them. After an error nobody is waited for.
 *
 * Collective: over comm, unless an error ended it.
 */
void cero_comm_destroy(cero_comm **comm);

/*
 * Ends every process of the job with `code`; returns in a world of one. For the owner of the process, after
 * an error, never for the library. Not collective.
 */
void cero_comm_abort(cero_comm *comm, int code);

/* This process's number and how many there are. Not collective. */
int cero_comm_rank(const cero_comm *comm);
int cero_comm_size(const cero_comm *comm);
bool cero_comm_is_virtual(const cero_comm *comm);

/* Nodes: how many, that of a rank, a rank's number there, how many share one. Not collective. */
int cero_comm_node_count(const cero_comm *comm);
int cero_comm_node_of(const cero_comm *comm, int rank);
int cero_comm_local_rank(const cero_comm *comm, int rank);
int cero_comm_node_size(const cero_comm *comm, int node);
/* The rank of a node with the given number there. Not collective. */
int cero_comm_rank_at(const cero_comm *comm, int node, int local_rank);

/* True when ranks of a node read each other's buffers. Not collective. */
bool cero_comm_has_shared_memory(const cero_comm *comm);

/* "self", "mpi", "virtual"; and the MPI library in use, "none" without. Not collective. */
const char *cero_comm_transport_name(const cero_comm *comm);
const char *cero_comm_mpi_library(void);

/* Seconds without a sign of life of a peer that end a wait; negative: never. Not collective. */
void cero_comm_set_timeout(cero_comm *comm, double seconds);

/*
 * Agrees on failure: every rank gives its local status; all get OK, or the failing ranks their own status
 * and the others REMOTE, with the number and the message of the first. Called before a collective that a
 * local failure would leave hanging.
 *
 * Collective: over comm.
 * Errors:     the local status, REMOTE, COMM.
 * Cost:       one all_gather of 4 bytes.
 */
CERO_NODISCARD cero_status cero_comm_agree(cero_comm *comm, cero_status local);

/*
 * Tells all ranks that this one leaves with `status`: their waits end with REMOTE, now and later, and their
 * message carries this thread's error message. For failures between two collectives. Returns `status`.
 *
 * A rank that has heard of another's failure tells nobody: they know.
 *
 * Not collective.
 */
cero_status cero_comm_fail(cero_comm *comm, cero_status status);

/*
 * Lowest rank that called cero_comm_fail, as far as known here; -1: none. Its number is that of the world, or of
 * the caller's communicator, that comm is or was split from; so are the numbers in messages. Not collective.
 */
int cero_comm_failed_rank(cero_comm *comm);

/*
 * Who reports when several ranks fail: the lowest that failed in the latest agreement (-1: none did, or this rank
 * left before it heard), of which that rank always knows; else the first that told, and is_late is what the
 * others are. Not collective.
 */
int cero_comm_agreed_failure(const cero_comm *comm);
bool cero_comm_is_late(const cero_comm *comm);

/*
 * Adds exact sums over ranks, limb by limb: the result has the same bits for any number of ranks.
 *
 * Collective: over comm.
 * Errors:     COMM, REMOTE.
 * Cost:       one all_reduce of count * sizeof(cero_exact) bytes.
 */
CERO_NODISCARD cero_status cero_comm_all_reduce_exact(cero_comm *comm, cero_exact *sums, int count);

typedef enum cero_comm_reduction {
    CERO_COMM_SUM = 0,
    CERO_COMM_MIN = 1,
    CERO_COMM_MAX = 2
} cero_comm_reduction;

/*
 * Sum, least or greatest of integers over ranks.
 *
 * Collective: over comm.
 * Errors:     COMM, REMOTE.
 * Cost:       one all_reduce of 8 * count bytes.
 */
CERO_NODISCARD cero_status cero_comm_all_reduce_i64(cero_comm *comm, cero_comm_reduction reduction,
                                                    int64_t *values, int64_t count);

/*
 * all[r * nbytes ..] = what rank r gave as mine.
 *
 * Collective: over comm.
 * Errors:     COMM, REMOTE.
 * Cost:       (N-1) * nbytes per rank.
 */
CERO_NODISCARD cero_status cero_comm_all_gather(cero_comm *comm, const void *mine, size_t nbytes,
                                                void *all);

/*
 * data of root, on all ranks.
 *
 * Collective: over comm.
 * Errors:     COMM, REMOTE.
 * Cost:       nbytes received per rank.
 */
CERO_NODISCARD cero_status cero_comm_broadcast(cero_comm *comm, void *data, size_t nbytes,
                                               int root);

/*
 * One message to or from `peer`; `tag` (0 .. 999) tells messages between two ranks apart. The sizes must agree.
 *
 * Not collective: each send meets one recv.
 * Errors: COMM, REMOTE, INVALID (another size came).
 */
CERO_NODISCARD cero_status cero_comm_send(cero_comm *comm, int peer, int tag, const void *data,
                                          size_t nbytes);
CERO_NODISCARD cero_status cero_comm_recv(cero_comm *comm, int peer, int tag, void *data,
                                          size_t nbytes);

/* Collective: over comm. Errors: COMM, REMOTE. Cost: one all_reduce without data. */
CERO_NODISCARD cero_status cero_comm_barrier(cero_comm *comm);

/*
 * Checks that all ranks hold the same bytes; an error names `what` and the first rank that differs from
 * rank 0, on every rank.
 *
 * Collective: over comm.
 * Errors:     INVALID, COMM, REMOTE.
 * Cost:       one all_gather of 8 bytes.
 */
CERO_NODISCARD cero_status cero_comm_check_same(cero_comm *comm, const char *what, const void *data,
                                                size_t nbytes);

/*
 * The same for a finished text that is not empty. The rank that differs tells the first line that does: INVALID
 * there, REMOTE elsewhere.
 *
 * Collective: over comm.
 * Errors:     INVALID, REMOTE, COMM, NOMEM.
 * Cost:       one broadcast of the text.
 */
CERO_NODISCARD cero_status cero_comm_check_same_text(cero_comm *comm, const char *what,
                                                     const cero_text *text);

/*
 * Lets messages advance, answers peers that ask for a sign of life, and is one. Called between instructions.
 * Not collective.
 */
void cero_comm_poll(cero_comm *comm);

/*
 * Says what this rank is about to do ("step 12", "save"); part of what is printed of a rank that is waited
 * for in vain. Not collective.
 */
void cero_comm_note(cero_comm *comm, const char *what, int64_t number);

/* A line for each of this rank's recent operations, newest last. Not collective. */
void cero_comm_write_recent(const cero_comm *comm, cero_text *out);

/* Memory that exchanges read from and write to; ranks of a node can read it in each other. */
typedef struct cero_comm_buffer cero_comm_buffer;

typedef struct cero_comm_buffer_params {
    cero_mem *mem; /* borrowed: the account it counts in */
    cero_mem_category category;
    size_t nbytes;        /* may differ from rank to rank */
    bool is_one_per_node; /* all ranks of a node see the same memory; nbytes equal on all */
    const char *what;     /* names it in errors */
} cero_comm_buffer_params;

/*
 * Allocates, cleared. Without shared memory this is private memory. When the node's shared memory is too
 * small the error says how much is free and where.
 *
 * Collective: over comm.
 * Errors:     NOMEM, COMM, REMOTE; INVALID for one per node without shared memory.
 */
CERO_NODISCARD cero_status cero_comm_buffer_create(cero_comm *comm,
                                                   const cero_comm_buffer_params *params,
                                                   cero_comm_buffer **out);
/* Collective: over comm, unless an error ended it. */
void cero_comm_buffer_destroy(cero_comm_buffer **buffer);
/* Not collective. */
void *cero_comm_buffer_data(const cero_comm_buffer *buffer);

/*
 * Bytes that a buffer of `nbytes` adds to this rank's account: nbytes, or this rank's part of one per node.
 * Not collective.
 */
size_t cero_comm_buffer_bytes(const cero_comm *comm, size_t nbytes, bool is_one_per_node);

/* What was exchanged, by kind. */
typedef enum cero_comm_kind {
    CERO_COMM_ALL_GATHER_UNIT = 0, /* parameters of a unit */
    CERO_COMM_REDUCE_UNIT = 1,     /* gradients of a unit */
    CERO_COMM_ALL_REDUCE = 2,
    CERO_COMM_ALL_GATHER = 3,
    CERO_COMM_BROADCAST = 4,
    CERO_COMM_SEND = 5,
    CERO_COMM_RECV = 6,
    CERO_COMM_BARRIER = 7,
    CERO_COMM_KIND_COUNT
} cero_comm_kind;

/* "all_gather_unit", …; static text. Not collective. */
const char *cero_comm_kind_name(cero_comm_kind kind);

/*
 * Counters of one kind on this rank since the communicator was made. Bytes are payload: what peers get from
 * this rank, by message or by reading its memory.
 */
typedef struct cero_comm_counter {
    int64_t calls;
    int64_t messages;            /* to ranks whose memory is not shared */
    int64_t bytes;               /* to other ranks */
    int64_t bytes_between_nodes; /* the part of it that left the node */
    double seconds;              /* in start, finish and release, waiting included */
} cero_comm_counter;

/* Not collective. */
cero_comm_counter cero_comm_get_counter(const cero_comm *comm, cero_comm_kind kind);

/* Sums over kinds. Not collective. */
cero_comm_counter cero_comm_get_total(const cero_comm *comm);
int64_t cero_comm_bytes_sent(const cero_comm *comm);

/* A finished operation of this rank. */
typedef struct cero_comm_operation {
    cero_comm_kind kind;
    const char *unit; /* whose parameters or gradients; NULL for other kinds */
    int64_t nbytes;   /* payload, as in a line of the communication log */
    double seconds;   /* in start, finish and release, waiting included */
} cero_comm_operation;

/*
 * `observer` is told of each finished operation from now on, on the thread that runs it; NULL: nobody. It must
 * not call the communicator. Not collective.
 */
typedef void (*cero_comm_observer)(void *context, const cero_comm_operation *operation);
void cero_comm_set_observer(cero_comm *comm, cero_comm_observer observer, void *context);

/* One line of the communication log: operations of one kind and size. */
typedef struct cero_comm_log_line {
    cero_comm_kind kind;
    int64_t nbytes; /* of one call's payload at this rank */
    int64_t calls;
    double seconds;
} cero_comm_log_line;

/*
 * Lines by kind and size since the communicator was made; i-th, false at the end. At most 128 sizes are told
 * apart; what comes after is counted with the nearest smaller one. Not collective.
 */
bool cero_comm_get_log_line(const cero_comm *comm, int i, cero_comm_log_line *out);

#endif
