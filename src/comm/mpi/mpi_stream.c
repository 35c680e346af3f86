/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Message streams of exchanges: a part on its way between two ranks, cut into messages of which two are under way
 * at once. How far a stream may go at any time is for its exchange to say.
 */
#include "comm/mpi/mpi_exchange_impl.h"

static cero_mpi_stream *add_stream(cero_mpi_stream *streams, int *count, int peer, void *data,
                                   int64_t nbytes)
{
    if (nbytes == 0) {
        return NULL;
    }
    cero_mpi_stream *s = &streams[(*count)++];
    *s = (cero_mpi_stream){.peer = peer, .data = data, .nbytes = nbytes, .piece = nbytes};
    for (int k = 0; k < CERO_MPI_IN_FLIGHT; k++) {
        s->request[k] = MPI_REQUEST_NULL;
    }
    return s;
}

cero_mpi_stream *cero_mpi_add_send(cero_mpi_exchange *x, int peer, void *data, int64_t nbytes)
{
    cero_mpi_stream *s = add_stream(x->send, &x->send_count, peer, data, nbytes);

    if (s != NULL) {
        s->is_send = true;
    }
    return s;
}

cero_mpi_stream *cero_mpi_add_recv(cero_mpi_exchange *x, int peer, void *data, int64_t nbytes)
{
    return add_stream(x->recv, &x->recv_count, peer, data, nbytes);
}

char *cero_mpi_stream_at(const cero_mpi_stream *s, int64_t at)
{
    if (s->slot == 0) {
        return s->data + at;
    }
    return s->data + at / s->piece % CERO_MPI_IN_FLIGHT * s->slot + at % s->piece;
}

/* The oldest message is through; one that came must be as long as the room made for it. */
static cero_status end_message(cero_mpi_stream *s, const char *label, const MPI_Status *status)
{
    int64_t end = s->end[s->ended % CERO_MPI_IN_FLIGHT];
    int came = 0;

    if (!s->is_send) {
        CERO_TRY_MPI(MPI_Get_count(status, MPI_BYTE, &came), "MPI_Get_count");
        CERO_CHECK(
            came == end - s->done, CERO_ERR_COMM,
            "%s: rank %d sent %d bytes where %lld were expected; all ranks must make the same "
            "exchanges in the same order, with the same bucket and message limit",
            label, s->peer, came, (long long)(end - s->done));
    }
    s->done = end;
    s->ended++;
    return CERO_OK;
}

static cero_status end_messages(cero_mpi_stream *s, const char *label, bool *has_moved)
{
    while (s->ended < s->begun) {
        MPI_Status status;
        int is_through = 0;
        CERO_TRY_MPI(MPI_Test(&s->request[s->ended % CERO_MPI_IN_FLIGHT], &is_through, &status),
                     label);
        if (!is_through) {
            break;
        }
        CERO_TRY(end_message(s, label, &status));
        *has_moved = true;
    }
    return CERO_OK;
}

static cero_status begin_messages(cero_mpi_stream *s, const cero_mpi_exchange *x, bool *has_moved)
{
    const cero_mpi *mpi = cero_mpi_of(x->base.comm);
    int tag = CERO_MPI_TAG_EXCHANGE + (int)(x->id % CERO_MPI_SLOTS);

    while (s->posted < s->open && s->begun - s->ended < CERO_MPI_IN_FLIGHT) {
        int64_t piece_end = (s->posted / s->piece + 1) * s->piece;
        int64_t left = (piece_end < s->nbytes ? piece_end : s->nbytes) - s->posted;
        int n = (int)(left < mpi->message_limit ? left : mpi->message_limit);
        char *data = cero_mpi_stream_at(s, s->posted);
        MPI_Request *request = &s->request[s->begun % CERO_MPI_IN_FLIGHT];
        int code = s->is_send ? MPI_Isend(data, n, MPI_BYTE, s->peer, tag, mpi->comm, request)
                              : MPI_Irecv(data, n, MPI_BYTE, s->peer, tag, mpi->comm, request);
        CERO_TRY(cero_mpi_check(code, x->label));
        s->posted += n;
        s->end[s->begun % CERO_MPI_IN_FLIGHT] = s->posted;
        s->begun++;
        *has_moved = true;
    }
    return CERO_OK;
}

static cero_status advance_stream(cero_mpi_stream *s, const cero_mpi_exchange *x)
{
    bool has_moved = true;

    while (has_moved && s->done < s->nbytes) {
        has_moved = false;
        CERO_TRY(begin_messages(s, x, &has_moved));
        CERO_TRY(end_messages(s, x->label, &has_moved));
    }
    return CERO_OK;
}

cero_status cero_mpi_streams_advance(cero_mpi_exchange *x)
{
    // Room for what comes first, so that what is sent meets it.
    for (int k = 0; k < x->recv_count; k++) {
        CERO_TRY(advance_stream(&x->recv[k], x));
    }
    for (int k = 0; k < x->send_count; k++) {
        CERO_TRY(advance_stream(&x->send[k], x));
    }
    return CERO_OK;
}

int cero_mpi_streams_peer(const cero_mpi_stream *streams, int count)
{
    for (int k = 0; k < count; k++) {
        if (streams[k].done < streams[k].nbytes) {
            return streams[k].peer;
        }
    }
    return -1;
}

void cero_mpi_streams_reset(cero_mpi_stream *streams, int count)
{
    for (int k = 0; k < count; k++) {
        streams[k].open = streams[k].slot == 0 ? streams[k].nbytes : 0;
        streams[k].posted = 0;
        streams[k].done = 0;
        streams[k].begun = 0;
        streams[k].ended = 0;
    }
}

void cero_mpi_streams_cancel(cero_mpi_stream *streams, int count)
{
    for (int k = 0; k < count; k++) {
        for (int i = 0; i < CERO_MPI_IN_FLIGHT; i++) {
            MPI_Request *request = &streams[k].request[i];
            int is_through = 0;
            if (*request != MPI_REQUEST_NULL && !streams[k].is_send) {
                (void)MPI_Cancel(request);
                (void)MPI_Test(request, &is_through, MPI_STATUS_IGNORE);
            }
            if (*request != MPI_REQUEST_NULL) {
                (void)MPI_Request_free(request);
            }
        }
    }
}
