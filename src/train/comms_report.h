/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DeepSpeed's `comms_logger`: a table of what this rank exchanged, by operation and size, and on request a
 * line for each operation. Names are DeepSpeed's, for its users look for them; docs/metrics.md has the list.
 */
#ifndef CERO_TRAIN_COMMS_REPORT_H
#define CERO_TRAIN_COMMS_REPORT_H

#include "engine/engine.h"
#include "spec/train.h"

typedef struct cero_comms_report cero_comms_report;

/*
 * Begins to count; *out is NULL when the config does not enable it. With `verbose` the communicator's observer
 * is taken until end.
 *
 * Not collective.
 * Errors: NOMEM.
 */
CERO_NODISCARD cero_status cero_comms_report_begin(const cero_train_spec *spec, cero_comm *comm,
                                                   cero_comms_report **out);
/* NULL is fine. Not collective. */
void cero_comms_report_end(cero_comms_report **report);

/* The table of what this rank exchanged since begin. Not collective. Errors: NOMEM. */
CERO_NODISCARD cero_status cero_comms_report_write(const cero_comms_report *report, cero_text *out);

/* DeepSpeed's name of a kind: "reduce_scatter_tensor". Not collective. */
const char *cero_comms_op_name(cero_comm_kind kind);

/* True when `prof_all` or one of `prof_ops` asks for the kind. Not collective. */
bool cero_comms_is_wanted(const cero_train_spec *spec, cero_comm_kind kind);

/*
 * DeepSpeed's message size from the payload that a rank of `size` gives its peers: what one of them gets; of an
 * all_reduce the whole. Not collective.
 */
double cero_comms_message_bytes(cero_comm_kind kind, double payload, int size);

/* Bits per second. */
typedef struct cero_comms_rate {
    double throughput;
    double bus; /* what a link carries when the operation is a ring */
} cero_comms_rate;

/* DeepSpeed's formulas, for messages of `nbytes` and `seconds` each; 0 without seconds. Not collective. */
cero_comms_rate cero_comms_rate_of(cero_comm_kind kind, double nbytes, double seconds, int size);

#endif
