/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table that a transport fills, and what every communicator, buffer and exchange begins with; for comm/
 * and its transports only.
 *
 * comm.c checks arguments, counts, keeps the ring of recent operations and passes the call on; what only one
 * rank is there for (a size of 1) never reaches a transport's collective.
 */
#ifndef CERO_COMM_COMM_TRANSPORT_H
#define CERO_COMM_COMM_TRANSPORT_H

#include "comm/comm.h"
#include "comm/exchange.h"

enum {
    CERO_COMM_RECENT = 16,   /* operations of the ring */
    CERO_COMM_MAX_NAME = 40, /* characters of a name in the ring */
    CERO_COMM_LOG_LINES = 128
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
    double timeout; /* seconds; negative: never */
    int64_t sequence;
    cero_comm_ring own_ring;
    cero_comm_ring *ring; /* where events go: own_ring, or the transport's shared memory */
    cero_comm_counter counter[CERO_COMM_KIND_COUNT];
    cero_comm_log_line log[CERO_COMM_LOG_LINES];
    int log_count;
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
    /* one of these, by kind; border and source_at point to copies */
    cero_reduce_params reduce;
    cero_gather_params gather;
    size_t *source_at; /* owned, [size]; gather */
};

/*
 * Fills a communicator's node tables from the node number of each rank (consecutive from 0, in the order of
 * first rank). Not collective. Errors: NOMEM.
 */
CERO_NODISCARD cero_status cero_comm_set_nodes(cero_comm *comm, const int *node);

/* Starts an exchange's struct of `size` bytes: copies borders, sets payload and kind. Not collective.
 * Errors: NOMEM. */
CERO_NODISCARD cero_status cero_exchange_init_reduce(cero_comm *comm,
                                                     const cero_reduce_params *params, size_t size,
                                                     cero_exchange **out);
CERO_NODISCARD cero_status cero_exchange_init_gather(cero_comm *comm,
                                                     const cero_gather_params *params, size_t size,
                                                     cero_exchange **out);

/* Frees what the init functions made, and the struct. Not collective. */
void cero_exchange_cleanup(cero_exchange *exchange);

/*
 * sum = (or +=) contributions[0] + contributions[1] + … , each element in that order in f32: over the threads,
 * block by block, so that sums stay in the cache. Contributions are of `dtype`. Not collective.
 */
void cero_exchange_add(cero_device *device, cero_dtype dtype, int64_t n,
                       const void *const *contributions, int count, bool is_first, float *sum);

/*
 * Elements of this rank's part that a reduction exchanges at once, and the memory it takes for what comes in
 * by message. Not collective.
 */
int64_t cero_exchange_piece(const cero_comm *comm, const int64_t *border, int64_t bucket);
size_t cero_exchange_landing_bytes(const cero_comm *comm, const cero_reduce_params *params);

/* Counts calls of a kind and their payload; calls 0 adds seconds to calls that were counted. Not
 * collective. */
void cero_comm_count(cero_comm *comm, cero_comm_kind kind, int calls, int64_t nbytes,
                     double seconds);

/* Appends an event to the ring; returns it so that its state can be moved on. Not collective. */
cero_comm_event *cero_comm_record(cero_comm *comm, const char *name, int64_t nbytes);

/* Formats a ring, newest last. Not collective. */
void cero_comm_ring_write(const cero_comm_ring *ring, cero_text *out);

#endif
