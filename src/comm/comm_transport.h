/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table that a transport fills, and what every communicator, buffer and exchange begins with; for comm/
 * and its transports only.
 *
 * comm.c checks arguments, counts, keeps the ring of recent operations and passes the call on; what only one
 * rank is there for (a size of 1) never reaches a transport's collective. Nothing here is collective but the
 * calls of the table, as comm.h and exchange.h say.
 */
#ifndef CERO_COMM_COMM_TRANSPORT_H
#define CERO_COMM_COMM_TRANSPORT_H

#include "comm/comm.h"
#include "comm/exchange.h"

enum {
    CERO_COMM_RECENT = 16,   /* operations of the ring */
    CERO_COMM_MAX_NAME = 40, /* characters of a name in the ring */
    CERO_COMM_LOG_LINES = 128,
    CERO_EXCHANGE_MESSAGE_LIMIT = 1 << 30 /* bytes, by default */
};

/* One entry of the ring of recent operations. Plain data: the ring may lie in shared memory. */
typedef struct cero_comm_event {
    int64_t sequence; /* of this communicator, from 1; 0: empty */
    int64_t nbytes;
    double time; /* cero_clock_now when it began */
    char state;  /* 's' started, 'w' waiting, 'd' done */
    char name[CERO_COMM_MAX_NAME];
} cero_comm_event;

typedef struct cero_comm_ring {
    int64_t count; /* events so far; event k lies at k % CERO_COMM_RECENT */
    cero_comm_event event[CERO_COMM_RECENT];
} cero_comm_ring;

typedef struct cero_comm_ops {
    const char *name;
    /* required; called with sizes above 1 only */
    cero_status (*all_reduce_i64)(cero_comm *comm, cero_comm_reduction reduction, int64_t *values,
                                  int64_t count);
    cero_status (*all_gather)(cero_comm *comm, const void *mine, size_t nbytes, void *all);
    cero_status (*broadcast)(cero_comm *comm, void *data, size_t nbytes, int root);
    cero_status (*send)(cero_comm *comm, int peer, int tag, const void *data, size_t nbytes);
    cero_status (*recv)(cero_comm *comm, int peer, int tag, void *data, size_t nbytes);
    cero_status (*barrier)(cero_comm *comm);
    cero_status (*split)(cero_comm *comm, int color, int key, cero_comm **out);
    /* required; also in a world of one */
    cero_status (*buffer_create)(cero_comm *comm, const cero_comm_buffer_params *params,
                                 cero_comm_buffer **out);
    void (*buffer_destroy)(cero_comm_buffer *buffer);
    cero_status (*reduce_create)(cero_comm *comm, const cero_reduce_params *params,
                                 cero_exchange **out);
    cero_status (*gather_create)(cero_comm *comm, const cero_gather_params *params,
                                 cero_exchange **out);
    void (*exchange_destroy)(cero_exchange *exchange);
    cero_status (*exchange_start)(cero_exchange *exchange, bool is_first);
    cero_status (*exchange_finish)(cero_exchange *exchange);
    cero_status (*exchange_release)(cero_exchange *exchange);
    /* optional: NULL does nothing */
    size_t (*landing_bytes)(const cero_comm *comm, const cero_reduce_params *params); /* NULL: 0 */
    void (*poll)(cero_comm *comm);
    void (*fail)(cero_comm *comm, cero_status status, const char *message);
    int (*failed_rank)(cero_comm *comm); /* NULL: -1 */
    void (*abort)(cero_comm *comm, int code);
    void (*destroy)(cero_comm *comm);
} cero_comm_ops;

struct cero_comm {
    const cero_comm_ops *ops;
    int rank;
    int size;
    int node_count;
    int *node;       /* owned, [size]: node of a rank */
    int *local_rank; /* owned, [size] */
    int *node_size;  /* owned, [node_count] */
    int *rank_at;    /* owned, [size]: ranks node by node */
    int *node_first; /* owned, [node_count + 1]: where a node begins in rank_at */
    bool has_shared_memory;
    double timeout;     /* seconds; negative: never */
    int agreed_failure; /* 1 + lowest rank that failed in the latest agreement; 0: none */
    bool is_late;       /* when this rank failed, another had told of its failure */
    int64_t sequence;
    cero_comm_ring own_ring;
    cero_comm_ring *ring; /* where events go: own_ring, or the transport's shared memory */
    cero_comm_counter counter[CERO_COMM_KIND_COUNT];
    cero_comm_log_line log[CERO_COMM_LOG_LINES];
    int log_count;
    cero_comm_observer observer; /* NULL: nobody */
    void *observer_context;
    void *context; /* the transport's, owned by it */
};

struct cero_comm_buffer {
    cero_comm *comm; /* borrowed */
    cero_mem *mem;   /* borrowed */
    void *data;
    size_t nbytes; /* as asked */
    bool is_one_per_node;
    void *context; /* the transport's */
};

/* What all exchanges have; a transport's own struct begins with it. */
struct cero_exchange {
    cero_comm *comm; /* borrowed */
    cero_comm_kind kind;
    const char *name;
    int64_t *border; /* owned, [size + 1] */
    int64_t numel;   /* of the range */
    int64_t nbytes;  /* payload that peers get from this rank in a run */
    int64_t nbytes_between_nodes;
    int64_t messages; /* of a run */
    bool is_started;
    double seconds; /* of the run at hand, so far */
    /* one of these, by kind; border and source_at point to copies */
    cero_reduce_params reduce;
    cero_gather_params gather;
    size_t *source_at; /* owned, [size]; gather */
};

/*
 * Fills a communicator's node tables from the node number of each rank (consecutive from 0, in the order of
 * first rank). Errors: NOMEM.
 */
CERO_NODISCARD cero_status cero_comm_set_nodes(cero_comm *comm, const int *node);

/*
 * Starts an exchange's struct of `size` bytes: copies borders, sets kind and payload (that of messages of 1 GiB
 * at most). Errors: NOMEM.
 */
CERO_NODISCARD cero_status cero_exchange_init_reduce(cero_comm *comm,
                                                     const cero_reduce_params *params, size_t size,
                                                     cero_exchange **out);
CERO_NODISCARD cero_status cero_exchange_init_gather(cero_comm *comm,
                                                     const cero_gather_params *params, size_t size,
                                                     cero_exchange **out);

/* Frees what the init functions made, and the struct. */
void cero_exchange_cleanup(cero_exchange *exchange);

/* An ordered sum; see cero_exchange_add. */
typedef struct cero_exchange_sum {
    cero_dtype dtype; /* of the contributions */
    int64_t n;
    const void *const *contributions; /* [count], each [n] */
    int count;
    int node_first; /* contributions node_first .. node_first + node_count are one node's: they are added */
    int node_count; /* by themselves and rounded to dtype, which is one term. 0: each is a term */
    bool is_first;
    float *sum; /* [n]; with is_first it may be one of the contributions, in f32 */
} cero_exchange_sum;

/*
 * sum = (or +=) term 0 + term 1 + … , each element in that order in f32: over the threads, block by block, so
 * that sums stay in the cache.
 */
void cero_exchange_add(cero_device *device, const cero_exchange_sum *sum);

/* out = contributions[0] + contributions[1] + … in that order in f32, rounded once to dtype. */
void cero_exchange_add_node(cero_device *device, cero_dtype dtype, int64_t n,
                            const void *const *contributions, int count, void *out);

/* Copies several ranges over the threads, large blocks at a time. */
typedef struct cero_exchange_copy {
    void *to;
    const void *from;
    size_t nbytes;
} cero_exchange_copy;
void cero_exchange_copy_all(cero_device *device, const cero_exchange_copy *copies, int count);

/*
 * Who serves whom (exchange_plan.c). Two ranks are near when they read each other's memory. The server of a
 * part in another node takes it there for all: it receives it in a gather, it adds its node's contributions
 * to it in a reduction by node.
 */
bool cero_exchange_is_near(const cero_comm *comm, int a, int b);
int cero_exchange_server(const cero_comm *comm, int node, int part);

/* True when NODE differs from FLAT: there are several nodes, and one has several ranks. */
bool cero_exchange_is_by_node(const cero_comm *comm, cero_exchange_order order);

/* Elements of part `part` that a reduction exchanges at once, and how many pieces of that it has. */
int64_t cero_exchange_piece(const cero_comm *comm, const cero_reduce_params *params, int part);
int64_t cero_exchange_pieces(const cero_comm *comm, const cero_reduce_params *params, int part);

/*
 * Landing memory of one message stream of part `part`: two pieces that take turns (one if there is no more),
 * each beginning at a multiple of CERO_MEM_ALIGNMENT; the bytes from one to the next, and of all.
 */
size_t cero_exchange_slot_bytes(const cero_comm *comm, const cero_reduce_params *params, int part);
size_t cero_exchange_stream_bytes(const cero_comm *comm, const cero_reduce_params *params,
                                  int part);

/*
 * All landing memory of a reduction on this rank, S(j) being the bytes of one stream of part j:
 * FLAT: S(rank) for every rank that is not near;
 * NODE: S(rank) for every other node, and S(j) for every part j of another node that this rank serves.
 */
size_t cero_exchange_landing_bytes(const cero_comm *comm, const cero_reduce_params *params);

/* Sets the payload counters for messages of at most message_limit bytes. */
void cero_exchange_set_payload(cero_exchange *exchange, int64_t message_limit);

/* Counts calls of a kind and their payload; calls 0 adds seconds to calls that were counted. */
void cero_comm_count(cero_comm *comm, cero_comm_kind kind, int calls, int64_t nbytes,
                     double seconds);

/* Tells the observer, if there is one. */
void cero_comm_tell(const cero_comm *comm, const cero_comm_operation *operation);

/* Appends an event to the ring; returns it so that its state can be moved on. */
cero_comm_event *cero_comm_record(cero_comm *comm, const char *name, int64_t nbytes);

/* Formats a ring, newest last. */
void cero_comm_ring_write(const cero_comm_ring *ring, cero_text *out);

#endif
