/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is said when nobody that a wait waits for shows a sign of life: who it is, and what each rank did last,
 * as far as it can be seen in shared memory or came with an answer.
 */
#include "comm/mpi/mpi_job_impl.h"

#include <stdio.h>
#include <string.h>

enum {
    TEXT_LIMIT = 6000 /* bytes after which no rank begins; a message has room for 8192 */
};

/* The newest entry of a ring; NULL without one. */
static const cero_comm_event *newest(const cero_comm_ring *ring)
{
    return ring != NULL && ring->count > 0 ? &ring->event[(ring->count - 1) % CERO_COMM_RECENT]
                                           : NULL;
}

/*
 * How much a rank is to blame: most when it does nothing at all, then when it works on without a sign, then
 * when it waits in another operation than this rank.
 */
static int blame(const cero_mpi_job *job, int rank, int64_t life, const cero_comm_event *event)
{
    const cero_comm_event *e = newest(cero_mpi_ring(job, rank));
    int64_t silence = (cero_mpi_now() - life) / 2;

    if (cero_mpi_now() - cero_mpi_beat(job, rank) > silence) {
        return 3;
    }
    if (cero_mpi_waits_for(job, rank) == CERO_MPI_NOBODY) {
        return 2;
    }
    return e == NULL || e->sequence != event->sequence || strcmp(e->name, event->name) != 0;
}

static int find_culprit(const cero_comm *comm, int64_t life, const cero_comm_event *event)
{
    const cero_mpi *mpi = cero_mpi_of(comm);
    int culprit = -1;
    int most = -1;

    for (int i = 0; i < comm->size; i++) {
        int much = i == comm->rank ? -1 : blame(mpi->job, mpi->job_rank[i], life, event);
        if (much > most) {
            most = much;
            culprit = mpi->job_rank[i];
        }
    }
    return culprit;
}

/* The rank at the end of those that wait one for the other from `rank` on; in a circle, `rank`. */
static int end_of_chain(const cero_mpi_job *job, int rank)
{
    int at = rank;

    for (int steps = 0; steps < job->size; steps++) {
        int next = cero_mpi_waits_for(job, at);
        if (next < 0 || next == job->rank) {
            return next < 0 ? at : rank;
        }
        at = next;
    }
    return rank;
}

/* The first of a node's ranks that asks reports; its number. */
static int reporter_of(cero_mpi_job *job)
{
    int64_t reporter = 0;

    if (atomic_compare_exchange_strong(&job->first->reporter, &reporter, (int64_t)job->rank + 1)) {
        return job->rank;
    }
    return cero_to_int(reporter) - 1;
}

static void write_rank(const cero_mpi_job *job, int rank, cero_text *text)
{
    const cero_comm_ring *ring = cero_mpi_ring(job, rank);

    if (ring == NULL) {
        cero_text_printf(text, "\n  rank %d: no answer", rank);
        return;
    }
    cero_comm_ring copy = *ring;
    cero_text_printf(text, "\n  rank %d%s, recent operations:\n", rank,
                     rank == job->rank ? " (this one)" : "");
    cero_comm_ring_write(&copy, text);
    text->length -= text->length > 0 && text->data[text->length - 1] == '\n';
    text->data[text->length] = '\0';
}

/* Culprit and this rank first; the message has room for a few ranks. */
static void write_table(const cero_comm *comm, int culprit, cero_text *text)
{
    const cero_mpi *mpi = cero_mpi_of(comm);
    int left = comm->size;

    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < comm->size; i++) {
            int rank = mpi->job_rank[i];
            int its_turn = rank == culprit ? 0 : rank == mpi->job->rank ? 1 : 2;
            if (its_turn == turn && text->length < TEXT_LIMIT && !text->has_failed) {
                write_rank(mpi->job, rank, text);
                left--;
            }
        }
    }
    if (left > 0) {
        cero_text_printf(text, "\n  and %d ranks more", left);
    }
}

cero_status cero_mpi_report(cero_comm *comm, int peer, int64_t life, const cero_comm_event *event)
{
    cero_mpi *mpi = cero_mpi_of(comm);
    int culprit =
        peer >= 0 ? end_of_chain(mpi->job, mpi->job_rank[peer]) : find_culprit(comm, life, event);
    const cero_comm_event *e = newest(cero_mpi_ring(mpi->job, culprit));
    int reporter = reporter_of(mpi->job);
    cero_text table = {0};
    char itself[96] = "";
    char who[64] = "";

    if (cero_mpi_waits_for(mpi->job, culprit) != CERO_MPI_NOBODY && e != NULL) {
        (void)snprintf(itself, sizeof(itself), "; it was seen waiting in %.*s (operation %lld)",
                       CERO_COMM_MAX_NAME, e->name, (long long)e->sequence);
    }
    if (reporter == mpi->job->rank) {
        write_table(comm, culprit, &table);
    } else {
        (void)snprintf(who, sizeof(who), "; rank %d reports what each rank did last", reporter);
    }
    // One rank of a node speaks for all that gave up: the others heard of it.
    cero_status st = CERO_FAIL(
        reporter == mpi->job->rank ? CERO_ERR_COMM : CERO_ERR_REMOTE,
        "no sign of life from rank %d for %g s while waiting in %s (operation %lld)%s%s%s", culprit,
        comm->timeout, event->name, (long long)event->sequence, itself, who,
        table.data != NULL ? table.data : "");
    cero_text_cleanup(&table);
    return st;
}
