/* SPDX-License-Identifier: Apache-2.0 */
/* The names, formulas and table of comms_report.h; the counting itself is the communicator's. */
#include "train/comms_report.h"

#include "base/log.h"
#include "base/memory.h"

#include <string.h>

struct cero_comms_report {
    const cero_train_spec *spec; /* borrowed, like comm */
    cero_comm *comm;
    cero_log_level level_before; /* verbose raises it */
    int line_count;
    cero_comm_log_line *lines; /* owned: what was counted before begin */
};

/* DeepSpeed's names; the first of a kind is the one that is printed. */
static const struct {
    const char *name;
    cero_comm_kind kind;
} ops[] = {
    {"all_gather_into_tensor", CERO_COMM_ALL_GATHER_UNIT},
    {"allgather_fn", CERO_COMM_ALL_GATHER_UNIT},
    {"all_gather_coalesced", CERO_COMM_ALL_GATHER_UNIT},
    {"all_gather_unit", CERO_COMM_ALL_GATHER_UNIT},
    {"reduce_scatter_tensor", CERO_COMM_REDUCE_UNIT},
    {"reduce_scatter_fn", CERO_COMM_REDUCE_UNIT},
    {"reduce_scatter", CERO_COMM_REDUCE_UNIT},
    {"reduce", CERO_COMM_REDUCE_UNIT},
    {"reduce_unit", CERO_COMM_REDUCE_UNIT},
    {"all_reduce", CERO_COMM_ALL_REDUCE},
    {"inference_all_reduce", CERO_COMM_ALL_REDUCE},
    {"all_reduce_coalesced", CERO_COMM_ALL_REDUCE},
    {"all_gather", CERO_COMM_ALL_GATHER},
    {"all_gather_object", CERO_COMM_ALL_GATHER},
    {"broadcast", CERO_COMM_BROADCAST},
    {"broadcast_object_list", CERO_COMM_BROADCAST},
    {"send", CERO_COMM_SEND},
    {"isend", CERO_COMM_SEND},
    {"recv", CERO_COMM_RECV},
    {"irecv", CERO_COMM_RECV},
    {"barrier", CERO_COMM_BARRIER},
    {"monitored_barrier", CERO_COMM_BARRIER},
};

const char *cero_comms_op_name(cero_comm_kind kind)
{
    for (size_t i = 0; i < CERO_COUNT_OF(ops); i++) {
        if (ops[i].kind == kind) {
            return ops[i].name;
        }
    }
    return cero_comm_kind_name(kind);
}

bool cero_comms_is_wanted(const cero_train_spec *spec, cero_comm_kind kind)
{
    const cero_patterns *names = &spec->comms_logger_prof_ops;

    for (size_t i = 0; i < CERO_COUNT_OF(ops) && !spec->comms_logger_prof_all; i++) {
        for (int k = 0; k < names->count && ops[i].kind == kind; k++) {
            if (strcmp(names->pattern[k], ops[i].name) == 0) {
                return true;
            }
        }
    }
    return spec->comms_logger_prof_all;
}

double cero_comms_message_bytes(cero_comm_kind kind, double payload, int size)
{
    switch (kind) {
    case CERO_COMM_ALL_GATHER_UNIT:
    case CERO_COMM_REDUCE_UNIT:
    case CERO_COMM_ALL_GATHER:
    case CERO_COMM_BROADCAST:
        return size > 1 ? payload / (size - 1) : 0;
    case CERO_COMM_ALL_REDUCE:
    case CERO_COMM_SEND:
    case CERO_COMM_RECV:
    case CERO_COMM_BARRIER:
    case CERO_COMM_KIND_COUNT:
    default:
        return payload;
    }
}

cero_comms_rate cero_comms_rate_of(cero_comm_kind kind, double nbytes, double seconds, int size)
{
    double bits = seconds > 0 ? 8 * nbytes / seconds : 0;
    double n = size;

    switch (kind) {
    case CERO_COMM_ALL_GATHER_UNIT:
    case CERO_COMM_REDUCE_UNIT:
    case CERO_COMM_ALL_GATHER:
        // The message is one rank's part of n.
        return (cero_comms_rate){.throughput = n * bits, .bus = n * bits * (n - 1) / n};
    case CERO_COMM_ALL_REDUCE:
        return (cero_comms_rate){.throughput = 2 * bits, .bus = bits * 2 * (n - 1) / n};
    case CERO_COMM_BROADCAST:
    case CERO_COMM_SEND:
    case CERO_COMM_RECV:
    case CERO_COMM_BARRIER:
    case CERO_COMM_KIND_COUNT:
    default:
        return (cero_comms_rate){.throughput = bits, .bus = bits};
    }
}

/* Verbose: a line of the rank's log; with debug it says whose parameters or gradients. */
static void observe(void *context, const cero_comm_operation *op)
{
    const cero_comms_report *report = context;
    int size = cero_comm_size(report->comm);
    double nbytes = cero_comms_message_bytes(op->kind, (double)op->nbytes, size);
    cero_comms_rate rate = cero_comms_rate_of(op->kind, nbytes, op->seconds, size);
    const char *unit = report->spec->comms_logger_debug ? op->unit : NULL;

    if (cero_comms_is_wanted(report->spec, op->kind)) {
        cero_log(CERO_LOG_DEBUG, "comm",
                 "%s%s%s | time: %.3f ms | message size: %.0f bytes | throughput: %.2f Gbit/s | "
                 "bus: %.2f Gbit/s",
                 cero_comms_op_name(op->kind), unit != NULL ? " of " : "", unit != NULL ? unit : "",
                 op->seconds * 1e3, nbytes, rate.throughput * 1e-9, rate.bus * 1e-9);
    }
}

static cero_status keep_lines(cero_comms_report *report)
{
    cero_comm_log_line line;

    while (cero_comm_get_log_line(report->comm, report->line_count, &line)) {
        report->line_count++;
    }
    report->lines = cero_new((size_t)report->line_count, sizeof(cero_comm_log_line));
    CERO_CHECK(report->lines != NULL, CERO_ERR_NOMEM, "no memory for the communication log");
    for (int i = 0; i < report->line_count; i++) {
        (void)cero_comm_get_log_line(report->comm, i, &report->lines[i]);
    }
    return CERO_OK;
}

cero_status cero_comms_report_begin(const cero_train_spec *spec, cero_comm *comm,
                                    cero_comms_report **out)
{
    *out = NULL;
    if (!spec->comms_logger_enabled) {
        return CERO_OK;
    }
    cero_comms_report *report = cero_new(1, sizeof(*report));
    CERO_CHECK(report != NULL, CERO_ERR_NOMEM, "no memory for the communication log");
    report->spec = spec;
    report->comm = comm;
    report->level_before = cero_log_get_level();
    cero_status st = keep_lines(report);
    if (st != CERO_OK) {
        cero_comms_report_end(&report);
        return st;
    }
    if (spec->comms_logger_verbose) {
        cero_log_set_level(report->level_before > CERO_LOG_DEBUG ? report->level_before
                                                                 : CERO_LOG_DEBUG);
        cero_comm_set_observer(comm, observe, report);
    }
    *out = report;
    return CERO_OK;
}

void cero_comms_report_end(cero_comms_report **report)
{
    if (report == NULL || *report == NULL) {
        return;
    }
    if ((*report)->spec->comms_logger_verbose) {
        cero_comm_set_observer((*report)->comm, NULL, NULL);
        cero_log_set_level((*report)->level_before);
    }
    cero_delete((*report)->lines);
    cero_delete(*report);
    *report = NULL;
}

/* Line i since begin. Lines only come to the end of the list, so that the i-th stays the i-th. */
static bool get_line(const cero_comms_report *report, int i, cero_comm_log_line *out)
{
    if (!cero_comm_get_log_line(report->comm, i, out)) {
        return false;
    }
    if (i < report->line_count) {
        out->calls -= report->lines[i].calls;
        out->seconds -= report->lines[i].seconds;
    }
    return true;
}

static void write_line(const cero_comms_report *report, const cero_comm_log_line *line,
                       cero_text *out)
{
    int size = cero_comm_size(report->comm);
    double nbytes = cero_comms_message_bytes(line->kind, (double)line->nbytes, size);
    double average = line->seconds / (double)line->calls;
    cero_comms_rate rate = cero_comms_rate_of(line->kind, nbytes, average, size);
    char text[32];

    cero_text_printf(out, "%-24s %12s %8lld %12.3f %12.3f %12.2f %12.2f\n",
                     cero_comms_op_name(line->kind), cero_text_bytes(nbytes, text, sizeof(text)),
                     (long long)line->calls, line->seconds * 1e3, average * 1e3,
                     rate.throughput * 1e-9, rate.bus * 1e-9);
}

/* The line of `kind` with the least size above `above`, since begin; false: none. */
static bool next_line(const cero_comms_report *report, cero_comm_kind kind, int64_t above,
                      cero_comm_log_line *out)
{
    cero_comm_log_line line;
    bool is_found = false;

    for (int i = 0; get_line(report, i, &line); i++) {
        if (line.kind == kind && line.calls > 0 && line.nbytes > above &&
            (!is_found || line.nbytes < out->nbytes)) {
            *out = line;
            is_found = true;
        }
    }
    return is_found;
}

cero_status cero_comms_report_write(const cero_comms_report *report, cero_text *out)
{
    int count = 0;

    cero_text_printf(out, "communication of rank %d of %d while training\n",
                     cero_comm_rank(report->comm), cero_comm_size(report->comm));
    cero_text_printf(out, "%-24s %12s %8s %12s %12s %12s %12s\n", "operation", "message size",
                     "count", "total ms", "average ms", "Gbit/s", "bus Gbit/s");
    for (int kind = 0; kind < CERO_COMM_KIND_COUNT; kind++) {
        cero_comm_log_line line = {.nbytes = -1};
        if (!cero_comms_is_wanted(report->spec, (cero_comm_kind)kind)) {
            continue;
        }
        while (next_line(report, (cero_comm_kind)kind, line.nbytes, &line)) {
            write_line(report, &line, out);
            count++;
        }
    }
    if (count == 0) {
        cero_text_printf(out, "nothing was exchanged\n");
    }
    return cero_text_finish(out);
}
