/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two large exchanges of training, planned once and run every step: *reduce* adds what all ranks
 * contribute to a range of elements, in a fixed order and in fp32, at the owner of each part; *gather* brings
 * the parts of a range together on every rank.
 *
 * Each runs in three halves, so that a program can put work between them: start says that this rank's input
 * is ready, finish makes the output ready, release waits until no peer reads this rank's memory any more.
 * All ranks call start of the same exchanges in the same order.
 */
#ifndef CERO_COMM_EXCHANGE_H
#define CERO_COMM_EXCHANGE_H

#include "comm/comm.h"
#include "device/device.h"

typedef struct cero_exchange cero_exchange;

/* In which order contributions are added. */
typedef enum cero_exchange_order {
    CERO_EXCHANGE_FLAT = 0, /* rank by rank */
    CERO_EXCHANGE_NODE = 1  /* rank by rank inside each node, the node sums (rounded once to the
                               contributions' dtype) node by node; a node's link carries each element once */
} cero_exchange_order;

typedef struct cero_reduce_params {
    const char *name;         /* of the unit, for diagnosis; borrowed, outlives the exchange */
    cero_device *device;      /* borrowed */
    cero_dtype dtype;         /* of the contributions */
    const int64_t *border;    /* [size + 1]: rank j owns elements border[j] .. border[j + 1] of the
                                   range; copied */
    cero_comm_buffer *source; /* borrowed: the contribution of each rank, the whole range, begins */
    size_t source_offset;     /* at this byte of it, on every rank */
    float *sum;     /* [border[rank + 1] - border[rank]], borrowed: this rank's part; may be
                                   that part of its f32 contribution, if each run is a first one */
    int64_t bucket; /* elements of the range exchanged at once over all ranks; 0: all */
    cero_exchange_order order; /* NODE needs shared memory when a node has several ranks */
    void *landing; /* cero_reduce_landing_bytes, borrowed; not shared with an exchange that is
                                   started and not yet released */
} cero_reduce_params;

/*
 * Bytes of `landing` that a reduction with these borders, dtype, bucket and order needs on this rank; 0 where
 * memory is shared. Pointers in params are not looked at. Not collective.
 */
size_t cero_reduce_landing_bytes(const cero_comm *comm, const cero_reduce_params *params);

/*
 * Plans a reduction. On a virtual communicator only the counters move.
 *
 * Collective: over comm.
 * Errors:     NOMEM, COMM, REMOTE, INVALID (order NODE without shared memory).
 * Cost of a run: (N-1)/N of the range's bytes sent per rank; order NODE (M-1)/M per node between nodes.
 */
CERO_NODISCARD cero_status cero_reduce_create(cero_comm *comm, const cero_reduce_params *params,
                                              cero_exchange **out);

typedef struct cero_gather_params {
    const char *name;         /* as above */
    cero_device *device;      /* borrowed */
    size_t element_size;      /* bytes */
    const int64_t *border;    /* [size + 1], as above; copied */
    cero_comm_buffer *source; /* borrowed: rank j's part begins at byte source_at[j] of rank j's */
    const size_t *source_at;  /* [size]; copied */
    cero_comm_buffer *dest;   /* borrowed: the whole range begins at this byte of it, on every */
    size_t dest_offset;       /* rank. May be the source, the own part lying where it belongs */
} cero_gather_params;

/*
 * Plans a gather. A node receives what it lacks once and its ranks share it; where dest is one per node its
 * ranks copy nothing.
 *
 * Collective: over comm.
 * Errors:     NOMEM, COMM, REMOTE.
 * Cost of a run: (N-1)/N of the range's bytes sent per rank, (M-1)/M per node between nodes.
 */
CERO_NODISCARD cero_status cero_gather_create(cero_comm *comm, const cero_gather_params *params,
                                              cero_exchange **out);

/* What this rank sends in one run; the counters of comm.h move by it. */
typedef struct cero_exchange_cost {
    int64_t messages;
    int64_t bytes;
    int64_t bytes_between_nodes;
} cero_exchange_cost;

/*
 * The cost of an exchange that has these params, known without planning it, for messages of 1 GiB at most: of a
 * reduction borders, dtype, bucket and order count, of a gather borders and element size. Not collective.
 */
cero_exchange_cost cero_reduce_cost(cero_comm *comm, const cero_reduce_params *params);
cero_exchange_cost cero_gather_cost(cero_comm *comm, const cero_gather_params *params);

/* Not collective; an exchange that was started must be released before. */
void cero_exchange_destroy(cero_exchange **exchange);

/*
 * This rank's input is ready. A reduction with is_first writes the sums instead of adding to them.
 *
 * Collective: over comm; does not wait.
 * Errors:     COMM, REMOTE.
 */
CERO_NODISCARD cero_status cero_exchange_start(cero_exchange *exchange, bool is_first);

/*
 * Waits for the peers' input and completes the output of this rank.
 *
 * Collective: over comm.
 * Errors:     COMM, REMOTE.
 */
CERO_NODISCARD cero_status cero_exchange_finish(cero_exchange *exchange);

/*
 * Waits until no peer reads this rank's input, nor what it received for its node: that memory may change then.
 *
 * Collective: over comm.
 * Errors:     COMM, REMOTE.
 */
CERO_NODISCARD cero_status cero_exchange_release(cero_exchange *exchange);

#endif
